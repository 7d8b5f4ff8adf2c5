/* Speed of the kernels that multiply by a weight matrix, on the default device: multiply-adds a
 * second of wall time, and of the process's CPU time, which on software devices is the steadier
 * figure when other programs run. Usage: linear_speed [FORMAT...]. Results are kept in NOTES.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "clocks.h"
#include "linear.h"
#include "step_state.h"

#define MAX_ROWS_HERE 64

typedef struct dispatch {
    harness *h;
    const linear_kernel *kernel;
    const matrix *w;
    const gpu_buffer *state;
    const linear_run *run;
} dispatch;

static void run_dispatch(void *what)
{
    const dispatch *d = what;

    linear_dispatch(d->h, d->kernel, d->w, d->state, d->run);
}

static void measure(harness *h, const linear_kernel *kernel, const matrix *w,
                    const gpu_buffer *state, const linear_run *run)
{
    dispatch d = {h, kernel, w, state, run};
    double n = (double)w->m * w->k * run->rows;
    run_times best = least_times(run_dispatch, &d);

    printf("%-22s outputs %3u rows %2u a group  %4u x %4u, %2u rows: %6.2f G/s %6.2f G/CPU-s\n",
           kernel->shader, kernel->outputs_per_group, kernel->rows_per_group, w->m, w->k, run->rows,
           n / best.wall * 1e-9, n / best.cpu * 1e-9);
    fflush(stdout);
}

static void measure_format(harness *h, const repack_info *info)
{
    static const uint32_t shapes[][2] = {{576, 576}, {1536, 576}, {576, 1536}};
    static const uint32_t row_counts[] = {1, 2, 4, 8, 17, 64};
    linear_kernel kernels[MAX_LINEAR_KERNELS];
    uint32_t n_kernels = linear_kernels(h, info, kernels);

    n_kernels += cooperative_kernels(h, info, kernels + n_kernels);
    uint64_t seed = 1;

    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        if (shapes[s][1] % format_find(info->format)->block_size != 0)
            continue;
        matrix w = matrix_random(h, info, shapes[s][0], shapes[s][1], WEIGHTS_EVEN, &seed);
        gpu_buffer state = harness_buffer(h, STATE_WORDS * 4, NULL);
        gpu_buffer x = harness_buffer(h, (size_t)MAX_ROWS_HERE * w.padded_k * 4, NULL);
        gpu_buffer y = harness_buffer(h, (size_t)MAX_ROWS_HERE * w.m * 4, NULL);

        for (uint32_t i = 0; i < MAX_ROWS_HERE * w.padded_k; i++)
            ((float *)x.mapped)[i] = random_unit(&seed);
        for (uint32_t c = 0; c < n_kernels; c++)
            for (size_t r = 0; r < sizeof row_counts / sizeof row_counts[0]; r++)
                measure(h, &kernels[c], &w, &state,
                        &(linear_run){
                            .rows = row_counts[r],
                            .x_stride = w.padded_k,
                            .y_stride = w.m,
                            .x = &x,
                            .y = &y,
                        });
        harness_free(h, &y);
        harness_free(h, &x);
        harness_free(h, &state);
        matrix_free(h, &w);
    }
}

static int n_wanted;
static char **wanted;

/* In a Check test because the harness reports failures that way. */
START_TEST(measure_formats)
{
    harness h;

    harness_open(&h);
    printf("%s\n", h.gpu->info->name);
    for (int i = 0; i < N_LINEAR_FORMATS; i++) {
        const repack_info *info = repack_find(linear_formats[i]);
        bool is_wanted = n_wanted == 0;

        for (int a = 0; a < n_wanted; a++)
            is_wanted |= strcmp(wanted[a], info->shader) == 0;
        if (is_wanted)
            measure_format(&h, info);
    }
    harness_close(&h);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("linear speed");
    TCase *tcase = tcase_create("linear speed");

    n_wanted = argc - 1;
    wanted = argv + 1;
    tcase_add_test(tcase, measure_formats);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

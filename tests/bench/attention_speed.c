/* Speed of the attention kernels on the default device: multiply-adds a second of wall time and of the
 * process's CPU time (see linear_speed.c), for one layer, each class's kernels and both caches.
 * Usage: attention_speed [HEADS KV_HEADS HEAD_SIZE [POSITIONS...]]. Results are kept in NOTES.md. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "clocks.h"
#include "harness.h"
#include "step_state.h"

#define MAX_ROWS_HERE 128

typedef struct layer {
    attention_shape shape;
    gpu_buffer q, k_cache, v_cache, state;
    uint32_t n_positions, q_stride;
} layer;

static uint32_t groups_of(uint32_t n, uint32_t of)
{
    return (n + of - 1) / of;
}

typedef struct dispatches {
    harness *h;
    const layer *l;
    const attention_plan *plan;
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS];
    VkPipeline pipeline, combine; /* the second may be VK_NULL_HANDLE */
    uint32_t rows;
} dispatches;

static void run_dispatches(void *what)
{
    const dispatches *d = what;
    const attention_plan *plan = d->plan;

    harness_run(d->h, d->pipeline, d->buffers, &d->l->state, &plan->push, sizeof plan->push,
                plan->groups_x, groups_of(d->rows, plan->rows_per_y),
                groups_of(d->l->n_positions, plan->split));
    if (d->combine)
        harness_run(d->h, d->combine, d->buffers, &d->l->state, &plan->push, sizeof plan->push,
                    d->l->shape.n_heads, d->rows, 1);
}

static void measure(harness *h, const layer *l, const tuning *t, attention_use use, uint32_t rows)
{
    static const char *const names[] = {"one row", "rows", "prefill"};
    const attention_plan plan = attention_make_plan(t, h->gpu->subgroup_size, &l->shape, use, rows,
                                                    l->n_positions + rows, l->q_stride, 0.1f);
    gpu_buffer out = harness_buffer(h, (plan.out_words + plan.n_counters) * 4, NULL);
    dispatches d = {
        .h = h,
        .l = l,
        .plan = &plan,
        .buffers = {&l->q, &l->k_cache, &l->v_cache, &out},
        .pipeline = harness_pipeline(h, plan.shader, plan.constants, ATTENTION_CONSTANTS, false),
        .rows = rows,
    };
    uint32_t *state = l->state.mapped;
    double n = (double)rows * l->n_positions * l->shape.n_heads * l->shape.head_size * 2;

    if (plan.combine_shader)
        d.combine = harness_pipeline(h, plan.combine_shader, plan.constants, ATTENTION_CONSTANTS,
                                     false);
    state[S_BASE] = l->n_positions - rows;
    state[S_ROWS] = rows;
    run_times best = least_times(run_dispatches, &d);
    printf("%-20s %-8s %5u positions, %3u rows: %8.0f us %8.0f us of CPU %6.2f G/CPU-s\n",
           plan.shader, names[use], l->n_positions, rows, best.wall * 1e6, best.cpu * 1e6,
           n / best.cpu * 1e-9);
    fflush(stdout);
    harness_free(h, &out);
}

static void measure_positions(harness *h, attention_shape shape, uint32_t n_positions)
{
    static const char *const classes[] = {"software", "gpu"};
    layer l = {.shape = shape, .n_positions = n_positions};
    uint64_t cache = attention_cache_bytes(&shape, n_positions + MAX_ROWS_HERE);

    l.q_stride = groups_of((shape.n_heads + 2 * shape.n_kv_heads) * shape.head_size, 4) * 4;
    l.q = harness_buffer(h, (size_t)MAX_ROWS_HERE * l.q_stride * 4, NULL);
    l.k_cache = harness_buffer(h, cache, NULL);
    l.v_cache = harness_buffer(h, cache, NULL);
    l.state = harness_buffer(h, STATE_WORDS * 4, NULL);
    memset(l.q.mapped, 0x3c, (size_t)MAX_ROWS_HERE * l.q_stride * 4);
    memset(l.k_cache.mapped, 0x2c, cache);
    memset(l.v_cache.mapped, 0x2c, cache);
    for (int c = 0; c < 2; c++) {
        measure(h, &l, tuning_of(classes[c]), ATTENTION_ONE_ROW, 1);
        measure(h, &l, tuning_of(classes[c]), ATTENTION_ROWS, 8);
        measure(h, &l, tuning_of(classes[c]), ATTENTION_PREFILL,
                n_positions < MAX_ROWS_HERE ? n_positions : MAX_ROWS_HERE);
    }
    harness_free(h, &l.state);
    harness_free(h, &l.v_cache);
    harness_free(h, &l.k_cache);
    harness_free(h, &l.q);
}

static int n_arguments;
static char **arguments;

/* In a Check test because the harness reports failures that way. */
START_TEST(measure_all)
{
    attention_shape shape = {9, 3, 64, OTR_CACHE_F16};
    harness h;

    if (n_arguments > 3) {
        shape.n_heads = (uint32_t)atoi(arguments[1]);
        shape.n_kv_heads = (uint32_t)atoi(arguments[2]);
        shape.head_size = (uint32_t)atoi(arguments[3]);
    }
    harness_open(&h);
    printf("%s, %u heads, %u of keys, of %u\n", h.gpu->info->name, shape.n_heads, shape.n_kv_heads,
           shape.head_size);
    for (int cache = 0; cache < (shape.head_size % 32 ? 1 : 2); cache++) {
        shape.cache = (otr_cache_type)cache;
        if (n_arguments <= 4)
            measure_positions(&h, shape, 1000);
        for (int i = 4; i < n_arguments; i++)
            measure_positions(&h, shape, (uint32_t)atoi(arguments[i]));
    }
    harness_close(&h);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("attention speed");
    TCase *tcase = tcase_create("attention speed");

    n_arguments = argc;
    arguments = argv;
    tcase_add_test(tcase, measure_all);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

/* matvec, matvec_direct, matmul and matmul_cooperative against a reference in double precision, over formats, odd
 * shapes and row counts; and that a row's bits depend neither on the number of rows nor on how they
 * are cut. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "linear.h"
#include "needs_tier.h"
#include "step_state.h"

#define POISON 0xffc0deadu /* a NaN that no kernel makes */

static uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Activations of n rows, 4 floats of finite padding after each. */
static gpu_buffer random_rows(harness *h, uint32_t n_rows, uint32_t stride, uint64_t *state)
{
    gpu_buffer x = harness_buffer(h, (size_t)n_rows * stride * 4, NULL);
    float *values = x.mapped;

    for (uint32_t i = 0; i < n_rows * stride; i++)
        values[i] = random_unit(state);
    return x;
}

static void fill(gpu_buffer *y, uint32_t n, uint32_t bits)
{
    uint32_t *words = y->mapped;

    for (uint32_t i = 0; i < n; i++)
        words[i] = bits;
}

#define OFFSET 3 /* of output 0 in a row of y */

/* A matrix with activations and room for results: OFFSET floats before and 5 after a row's outputs,
 * one row more than ever written. */
typedef struct problem {
    harness *h;
    matrix w;
    uint32_t n_rows, x_stride, y_stride, n_y;
    gpu_buffer state, x, y;
    uint32_t *expected; /* [n_rows][m] bits that the kernel family gave first */
} problem;

static void problem_create(problem *p, harness *h, const repack_info *info, uint32_t m, uint32_t k,
                           uint32_t n_rows, enum weights_kind kind, uint64_t *state)
{
    memset(p, 0, sizeof *p);
    p->h = h;
    p->w = matrix_random(h, info, m, k, kind, state);
    p->n_rows = n_rows;
    p->x_stride = p->w.padded_k + 4;
    p->y_stride = m + OFFSET + 5;
    p->n_y = (n_rows + 1) * p->y_stride;
    p->state = harness_buffer(h, STATE_WORDS * 4, NULL);
    p->x = random_rows(h, n_rows, p->x_stride, state);
    p->y = harness_buffer(h, (size_t)p->n_y * 4, NULL);
    p->expected = malloc((size_t)n_rows * m * 4);
    ck_assert_ptr_nonnull(p->expected);
}

static void problem_destroy(problem *p)
{
    matrix_free(p->h, &p->w);
    harness_free(p->h, &p->state);
    harness_free(p->h, &p->x);
    harness_free(p->h, &p->y);
    free(p->expected);
}

static void run_rows(problem *p, const linear_kernel *kernel, uint32_t n_rows, bool fold)
{
    fill(&p->y, p->n_y, POISON);
    linear_dispatch(p->h, kernel, &p->w, &p->state,
                    &(linear_run){
                        .rows = n_rows,
                        .x_stride = p->x_stride,
                        .y_stride = p->y_stride,
                        .y_offset = OFFSET,
                        .x = &p->x,
                        .y = &p->y,
                        .fold = fold,
                    });
}

static uint32_t output_bits(const problem *p, uint32_t row, uint32_t o)
{
    return ((const uint32_t *)p->y.mapped)[row * p->y_stride + OFFSET + o];
}

/* Everything that n_rows rows should not have touched is as it was. */
static void check_untouched(const problem *p, const linear_kernel *kernel, uint32_t n_rows)
{
    const uint32_t *words = p->y.mapped;

    for (uint32_t i = 0; i < p->n_y; i++) {
        uint32_t row = i / p->y_stride, column = i % p->y_stride;
        bool is_output = row < n_rows && column >= OFFSET && column < OFFSET + p->w.m;

        ck_assert_msg(is_output || words[i] == POISON, "%s, %u x %u, %u rows: wrote row %u, %d",
                      kernel->shader, p->w.m, p->w.k, n_rows, row, (int)column - OFFSET);
    }
}

static void check_reference(const problem *p, const linear_kernel *kernel)
{
    for (uint32_t row = 0; row < p->n_rows; row++)
        for (uint32_t o = 0; o < p->w.m; o++) {
            uint32_t bits = output_bits(p, row, o);
            float got;
            dot want = matrix_dot(&p->w, o, (const float *)p->x.mapped + (size_t)row * p->x_stride);
            double error = linear_error(kernel, &p->w, &want);

            memcpy(&got, &bits, sizeof got);
            ck_assert_msg(fabs((double)got - want.sum) <= error,
                          "%s, %u x %u, row %u, output %u: %.9g, not %.9g +- %.2g", kernel->shader,
                          p->w.m, p->w.k, row, o, (double)got, want.sum, error);
        }
}

static void keep_expected(problem *p)
{
    for (uint32_t row = 0; row < p->n_rows; row++)
        for (uint32_t o = 0; o < p->w.m; o++)
            p->expected[row * p->w.m + o] = output_bits(p, row, o);
}

static void check_same_bits(const problem *p, const linear_kernel *kernel, uint32_t n_rows)
{
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t o = 0; o < p->w.m; o++)
            ck_assert_msg(output_bits(p, row, o) == p->expected[row * p->w.m + o],
                          "%s, rows a group %u, %u x %u: row %u, output %u is %08x with %u rows, "
                          "%08x before",
                          kernel->shader, kernel->rows_per_group, p->w.m, p->w.k, row, o,
                          output_bits(p, row, o), n_rows, p->expected[row * p->w.m + o]);
}

static const repack_info *info_of(int format)
{
    const repack_info *info = repack_find(linear_formats[format]);

    ck_assert_ptr_nonnull(info);
    return info;
}

/* Shapes in units of the format's block, so that a row is whole; floats: weights. */
typedef struct shape {
    uint32_t m, k;
} shape;
#define N_SHAPES 7
static const shape float_shapes[N_SHAPES] = {{1, 1},    {5, 8},   {37, 172}, {66, 130},
                                             {9, 4099}, {2, 999}, {130, 20}};
static const shape block_shapes[N_SHAPES] = {{1, 1},   {5, 2},  {37, 9}, {66, 6},
                                             {9, 131}, {2, 31}, {130, 3}};
static const shape super_shapes[N_SHAPES] = {{1, 1},  {5, 2}, {37, 3}, {66, 1},
                                             {9, 17}, {2, 9}, {130, 1}};

static shape shape_of(const repack_info *info, int i)
{
    uint32_t block = format_find(info->format)->block_size;
    shape s = block == 1 ? float_shapes[i] : block == 32 ? block_shapes[i] : super_shapes[i];

    return (shape){s.m, s.k * block};
}

/* What one format's tests share: making the kernels takes most of the time. */
static uint32_t (*make_kernels)(harness *h, const repack_info *info,
                                linear_kernel out[MAX_LINEAR_KERNELS]) = linear_kernels;

typedef struct format_kernels {
    harness h;
    const repack_info *info;
    linear_kernel kernels[MAX_LINEAR_KERNELS];
    uint32_t n_kernels;
    uint64_t seed;
} format_kernels;

/* Row counts from 1, every `step`, against MAX_ROWS rows and those against the reference. */
static void shape_is_right(format_kernels *f, shape s, enum weights_kind kind, uint32_t step)
{
    problem p;

    problem_create(&p, &f->h, f->info, s.m, s.k, MAX_ROWS, kind, &f->seed);
    for (uint32_t c = 0; c < f->n_kernels; c++) {
        const linear_kernel *kernel = &f->kernels[c];

        run_rows(&p, kernel, MAX_ROWS, false);
        check_untouched(&p, kernel, MAX_ROWS);
        check_reference(&p, kernel);
        /* Forms of one kernel (the same shader) must agree, whatever their sizes. */
        if (c > 0 && strcmp(kernel->shader, f->kernels[c - 1].shader) == 0)
            check_same_bits(&p, kernel, MAX_ROWS);
        else
            keep_expected(&p);
        for (uint32_t n_rows = 1; n_rows < MAX_ROWS; n_rows += step) {
            run_rows(&p, kernel, n_rows, n_rows % 5 == 0);
            check_untouched(&p, kernel, n_rows);
            check_same_bits(&p, kernel, n_rows);
        }
    }
    problem_destroy(&p);
}

static void rows_are_right_and_alike(format_kernels *f)
{
    for (int i = 0; i < N_SHAPES; i++)
        shape_is_right(f, shape_of(f->info, i), i % 2 ? WEIGHTS_WIDE : WEIGHTS_EVEN, 1);
}

/* In a sum with larger ones they would not show. */
static void subnormal_scales_are_right(format_kernels *f)
{
    shape_is_right(f, shape_of(f->info, 2), WEIGHTS_SUBNORMAL, 15);
}

/* From the shortest rows to those of large models, each twice as long. */
static void rows_of_all_lengths_are_right(format_kernels *f)
{
    uint32_t block = format_find(f->info->format)->block_size;

    for (uint32_t k = 32; k <= 16384; k *= 2)
        if (k % block == 0)
            shape_is_right(f, (shape){k % 3 + 2, k}, WEIGHTS_EVEN, 15);
}

/* The last rows alone: what was row n_rows - 5 is row 0. */
static void check_tail(problem *p, const linear_kernel *kernel)
{
    size_t n = (size_t)p->n_rows * p->x_stride, skip = p->n_rows - 5;
    float *x = p->x.mapped, *copy = malloc(n * sizeof *copy);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, x, n * sizeof *copy);
    memmove(x, x + skip * p->x_stride, 5 * p->x_stride * sizeof *x);
    run_rows(p, kernel, 5, false);
    memmove(p->expected, p->expected + skip * p->w.m, 5 * p->w.m * sizeof *p->expected);
    check_same_bits(p, kernel, 5);
    memcpy(x, copy, n * sizeof *copy);
    free(copy);
}

/* Prefill: a chunk of rows against the same rows in smaller chunks. */
static void cuts_of_many_rows_are_alike(format_kernels *f)
{
    static const uint32_t cuts[] = {1, 7, 8, 17, 33, 63, 64, 65, 129, 199};
    uint32_t n_rows = harness_is_slow(&f->h) ? 70 : f->kernels[0].uses_halfs ? 200 : 150;
    problem p;

    problem_create(&p, &f->h, f->info, 70, shape_of(f->info, 2).k, n_rows, WEIGHTS_EVEN, &f->seed);
    for (uint32_t c = 0; c < f->n_kernels; c++) {
        const linear_kernel *kernel = &f->kernels[c];

        run_rows(&p, kernel, n_rows, false);
        check_untouched(&p, kernel, n_rows);
        check_reference(&p, kernel);
        keep_expected(&p);
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0] && cuts[i] < n_rows; i++) {
            run_rows(&p, kernel, cuts[i], false);
            check_untouched(&p, kernel, cuts[i]);
            check_same_bits(&p, kernel, cuts[i]);
        }
        check_tail(&p, kernel);
    }
    problem_destroy(&p);
}

/* From -36 to 36. */
static int row_exponent(uint32_t row)
{
    return (int)(row * 14 % 74) - 36;
}

/* Weights in F32 times 2^exponent. */
static void scale_floats(matrix *w, int exponent)
{
    float *values = w->buffer.mapped;

    for (uint32_t i = 0; i < w->m * w->padded_k; i++)
        values[i] = ldexpf(values[i], exponent);
    w->largest = ldexp(w->largest, exponent);
}

#define RESIDUAL 0.375f
#define BIAS_OFFSET 3

static void check_flags(problem *p, const linear_kernel *kernel, const gpu_buffer *bias,
                        uint32_t flags)
{
    fill(&p->y, p->n_y, float_bits(RESIDUAL));
    linear_dispatch(p->h, kernel, &p->w, &p->state,
                    &(linear_run){
                        .rows = p->n_rows,
                        .x_stride = p->x_stride,
                        .y_stride = p->y_stride,
                        .y_offset = OFFSET,
                        .flags = flags,
                        .bias_offset = BIAS_OFFSET,
                        .x = &p->x,
                        .y = &p->y,
                        .bias = bias,
                    });
    for (uint32_t i = 0; i < p->n_y; i++) {
        uint32_t row = i / p->y_stride, o = i % p->y_stride - OFFSET;
        uint32_t got = ((const uint32_t *)p->y.mapped)[i];
        float want = RESIDUAL;

        if (row < p->n_rows && o < p->w.m) {
            memcpy(&want, &p->expected[row * p->w.m + o], sizeof want);
            if (flags & LINEAR_BIAS)
                want += ((const float *)bias->mapped)[BIAS_OFFSET + o];
            if (flags & LINEAR_ACCUMULATE)
                want += RESIDUAL;
        }
        ck_assert_msg(got == float_bits(want), "%s, flags %u, row %u, output %d", kernel->shader,
                      flags, row, (int)o);
    }
}

static void flags_add_bias_and_residual(format_kernels *f)
{
    static const uint32_t flags[] = {
        LINEAR_BIAS,
        LINEAR_ACCUMULATE,
        LINEAR_OUT_ROWS,
        LINEAR_BIAS | LINEAR_ACCUMULATE,
        LINEAR_BIAS | LINEAR_ACCUMULATE | LINEAR_OUT_ROWS,
    };
    problem p;

    problem_create(&p, &f->h, f->info, 75, shape_of(f->info, 1).k, 11, WEIGHTS_WIDE, &f->seed);
    gpu_buffer bias = random_rows(&f->h, 1, BIAS_OFFSET + p.w.m, &f->seed);
    for (uint32_t c = 0; c < f->n_kernels; c++) {
        run_rows(&p, &f->kernels[c], p.n_rows, false);
        check_reference(&p, &f->kernels[c]);
        keep_expected(&p);
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
            check_flags(&p, &f->kernels[c], &bias, flags[i]);
    }
    harness_free(&f->h, &bias);
    problem_destroy(&p);
}

/* Gate and up in turns: the plain outputs of the same kernel, through SwiGLU in double precision. */
static void pairs_go_through_swiglu(format_kernels *f)
{
    problem p;

    problem_create(&p, &f->h, f->info, 74, shape_of(f->info, 1).k, 11, WEIGHTS_EVEN, &f->seed);
    for (uint32_t c = 0; c < f->n_kernels; c++) {
        const linear_kernel *kernel = &f->kernels[c];

        run_rows(&p, kernel, p.n_rows, false);
        keep_expected(&p);
        fill(&p.y, p.n_y, float_bits(RESIDUAL));
        linear_dispatch(p.h, kernel, &p.w, &p.state,
                        &(linear_run){
                            .rows = p.n_rows,
                            .x_stride = p.x_stride,
                            .y_stride = p.y_stride,
                            .y_offset = OFFSET,
                            .flags = LINEAR_SWIGLU,
                            .x = &p.x,
                            .y = &p.y,
                        });
        for (uint32_t i = 0; i < p.n_y; i++) {
            uint32_t row = i / p.y_stride, o = i % p.y_stride - OFFSET;
            double got = (double)((const float *)p.y.mapped)[i], want = (double)RESIDUAL;

            if (row < p.n_rows && o < p.w.m / 2) {
                float pair[2];

                memcpy(pair, &p.expected[row * p.w.m + 2 * o], sizeof pair);
                want = (double)pair[0] / (1 + exp(-(double)pair[0])) * (double)pair[1];
            }
            ck_assert_msg(fabs(got - want) <= 4e-6 * fabs(want) + 1e-30,
                          "%s, row %u, output %d: %g, %g", kernel->shader, row, (int)o, got, want);
        }
    }
    problem_destroy(&p);
}

/* Kernels with halfs: rows and weights far outside their range give the same bits, but for the power
 * of two. */
static void powers_of_two_pass_through(format_kernels *f)
{
    problem p;

    problem_create(&p, &f->h, f->info, 70, shape_of(f->info, 2).k, 37, WEIGHTS_EVEN, &f->seed);
    for (uint32_t c = 0; c < f->n_kernels && f->kernels[c].uses_halfs; c++) {
        const linear_kernel *kernel = &f->kernels[c];
        float *x = p.x.mapped;

        run_rows(&p, kernel, p.n_rows, false);
        keep_expected(&p);
        for (uint32_t i = 0; i < p.n_rows * p.x_stride; i++)
            x[i] = ldexpf(x[i], row_exponent(i / p.x_stride));
        if (f->info->format == FORMAT_F32)
            scale_floats(&p.w, 50);
        run_rows(&p, kernel, p.n_rows, false);
        for (uint32_t row = 0; row < p.n_rows; row++)
            for (uint32_t o = 0; o < p.w.m; o++) {
                float before;

                memcpy(&before, &p.expected[row * p.w.m + o], sizeof before);
                before = ldexpf(before,
                                row_exponent(row) + (f->info->format == FORMAT_F32 ? 50 : 0));
                ck_assert_msg(output_bits(&p, row, o) == float_bits(before),
                              "%s, row %u, output %u is %08x, not %08x", kernel->shader, row, o,
                              output_bits(&p, row, o), float_bits(before));
            }
        for (uint32_t i = 0; i < p.n_rows * p.x_stride; i++)
            x[i] = ldexpf(x[i], -row_exponent(i / p.x_stride));
        if (f->info->format == FORMAT_F32)
            scale_floats(&p.w, -50);
    }
    problem_destroy(&p);
}

START_TEST(every_format)
{
    format_kernels f = {.info = info_of(_i), .seed = 77 + (uint64_t)_i};

    harness_open(&f.h);
    f.n_kernels = make_kernels(&f.h, f.info, f.kernels);
    rows_are_right_and_alike(&f);
    subnormal_scales_are_right(&f);
    rows_of_all_lengths_are_right(&f);
    cuts_of_many_rows_are_alike(&f);
    flags_add_bias_and_residual(&f);
    pairs_go_through_swiglu(&f);
    powers_of_two_pass_through(&f);
    harness_close(&f.h);
}
END_TEST

/* The longest rows that the kernels state: some drivers end an invocation's loops after 65,535
 * rounds. All terms are positive, so that a missing part shows. */
START_TEST(longest_rows_are_complete)
{
    harness h;
    linear_kernel kernels[MAX_LINEAR_KERNELS];
    const repack_info *info = info_of(0);
    uint64_t state = 3;

    harness_open(&h);
    uint32_t n_kernels = make_kernels(&h, info, kernels);
    uint32_t rows = harness_is_slow(&h) ? 9 : MAX_ROWS;
    for (uint32_t c = 0; c < n_kernels; c++) {
        bool is_tiled = strncmp(kernels[c].shader, "matmul", 6) == 0;
        problem p;

        problem_create(&p, &h, info, 3, is_tiled ? 32768 : 65536, rows, WEIGHTS_POSITIVE, &state);
        float *x = p.x.mapped;
        for (uint32_t i = 0; i < rows * p.x_stride; i++)
            x[i] = fabsf(x[i]);
        run_rows(&p, &kernels[c], rows, false);
        check_reference(&p, &kernels[c]);
        problem_destroy(&p);
    }
    harness_close(&h);
}
END_TEST

/* Argument: which of linear_formats to test (see suite_part); or "cooperative": all of them with
 * the kernel of tier 3. */
int main(int argc, char **argv)
{
    bool is_cooperative = argc > 1 && !strcmp(argv[1], "cooperative");
    int first, end;

    suite_part(argv[1], N_LINEAR_FORMATS, &first, &end);
    if (is_cooperative && !needs_tier(3))
        return 77;
    make_kernels = is_cooperative ? cooperative_kernels : linear_kernels;
    Suite *suite = suite_create("matvec");
    TCase *tcase = tcase_create("matvec");

    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, every_format, first, end);
    if (first == 0)
        tcase_add_test(tcase, longest_rows_are_complete);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

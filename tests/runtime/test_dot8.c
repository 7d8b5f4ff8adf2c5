/* Tier 2: quantise and matvec_dot against references in double precision, over formats, lengths of
 * rows and row counts; and that a row's bits don't depend on the number of rows. Run with
 * OUTRIDER_DEBUG=dot8: no device uses these kernels by itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "linear.h"
#include "needs_tier.h"
#include "step_state.h"

#define POISON 0xffc0deadu
#define OFFSET 3

static const enum tensor_format formats[] = {FORMAT_Q8_0, FORMAT_Q4_0, FORMAT_Q4_1};
static const uint32_t shapes[][2] = {{1, 32}, {37, 96}, {66, 576}, {2, 4128}, {3, 16384}};
#define N_FORMATS (int)(sizeof formats / sizeof formats[0])
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* Rows that are hard to round: of one large number among small ones, tiny, huge, of zeros. */
static void fill_rows(float *x, uint32_t n_rows, uint32_t stride, uint64_t *seed)
{
    static const int exponents[] = {0, -40, 60, 0, -120, -149, 0, 3};

    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < stride; i++) {
            float value = random_unit(seed);
            x[r * stride + i] = r == 3 ? 0 : ldexpf(value, exponents[r % 8]);
            if (r == 6 && i % 32 == 7)
                x[r * stride + i] = 1000;
        }
}

static gpu_buffer quantise(harness *h, const gpu_buffer *x, uint32_t k, uint32_t x_stride,
                           uint32_t n_rows)
{
    const uint32_t n_blocks = k / QUANTISED_BLOCK, lanes = 32, push[] = {n_blocks, x_stride};
    gpu_buffer out = harness_buffer(h, (n_rows * n_blocks * QUANTISED_WORDS + 4) * 4ull, NULL);
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS] = {x, &out};
    uint32_t *words = out.mapped;

    for (uint32_t i = 0; i < 4; i++)
        words[n_rows * n_blocks * QUANTISED_WORDS + i] = POISON;
    harness_run(h, harness_pipeline(h, "quantise", &lanes, 1, false), buffers, NULL, push,
                sizeof push, (n_blocks + lanes - 1) / lanes, n_rows, 1);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(words[n_rows * n_blocks * QUANTISED_WORDS + i], POISON);
    return out;
}

static double block_scale(const uint32_t *block)
{
    float scale;

    memcpy(&scale, &block[8], sizeof scale);
    return (double)scale;
}

/* Each number is rounded to the nearest multiple of the scale, and the sums are those of the bytes. */
static void check_block(const uint32_t *block, const float *x)
{
    const int8_t *bytes = (const int8_t *)block;
    const double scale = block_scale(block);
    double largest = 0;
    int sums[2] = {0};

    for (int i = 0; i < QUANTISED_BLOCK; i++)
        largest = fmax(largest, fabs((double)x[i]));
    if (largest < 1e-35) /* what no sum would show */
        largest = 0;
    ck_assert_double_le(fabs(scale - largest / 127), 1e-6 * largest);
    for (int i = 0; i < QUANTISED_BLOCK; i++) {
        ck_assert_int_ge(bytes[i], -127);
        sums[i / 16] += bytes[i];
        ck_assert_double_le(fabs((largest > 0 ? (double)x[i] : 0) - bytes[i] * scale),
                            0.501 * scale);
    }
    ck_assert_int_eq((int)block[9], sums[0]);
    ck_assert_int_eq((int)block[10], sums[1]);
}

static void check_output(const linear_kernel *kernel, const matrix *w, const uint32_t *row,
                         uint32_t o, double got)
{
    dot want = {0};

    for (uint32_t i = 0; i < w->k; i++) {
        const uint32_t *block = row + i / QUANTISED_BLOCK * QUANTISED_WORDS;
        double x = ((const int8_t *)block)[i % QUANTISED_BLOCK] * block_scale(block);

        want.sum += w->values[(uint64_t)o * w->k + i] * x;
        want.magnitude += w->magnitudes[(uint64_t)o * w->k + i] * fabs(x);
    }
    ck_assert_msg(fabs(got - want.sum) <= linear_error(kernel, w, &want),
                  "%s, %u x %u, output %u: %.9g, not %.9g", kernel->shader, w->m, w->k, o, got,
                  want.sum);
}

static void run(harness *h, const linear_kernel *kernel, const matrix *w, const gpu_buffer *x,
                const gpu_buffer *y, const gpu_buffer *state, uint32_t n_rows)
{
    for (uint32_t i = 0; i < y->size / 4; i++)
        ((uint32_t *)y->mapped)[i] = POISON;
    linear_dispatch(h, kernel, w, state,
                    &(linear_run){
                        .rows = n_rows,
                        .x_stride = w->k / QUANTISED_BLOCK * QUANTISED_WORDS,
                        .y_stride = w->m + OFFSET,
                        .y_offset = OFFSET,
                        .x = x,
                        .y = y,
                    });
}

/* All row counts give the bits of MAX_ROWS rows; nothing else is written. */
static void check_row_counts(harness *h, const linear_kernel *kernel, const matrix *w,
                             const gpu_buffer *x, const gpu_buffer *y, const gpu_buffer *state,
                             const uint32_t *expected)
{
    for (uint32_t n_rows = 1; n_rows <= MAX_ROWS; n_rows++) {
        run(h, kernel, w, x, y, state, n_rows);
        for (uint32_t i = 0; i < y->size / 4; i++) {
            uint32_t column = i % (w->m + OFFSET), got = ((const uint32_t *)y->mapped)[i];
            bool is_output = i / (w->m + OFFSET) < n_rows && column >= OFFSET;

            ck_assert_msg(got == (is_output ? expected[i] : POISON), "%s, %u rows: word %u",
                          kernel->shader, n_rows, i);
        }
    }
}

static void check_shape(harness *h, const linear_kernel *kernels, int n_kernels,
                        const repack_info *info, uint32_t m, uint32_t k, uint64_t *seed)
{
    const uint32_t stride = k + 4, row_words = k / QUANTISED_BLOCK * QUANTISED_WORDS;
    matrix w = matrix_random(h, info, m, k, WEIGHTS_EVEN, seed);
    gpu_buffer x = harness_buffer(h, (size_t)MAX_ROWS * stride * 4, NULL);
    gpu_buffer y = harness_buffer(h, (size_t)(MAX_ROWS + 1) * (m + OFFSET) * 4, NULL);
    gpu_buffer state = harness_buffer(h, STATE_WORDS * 4, NULL);
    uint32_t *expected = malloc(y.size);

    ck_assert_ptr_nonnull(expected);
    fill_rows(x.mapped, MAX_ROWS, stride, seed);
    gpu_buffer q = quantise(h, &x, k, stride, MAX_ROWS);
    const uint32_t *blocks = q.mapped;
    for (uint32_t r = 0; r < MAX_ROWS; r++)
        for (uint32_t b = 0; b < k / QUANTISED_BLOCK; b++)
            check_block(blocks + r * row_words + b * QUANTISED_WORDS,
                        (const float *)x.mapped + r * stride + b * QUANTISED_BLOCK);
    run(h, &kernels[0], &w, &q, &y, &state, MAX_ROWS);
    for (uint32_t r = 0; r < MAX_ROWS; r++)
        for (uint32_t o = 0; o < m; o++)
            check_output(&kernels[0], &w, blocks + r * row_words, o,
                         (double)((const float *)y.mapped)[r * (m + OFFSET) + OFFSET + o]);
    memcpy(expected, y.mapped, y.size);
    for (int i = 0; i < n_kernels; i++)
        check_row_counts(h, &kernels[i], &w, &q, &y, &state, expected);
    free(expected);
    harness_free(h, &state);
    harness_free(h, &q);
    harness_free(h, &y);
    harness_free(h, &x);
    matrix_free(h, &w);
}

/* Two sizes of workgroups, which must not show. */
static linear_kernel dot_kernel(harness *h, const char *format, uint32_t subgroups,
                                uint32_t outputs)
{
    uint32_t lanes = h->gpu->subgroup_size;
    linear_kernel kernel = {
        .constants = {lanes * subgroups, lanes, outputs, 32, 8},
        .n_constants = 5,
        .outputs_per_group = outputs * subgroups,
        .rows_per_group = 32,
        .lanes = lanes,
        .pins_subgroup = true,
    };

    snprintf(kernel.shader, sizeof kernel.shader, "matvec_dot_%s", format);
    kernel.pipeline = harness_pipeline(h, kernel.shader, kernel.constants, 5, true);
    return kernel;
}

START_TEST(every_format)
{
    const repack_info *info = repack_find(formats[_i]);
    uint64_t seed = 5 + (uint64_t)_i;
    harness h;

    ck_assert(info->has_dot8);
    harness_open(&h);
    ck_assert(h.gpu->uses_dot8);
    const linear_kernel kernels[] = {dot_kernel(&h, info->shader, 1, 4),
                                     dot_kernel(&h, info->shader, 2, 2)};
    for (size_t i = 0; i < N_SHAPES; i++)
        check_shape(&h, kernels, 2, info, shapes[i][0], shapes[i][1], &seed);
    harness_close(&h);
}
END_TEST

/* Damage must show in the logits, not be rounded away. */
START_TEST(what_is_not_finite_stays_so)
{
    harness h;

    harness_open(&h);
    gpu_buffer x = harness_buffer(&h, 3 * QUANTISED_BLOCK * 4, NULL);
    float *values = x.mapped;
    values[5] = NAN;
    values[QUANTISED_BLOCK + 31] = -INFINITY;
    gpu_buffer q = quantise(&h, &x, 3 * QUANTISED_BLOCK, 3 * QUANTISED_BLOCK, 1);
    ck_assert(isnan(block_scale(q.mapped)));
    ck_assert(isnan(block_scale((const uint32_t *)q.mapped + QUANTISED_WORDS)));
    ck_assert(block_scale((const uint32_t *)q.mapped + 2 * QUANTISED_WORDS) == 0);
    harness_close(&h);
}
END_TEST

int main(void)
{
    if (!needs_tier(2))
        return 77;
    Suite *suite = suite_create("tier 2");
    TCase *tcase = tcase_create("tier 2");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, every_format, 0, N_FORMATS);
    tcase_add_test(tcase, what_is_not_finite_stays_so);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* Self-test of the kernel that rounds activations to 8 bits for tier 2, and with it the inputs of
 * matvec_dot's checks (selftest_weights.c). */
#include <math.h>
#include <string.h>

#include "selftest.h"
#include "step_state.h"

#define HALF (QUANTISED_BLOCK / 2)
#define AT_SCALE 8 /* words of a block: 32 bytes, the scale, the sums of both halves, 0 */
#define AT_SUMS 9

static double scale_of(const uint32_t *block)
{
    float scale;

    memcpy(&scale, block + AT_SCALE, sizeof scale);
    return (double)scale;
}

/* Each number is the nearest multiple of the scale, with a rounding of the quotient, and the largest is
 * 127 times it. */
static void compare_block(selftest *t, uint32_t row, uint32_t first, const uint32_t *block,
                          const float *x)
{
    const int8_t *bytes = (const int8_t *)block;
    const double scale = scale_of(block);
    double largest = 0;
    uint32_t sums[3] = {0};

    for (uint32_t i = 0; i < QUANTISED_BLOCK; i++) {
        largest = fmax(largest, fabs((double)x[i]));
        sums[i / HALF] += (uint32_t)bytes[i];
        expect_near(t, row, first + i, bytes[i] * scale, (double)x[i], 0.501 * scale);
    }
    expect_near(t, row, first, scale, largest / 127, largest * 0x1p-24);
    expect_words(t, "sums of bytes", block + AT_SUMS, sums, 3);
}

gpu_buffer *check_quantise(selftest *t, const gpu_buffer *x, uint32_t k, uint32_t rows,
                           double *values)
{
    const uint32_t lanes = t->tuning.elementwise_lanes, n_blocks = k / QUANTISED_BLOCK;
    const uint64_t n_words = (uint64_t)rows * n_blocks * QUANTISED_WORDS;
    struct {
        uint32_t n_blocks, x_stride;
    } push = {n_blocks, k};
    selftest_tiers(t, 2, 3);
    kernel_run run = {
        .pipeline = selftest_pipeline(t, "quantise", &lanes, 1, false),
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(n_blocks + lanes - 1) / lanes, rows, 1},
    };
    gpu_buffer *out = selftest_buffer(t, (n_words + 8) * 4);

    if (t->result != OTR_OK)
        return NULL;
    run.buffers[0] = (gpu_buffer *)x;
    run.buffers[1] = out;
    selftest_begin(t, "quantise k=%u rows=%u", k, rows);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        const uint32_t *words = out->mapped;

        poison(out);
        selftest_dispatch(t, &run);
        for (uint32_t b = 0; b < rows * n_blocks && t->result == OTR_OK; b++)
            compare_block(t, b / n_blocks, b % n_blocks * QUANTISED_BLOCK,
                          words + (uint64_t)b * QUANTISED_WORDS,
                          (const float *)x->mapped + (uint64_t)b * QUANTISED_BLOCK);
        expect_poison(t, out, n_words, n_words + 8);
    }
    selftest_end(t, "tier 2");
    for (uint64_t i = 0; i < (uint64_t)rows * k; i++) {
        const uint32_t *block = (const uint32_t *)out->mapped +
                                i / QUANTISED_BLOCK * QUANTISED_WORDS;
        values[i] = ((const int8_t *)block)[i % QUANTISED_BLOCK] * scale_of(block);
    }
    return t->result == OTR_OK ? out : NULL;
}

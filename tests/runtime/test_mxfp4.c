/* The kernels that multiply by weights in MXFP4 at the ends of its exponents: what other tests take, near
 * 1, says nothing of how a scale is made there. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "linear.h"
#include "step_state.h"

enum { M = 5, BLOCKS = 3, K = 32 * BLOCKS, BLOCK_BYTES = 17, STRIDE = K + 4 };

/* The largest level (doubled) whose value is finite as a float, and activations of a size at which sums
 * are normal. */
static const struct {
    int exponent, largest_level, x_exponent;
} ends[] = {
    {0, 12, 60},    {1, 12, 60},   {2, 12, 60},   {3, 12, 60},
    {252, 12, -60}, {253, 6, -60}, {254, 3, -60}, {255, 1, -60},
};

static void fill_blocks(uint8_t *blocks, int exponent, int largest_level, uint64_t *seed)
{
    static const int levels[8] = {0, 1, 2, 3, 4, 6, 8, 12}; /* of the lower three bits */

    for (int b = 0; b < M * BLOCKS; b++) {
        uint8_t *block = blocks + b * BLOCK_BYTES;

        block[0] = (uint8_t)exponent;
        for (int i = 0; i < 32; i++) {
            uint32_t number;

            do
                number = random_u32(seed) % 16;
            while (levels[number % 8] > largest_level);
            if (i < 16)
                block[1 + i] = (uint8_t)number;
            else
                block[1 + i - 16] |= (uint8_t)(number << 4);
        }
    }
}

START_TEST(ends_of_the_exponents)
{
    const repack_info *info = repack_find(FORMAT_MXFP4);
    linear_kernel kernels[MAX_LINEAR_KERNELS];
    uint8_t blocks[M * BLOCKS * BLOCK_BYTES];
    uint64_t seed = 11;
    harness h;

    harness_open(&h);
    const bool flushes = flushes_subnormals(&h);
    uint32_t n_kernels = linear_kernels(&h, info, kernels);
    n_kernels += cooperative_kernels(&h, info, kernels + n_kernels);
    ck_assert_uint_le(n_kernels, MAX_LINEAR_KERNELS);
    gpu_buffer x = harness_buffer(&h, MAX_ROWS * STRIDE * 4, NULL);
    gpu_buffer y = harness_buffer(&h, MAX_ROWS * M * 4, NULL);
    gpu_buffer state = harness_buffer(&h, STATE_WORDS * 4, NULL);
    float *in = x.mapped;
    const float *out = y.mapped;

    for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
        fill_blocks(blocks, ends[e].exponent, ends[e].largest_level, &seed);
        matrix w = matrix_of(&h, info, M, K, blocks);
        for (uint32_t i = 0; i < MAX_ROWS * STRIDE; i++)
            in[i] = ldexpf(random_unit(&seed), ends[e].x_exponent);
        for (uint32_t c = 0; c < n_kernels; c++) {
            memset(y.mapped, 0xff, y.size);
            linear_dispatch(
                &h, &kernels[c], &w, &state,
                &(linear_run){
                    .rows = MAX_ROWS, .x_stride = STRIDE, .y_stride = M, .x = &x, .y = &y});
            for (uint32_t i = 0; i < MAX_ROWS * M; i++) {
                dot want = matrix_dot(&w, i % M, in + i / M * STRIDE);
                double error = linear_error(&kernels[c], &w, &want);

                if (flushes && ends[e].exponent < 2)
                    error += want.magnitude; /* any of the terms may be left out */
                ck_assert_msg(fabs((double)out[i] - want.sum) <= error,
                              "%s, exponent %d, row %u, output %u: %.9g, not %.9g +- %.2g",
                              kernels[c].shader, ends[e].exponent, i / M, i % M, (double)out[i],
                              want.sum, error);
            }
        }
        matrix_free(&h, &w);
    }
    printf("subnormal floats are %s\n", flushes ? "zero here" : "numbers here");
    harness_close(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("MXFP4");
    TCase *tcase = tcase_create("MXFP4");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, ends_of_the_exponents);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* The embedding gather: every format bit for bit against the reference dequantiser, every half,
 * tables in parts, and what must stay untouched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "linear.h"
#include "step_state.h"

#define POISON 0xffc0deadu
#define LANES 64

static void embed(harness *h, VkPipeline pipeline, const matrix *w, uint32_t first_token,
                  const gpu_buffer *lane, const gpu_buffer *state, const gpu_buffer *out,
                  uint32_t out_stride, float scale, uint32_t rows)
{
    uint32_t n_chunks = w->padded_k / w->info->chunk;
    uint32_t push[8] = {
        first_token,       w->m,       n_chunks, w->plane_words[1], w->plane_words[2],
        w->plane_words[3], out_stride, 0};
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS] = {&w->buffer, lane, out, NULL};

    memcpy(&push[7], &scale, sizeof scale);
    harness_run(h, pipeline, buffers, state, push, sizeof push, (n_chunks + LANES - 1) / LANES,
                rows, 1);
}

static VkPipeline embed_pipeline(harness *h, const repack_info *info, bool half_from_bits)
{
    char name[32];
    const uint32_t constants[8] = {LANES, 0, 0, 0, 0, 0, 0, half_from_bits};

    snprintf(name, sizeof name, "embed_%s", info->shader);
    return harness_pipeline(h, name, constants, 8, false);
}

/* A table in two parts of 7 and 6 tokens; 12 rows, of which the pass has 11. */
static void check_format(harness *h, const repack_info *info, uint32_t k, bool half_from_bits,
                         uint64_t *seed)
{
    enum { FIRST = 7, SECOND = 6, ROWS = 11, BASE = 5 };
    const float scale = 1.5f; /* a product with it rounds once */
    matrix parts[2] = {matrix_random(h, info, FIRST, k, WEIGHTS_WIDE, seed),
                       matrix_random(h, info, SECOND, k, WEIGHTS_WIDE, seed)};
    uint32_t padded = parts[0].padded_k, stride = (padded + 8) / 4 * 4;
    gpu_buffer lane = harness_buffer(h, (LANE_HISTORY + 64) * 4, NULL);
    gpu_buffer state = harness_buffer(h, STATE_WORDS * 4, NULL);
    gpu_buffer out = harness_buffer(h, (size_t)(ROWS + 1) * stride * 4, NULL);
    uint32_t *tokens = (uint32_t *)lane.mapped + LANE_HISTORY + BASE, *words = out.mapped;
    VkPipeline pipeline = embed_pipeline(h, info, half_from_bits);

    ((uint32_t *)state.mapped)[S_BASE] = BASE;
    ((uint32_t *)state.mapped)[S_ROWS] = ROWS;
    for (uint32_t r = 0; r < ROWS; r++)
        tokens[r] = r * 5 % (FIRST + SECOND);
    tokens[ROWS] = 1;
    tokens[4] = FIRST + SECOND; /* in no part */
    for (uint32_t i = 0; i < (ROWS + 1) * stride; i++)
        words[i] = POISON;
    /* One row of workgroups more than rows. */
    embed(h, pipeline, &parts[0], 0, &lane, &state, &out, stride, scale, ROWS + 1);
    embed(h, pipeline, &parts[1], FIRST, &lane, &state, &out, stride, scale, ROWS + 1);

    for (uint32_t i = 0; i < (ROWS + 1) * stride; i++) {
        uint32_t r = i / stride, column = i % stride, want = POISON;

        if (r < ROWS && tokens[r] < FIRST + SECOND && column < padded) {
            bool second = tokens[r] >= FIRST;
            uint32_t token = second ? tokens[r] - FIRST : tokens[r];
            float value = column < k ? (float)parts[second].values[token * k + column] : 0;

            value *= scale;
            memcpy(&want, &value, sizeof want);
        }
        ck_assert_msg(words[i] == want, "%s, k %u: row %u, %u is %08x, not %08x", info->shader, k,
                      r, column, words[i], want);
    }
    harness_free(h, &out);
    harness_free(h, &state);
    harness_free(h, &lane);
    matrix_free(h, &parts[1]);
    matrix_free(h, &parts[0]);
}

START_TEST(rows_are_dequantised_bit_for_bit)
{
    const repack_info *info = repack_find(linear_formats[_i]);
    uint32_t block = format_find(linear_formats[_i])->block_size;
    uint64_t seed = 9 + (uint64_t)_i;
    harness h;

    harness_open(&h);
    for (int from_bits = 0; from_bits < 2; from_bits++) {
        check_format(&h, info, block == 1 ? 8 : block, from_bits, &seed);
        check_format(&h, info, block == 1 ? 571 : block * 9, from_bits, &seed);
    }
    harness_close(&h);
}
END_TEST

/* All 65,536 halfs, a row for each 256; infinities and NaNs keep their kind. */
START_TEST(every_half_is_exact)
{
    const repack_info *info = repack_find(FORMAT_F16);
    harness h;
    uint16_t *halfs = malloc(65536 * 2);

    harness_open(&h);
    for (uint32_t i = 0; i < 65536; i++)
        halfs[i] = (uint16_t)i;
    matrix w = {.info = info, .m = 256, .k = 256, .padded_k = 256};
    w.buffer = harness_buffer(&h, 65536 * 2, halfs);
    gpu_buffer lane = harness_buffer(&h, (LANE_HISTORY + 256) * 4, NULL);
    gpu_buffer state = harness_buffer(&h, STATE_WORDS * 4, NULL);
    gpu_buffer out = harness_buffer(&h, 65536 * 4, NULL);
    for (uint32_t r = 0; r < 256; r++)
        ((uint32_t *)lane.mapped)[LANE_HISTORY + r] = r;
    ((uint32_t *)state.mapped)[S_ROWS] = 256;
    embed(&h, embed_pipeline(&h, info, _i), &w, 0, &lane, &state, &out, 256, 1.0f, 256);
    for (uint32_t i = 0; i < 65536; i++) {
        float got = ((const float *)out.mapped)[i], want = half_to_float((uint16_t)i);

        if (isnan(want))
            ck_assert_msg(isnan(got), "half %04x is %g, not a NaN", i, got);
        else
            ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "half %04x is %a, not %a", i, got,
                          want);
    }
    free(halfs);
    harness_close(&h);
}
END_TEST

/* All exponents of MXFP4, a row for each: the largest levels of the last two are infinite as floats, and
 * what is subnormal, in the result or in the scale, may be zero. */
START_TEST(every_exponent_of_mxfp4_is_exact)
{
    enum { N = 256, K = 32, BLOCK_BYTES = 17 };
    const repack_info *info = repack_find(FORMAT_MXFP4);
    static uint8_t blocks[N * BLOCK_BYTES];
    harness h;

    harness_open(&h);
    for (uint32_t r = 0; r < N; r++) {
        blocks[r * BLOCK_BYTES] = (uint8_t)r;
        for (uint32_t i = 0; i < 16; i++)
            blocks[r * BLOCK_BYTES + 1 + i] = (uint8_t)(i | (15 - i) << 4);
    }
    bool may_be_zero = flushes_subnormals(&h);
    matrix w = matrix_of(&h, info, N, K, blocks);
    gpu_buffer lane = harness_buffer(&h, (LANE_HISTORY + N) * 4, NULL);
    gpu_buffer state = harness_buffer(&h, STATE_WORDS * 4, NULL);
    gpu_buffer out = harness_buffer(&h, N * K * 4, NULL);
    for (uint32_t r = 0; r < N; r++)
        ((uint32_t *)lane.mapped)[LANE_HISTORY + r] = r;
    ((uint32_t *)state.mapped)[S_ROWS] = N;
    embed(&h, embed_pipeline(&h, info, false), &w, 0, &lane, &state, &out, K, 1.0f, N);
    for (uint32_t i = 0; i < N * K; i++) {
        float got = ((const float *)out.mapped)[i];
        double value = w.values[i];
        float want = fabs(value) < 0x1p128 ? (float)value : value < 0 ? -INFINITY : INFINITY;
        bool is_tiny = i / K < 2 || fabs(value) < 0x1p-126;

        ck_assert_msg(got == want || (may_be_zero && is_tiny && got == 0),
                      "exponent %u, weight %u is %a, not %a", i / K, i % K, got, want);
    }
    matrix_free(&h, &w);
    harness_close(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("embed");
    TCase *tcase = tcase_create("embed");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, rows_are_dequantised_bit_for_bit, 0, N_LINEAR_FORMATS);
    tcase_add_loop_test(tcase, every_half_is_exact, 0, 2);
    tcase_add_test(tcase, every_exponent_of_mxfp4_is_exact);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

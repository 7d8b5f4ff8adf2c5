/* Repacked planes, decoded on the CPU by the rules that shaders/weights_*.glsl follow, against the
 * reference dequantiser: bit for bit, every format; and the planes' sizes. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "random_weights.h"
#include "repack.h"

static const enum tensor_format all_formats[] = {
    FORMAT_F32,  FORMAT_F16,    FORMAT_BF16,   FORMAT_Q8_0,  FORMAT_Q4_0, FORMAT_Q4_1,
    FORMAT_Q5_0, FORMAT_Q5_1,   FORMAT_Q2_K,   FORMAT_Q3_K,  FORMAT_Q4_K, FORMAT_Q5_K,
    FORMAT_Q6_K, FORMAT_IQ4_NL, FORMAT_IQ4_XS, FORMAT_MXFP4,
};
#define N_FORMATS (int)(sizeof(all_formats) / sizeof(all_formats[0]))

/* The planes of a part, read as the kernels do: in words. */
static const uint32_t *words;
static uint32_t plane_words[REPACK_MAX_PLANES];

static double plane_half(int plane, uint64_t index)
{
    uint32_t word = words[plane_words[plane] + index / 2];
    return half_to_float((uint16_t)(index % 2 ? word >> 16 : word));
}

/* Bits [4, 8) of a byte as a signed number, and so on: the top `n_bits` of the byte `b` of the
 * word. */
static int signed_field(uint32_t word, int b, int n_bits)
{
    return (int32_t)(word << (24 - 8 * b)) >> (32 - n_bits);
}

static int nibble(uint64_t chunk, int i)
{
    uint32_t word = words[chunk * 2 + (uint64_t)i / 8];
    return word >> (i % 4 * 8 + i % 8 / 4 * 4) & 15;
}

/* The bit of weight i of a chunk in a plane of one bit each, and its two bits in one of two each. */
static int bit(int plane, uint64_t chunk, int i)
{
    return words[plane_words[plane] + chunk / 2] >> (i % 4 * 8 + (int)(chunk % 2) * 4 + i / 4) & 1;
}

static int pair(int plane, uint64_t chunk, int i)
{
    return words[plane_words[plane] + chunk] >> (i % 4 * 8 + i / 4 * 2) & 3;
}

static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* Weight i of a chunk; chunk counts over the whole part. */
static double decode(enum tensor_format format, uint64_t chunk, int i)
{
    switch (format) {
    case FORMAT_F32: {
        float value;
        memcpy(&value, &words[chunk * 4 + (uint64_t)i], 4);
        return value;
    }
    case FORMAT_F16:
        return plane_half(0, chunk * 4 + (uint64_t)i);
    case FORMAT_BF16: {
        uint32_t word = words[chunk * 2 + (uint64_t)i / 2];
        return bfloat16_to_float((uint16_t)(i % 2 ? word >> 16 : word));
    }
    case FORMAT_Q8_0:
        return plane_half(1, chunk / 2) *
               signed_field(words[chunk * 4 + (uint64_t)i / 4], i % 4, 8);
    case FORMAT_Q4_0:
        return plane_half(1, chunk / 2) *
               (nibble(chunk, i) < 8 ? nibble(chunk, i) : nibble(chunk, i) - 16);
    case FORMAT_Q4_1:
        return plane_half(1, chunk / 2 * 2) * nibble(chunk, i) + plane_half(1, chunk / 2 * 2 + 1);
    case FORMAT_Q5_0:
        return plane_half(2, chunk / 2) *
               (nibble(chunk, i) - (bit(1, chunk, i) ? 16 : 0)); /* two's complement */
    case FORMAT_Q5_1:
        return plane_half(2, chunk / 2 * 2) * (nibble(chunk, i) + 16 * bit(1, chunk, i)) +
               plane_half(2, chunk / 2 * 2 + 1);
    case FORMAT_Q2_K: {
        uint32_t part = words[plane_words[1] + chunk / 4] >> (chunk % 4 * 8);
        return plane_half(2, chunk / 16 * 2) * (part & 15) * pair(0, chunk, i) -
               plane_half(2, chunk / 16 * 2 + 1) * (part >> 4 & 15);
    }
    case FORMAT_Q3_K: {
        const uint32_t *super = words + plane_words[2] + chunk / 16 * 3;
        int group = (int)(chunk % 16);
        int scale = (int)((super[group / 8] >> (group % 8 * 4) & 15) | (super[2] >> (group * 2) & 3)
                                                                           << 4);
        return plane_half(3, chunk / 16) * (scale - 32) *
               (pair(0, chunk, i) - 4 * bit(1, chunk, i));
    }
    case FORMAT_IQ4_NL:
        return plane_half(1, chunk / 2) * iq4_levels[nibble(chunk, i)];
    case FORMAT_IQ4_XS: {
        const uint32_t *super = words + plane_words[1] + chunk / 16 * 2;
        int group = (int)(chunk / 2 % 8);
        int scale = (int)((super[1] >> (group * 4) & 15) | (super[0] >> (16 + group * 2) & 3) << 4);
        return half_to_float((uint16_t)super[0]) * (double)(scale - 32) *
               iq4_levels[nibble(chunk, i)];
    }
    case FORMAT_MXFP4: {
        static const int8_t doubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
        uint64_t block = chunk / 2;
        int e = (int)(words[plane_words[1] + block / 4] >> (block % 4 * 8) & 255);
        int n = nibble(chunk, i);
        return (n < 8 ? doubled[n] : -doubled[n - 8]) * ldexp(1, e - 128);
    }
    case FORMAT_Q5_K:
    case FORMAT_Q4_K: {
        const uint32_t *super = words + plane_words[1] + chunk / 16 * 4;
        int shift = (int)(chunk / 2 % 8) * 4;
        uint32_t low = super[1] >> shift & 15, min_low = super[2] >> shift & 15;
        uint32_t high = super[3] >> shift & 15;
        double scale = half_to_float((uint16_t)super[0]) * (double)(low | (high & 3) << 4);
        double min = half_to_float((uint16_t)(super[0] >> 16)) * (double)(min_low | high >> 2 << 4);
        int fifth = format == FORMAT_Q5_K ? bit(2, chunk, i) : 0;
        return scale * (nibble(chunk, i) + 16 * fifth) - min;
    }
    case FORMAT_Q6_K: {
        uint32_t high = words[plane_words[1] + chunk] >> (i % 4 * 8 + i / 4 * 2) & 3;
        int quant = (int)high * 16 + nibble(chunk, i);
        int scale = signed_field(words[plane_words[2] + chunk / 4], (int)(chunk % 4), 8);
        return plane_half(3, chunk / 16) * scale * (quant < 32 ? quant : quant - 64);
    }
    default:
        ck_abort_msg("no decoder for format %d", (int)format);
    }
    return 0;
}

static void check_part(const repack_info *info, uint64_t n_rows, uint64_t k, uint64_t *state)
{
    const format_info *format = format_find(info->format);
    uint64_t n = n_rows * k, padded = repack_padded_k(info, k);
    uint8_t *blocks = malloc(n / format->block_size * format->block_bytes);
    double *expected = malloc(n * sizeof(double));
    uint64_t n_bytes = repack_bytes(info, n_rows, k, plane_words);
    uint8_t *dst = calloc(1, n_bytes + 16);

    ck_assert(blocks && expected && dst);
    ck_assert_uint_eq(n_bytes % 16, 0);
    memset(dst + n_bytes, 0xa5, 16);
    random_blocks(format, blocks, n / format->block_size, WEIGHTS_WIDE, state);
    format_dequantize(format, blocks, n, expected);
    repack_rows(info, blocks, n_rows, k, dst);
    words = (const uint32_t *)(const void *)dst;

    for (uint64_t row = 0; row < n_rows; row++)
        for (uint64_t at = 0; at < padded; at++) {
            uint64_t chunk = row * (padded / info->chunk) + at / info->chunk;
            double got = decode(info->format, chunk, (int)(at % info->chunk));
            double want = at < k ? expected[row * k + at] : 0;

            if (memcmp(&got, &want, sizeof(got)) != 0)
                ck_abort_msg("%s, %d rows of %d: row %d, weight %d is %.17g, not %.17g",
                             format->name, (int)n_rows, (int)k, (int)row, (int)at, got, want);
        }
    for (int i = 0; i < 16; i++)
        ck_assert_uint_eq(dst[n_bytes + (uint64_t)i], 0xa5);
    free(dst);
    free(expected);
    free(blocks);
}

START_TEST(planes_hold_the_same_values)
{
    const repack_info *info = repack_find(all_formats[_i]);

    ck_assert_ptr_nonnull(info);
    uint64_t block = format_find(info->format)->block_size;
    uint64_t state = 1 + (uint64_t)_i;
    for (uint64_t n_blocks = 1; n_blocks <= 7; n_blocks++)
        for (uint64_t n_rows = 1; n_rows <= 9; n_rows++)
            check_part(info, n_rows, n_blocks * block, &state);
    check_part(info, 3, block == 1 ? 172 : block * 9, &state);
    check_part(info, 2, 4096, &state);
}
END_TEST

START_TEST(planes_take_the_same_room)
{
    const repack_info *info = repack_find(all_formats[_i]);
    const format_info *format = format_find(info->format);

    for (uint64_t k = 256; k < 2048; k += format->block_size) {
        uint64_t stored = k / format->block_size * format->block_bytes;
        uint32_t offsets[REPACK_MAX_PLANES];

        if (k % format->block_size != 0)
            continue;
        for (uint64_t n_rows = 1; n_rows < 100; n_rows = n_rows * 3 + 1) {
            /* 16 bytes a plane where the part is one short row of a few hundred bytes */
            uint64_t slack = n_rows < 4 ? 16 * (uint64_t)info->n_planes : 0;
            uint64_t bytes = repack_bytes(info, n_rows, k, offsets);

            ck_assert_uint_ge(bytes, stored * n_rows);
            ck_assert_msg((double)bytes <= (double)(stored * n_rows) * 1.02 + (double)slack,
                          "%s: %d rows of %d take %d bytes instead of %d", format->name,
                          (int)n_rows, (int)k, (int)bytes, (int)(stored * n_rows));
        }
    }
}
END_TEST

START_TEST(offsets_of_large_parts_fit)
{
    const repack_info *info = repack_find(all_formats[_i]);
    uint32_t offsets[REPACK_MAX_PLANES];
    uint64_t bytes = repack_bytes(info, 151936, 4096, offsets);

    ck_assert_uint_eq(offsets[0], 0);
    for (uint32_t p = 1; p < info->n_planes; p++) {
        uint64_t units = (uint64_t)151936 * 4096 / info->plane_unit;

        ck_assert_uint_eq(offsets[p] % 4, 0);
        ck_assert_uint_eq(offsets[p],
                          offsets[p - 1] + (units * info->plane_bytes[p - 1] + 15) / 16 * 4);
        ck_assert_uint_lt((uint64_t)offsets[p] * 4, bytes);
    }
}
END_TEST

START_TEST(unknown_formats_are_refused)
{
    ck_assert_ptr_null(repack_find((enum tensor_format)34)); /* TQ1_0 */
    ck_assert_ptr_null(repack_find((enum tensor_format)12345));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("repack");
    TCase *tcase = tcase_create("repack");

    tcase_add_loop_test(tcase, planes_hold_the_same_values, 0, N_FORMATS);
    tcase_add_loop_test(tcase, planes_take_the_same_room, 0, N_FORMATS);
    tcase_add_loop_test(tcase, offsets_of_large_parts_fit, 0, N_FORMATS);
    tcase_add_test(tcase, unknown_formats_are_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

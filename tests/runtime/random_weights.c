/* Random blocks of weights (random_weights.h). */
#include "random_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

/* Where a block has halfs, and the sign that makes its parts add up in size. */
static const struct {
    enum tensor_format format;
    int n_halfs, offset[2];
    bool negative[2];
} halfs[] = {
    {FORMAT_F16, 1, {0}, {0}},
    {FORMAT_Q8_0, 1, {0}, {0}},
    {FORMAT_Q4_0, 1, {0}, {0}},
    {FORMAT_Q4_1, 2, {0, 2}, {false, false}},
    {FORMAT_Q4_K, 2, {0, 2}, {false, true}}, /* the minimum is subtracted */
    {FORMAT_Q6_K, 1, {208}, {0}},
    {FORMAT_Q5_0, 1, {0}, {0}},
    {FORMAT_Q5_1, 2, {0, 2}, {false, false}},
    {FORMAT_Q2_K, 2, {80, 82}, {false, true}},
    {FORMAT_Q3_K, 1, {108}, {0}},
    {FORMAT_Q5_K, 2, {0, 2}, {false, true}},
    {FORMAT_IQ4_NL, 1, {0}, {0}},
    {FORMAT_IQ4_XS, 1, {0}, {0}},
};
#define N_HALFS (sizeof halfs / sizeof halfs[0])

uint32_t random_u32(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) ^ (uint32_t)(*state >> 11);
}

float random_unit(uint64_t *state)
{
    return (float)(random_u32(state) >> 8) / (1 << 23) - 1;
}

static void random_half(uint8_t *dst, enum weights_kind kind, uint64_t *state)
{
    uint32_t bits = random_u32(state) & 0xffff;

    if (kind == WEIGHTS_SUBNORMAL)
        bits = (bits & 0x83ff) | 1;
    else if (kind != WEIGHTS_WIDE)
        bits = (bits & 0x87ff) | 0x3800;
    else if ((bits & 0x7c00) == 0x7c00 || random_u32(state) % 4 == 0)
        bits &= 0x83ff;
    dst[0] = (uint8_t)bits;
    dst[1] = (uint8_t)(bits >> 8);
}

/* Sign, exponent 120..127 and mantissa of the upper two bytes, which F32 and BF16 share. */
static void bound_float(uint8_t upper[2])
{
    upper[1] = (uint8_t)((upper[1] & 0x80) | 0x3c | (upper[1] & 3));
}

void random_blocks(const format_info *format, uint8_t *data, uint64_t n_blocks,
                   enum weights_kind kind, uint64_t *state)
{
    for (uint64_t i = 0; i < n_blocks * format->block_bytes; i++)
        data[i] = (uint8_t)random_u32(state);
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint8_t *block = data + b * format->block_bytes;

        if (format->id == FORMAT_F32)
            bound_float(block + 2);
        if (format->id == FORMAT_F32 && kind == WEIGHTS_POSITIVE)
            block[3] &= 0x7f;
        if (format->id == FORMAT_BF16)
            bound_float(block);
        if (format->id == FORMAT_MXFP4) /* an exponent, biased by 128 */
            block[0] = (uint8_t)(kind == WEIGHTS_WIDE ? 104 + block[0] % 32 : 124 + block[0] % 2);
        for (size_t h = 0; h < N_HALFS; h++)
            for (int i = 0; halfs[h].format == format->id && i < halfs[h].n_halfs; i++)
                random_half(block + halfs[h].offset[i], kind, state);
    }
}

void weight_magnitudes(const format_info *format, const uint8_t *data, uint64_t n, double *out)
{
    uint64_t n_blocks = n / format->block_size;
    uint8_t *copy = malloc(n_blocks * format->block_bytes);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, n_blocks * format->block_bytes);
    for (uint64_t b = 0; b < n_blocks; b++)
        for (size_t h = 0; h < N_HALFS; h++)
            for (int i = 0; halfs[h].format == format->id && i < halfs[h].n_halfs; i++) {
                uint8_t *upper = copy + b * format->block_bytes + halfs[h].offset[i] + 1;
                *upper = (uint8_t)((*upper & 0x7f) | (halfs[h].negative[i] ? 0x80 : 0));
            }
    format_dequantize(format, copy, n, out);
    for (uint64_t i = 0; i < n; i++)
        out[i] = fabs(out[i]);
    free(copy);
}

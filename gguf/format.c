/* Tensor formats: one row each, and the reference dequantisers in double precision.
 *
 * Every product and sum below is exact in double (scales have 11 bits, quants at most 8), so these
 * are the values that the formats define, without rounding. Called by the tensor table (sizes), by
 * tests, and by the self-test of the GPU kernels.
 *
 * To add a format: its id in format.h, a dequantiser, a row in `formats` and, where it has halfs, in
 * `scales` here, a case in tests/gguf/test_format.c. */
#include "format.h"

#include <math.h>
#include <string.h>

#include "little_endian.h"

static double load_half(const uint8_t *p)
{
    return half_to_float(load_u16(p));
}

static void dequantize_f32(const uint8_t *block, double *out)
{
    uint32_t bits = load_u32(block);
    float value;
    memcpy(&value, &bits, sizeof(value));
    out[0] = value;
}

static void dequantize_f16(const uint8_t *block, double *out)
{
    out[0] = load_half(block);
}

static void dequantize_bf16(const uint8_t *block, double *out)
{
    out[0] = bfloat16_to_float(load_u16(block));
}

/* ------------------------------------------------------------- blocks of 32, nibbles or bytes
 *
 * A byte of nibbles has weight j in its low half and weight j + 16 in its high half. */

/* d, nibbles: (q - 8) d */
static void dequantize_q4_0(const uint8_t *block, double *out)
{
    const double d = load_half(block);
    const uint8_t *quants = block + 2;
    for (int j = 0; j < 16; j++) {
        out[j] = ((quants[j] & 15) - 8) * d;
        out[j + 16] = ((quants[j] >> 4) - 8) * d;
    }
}

/* d, m, nibbles: q d + m */
static void dequantize_q4_1(const uint8_t *block, double *out)
{
    const double d = load_half(block), m = load_half(block + 2);
    const uint8_t *quants = block + 4;
    for (int j = 0; j < 16; j++) {
        out[j] = (quants[j] & 15) * d + m;
        out[j + 16] = (quants[j] >> 4) * d + m;
    }
}

/* Fifth bits of 32 weights in one word, weight j at bit j. */
static int fifth_bit(uint32_t high, int j)
{
    return (int)(high >> j & 1) << 4;
}

/* d, fifth bits, nibbles: (q - 16) d */
static void dequantize_q5_0(const uint8_t *block, double *out)
{
    const double d = load_half(block);
    const uint32_t high = load_u32(block + 2);
    const uint8_t *quants = block + 6;
    for (int j = 0; j < 16; j++) {
        out[j] = (((quants[j] & 15) | fifth_bit(high, j)) - 16) * d;
        out[j + 16] = (((quants[j] >> 4) | fifth_bit(high, j + 16)) - 16) * d;
    }
}

/* d, m, fifth bits, nibbles: q d + m */
static void dequantize_q5_1(const uint8_t *block, double *out)
{
    const double d = load_half(block), m = load_half(block + 2);
    const uint32_t high = load_u32(block + 4);
    const uint8_t *quants = block + 8;
    for (int j = 0; j < 16; j++) {
        out[j] = ((quants[j] & 15) | fifth_bit(high, j)) * d + m;
        out[j + 16] = ((quants[j] >> 4) | fifth_bit(high, j + 16)) * d + m;
    }
}

/* d, signed bytes: q d */
static void dequantize_q8_0(const uint8_t *block, double *out)
{
    const double d = load_half(block);
    for (int j = 0; j < 32; j++)
        out[j] = (int8_t)block[2 + j] * d;
}

/* Levels of the two IQ4 formats: finer near zero, where most weights are. */
static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* d, nibbles: level[q] d */
static void dequantize_iq4_nl(const uint8_t *block, double *out)
{
    const double d = load_half(block);
    const uint8_t *quants = block + 2;
    for (int j = 0; j < 16; j++) {
        out[j] = iq4_levels[quants[j] & 15] * d;
        out[j + 16] = iq4_levels[quants[j] >> 4] * d;
    }
}

/* Shared exponent (biased by 127), nibbles: 2-bit-exponent floats, here doubled to be whole. An
 * exponent of 255 is an ordinary 2^128 as GGUF files use it. */
static void dequantize_mxfp4(const uint8_t *block, double *out)
{
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const double scale = ldexp(1.0, block[0] - 128);
    const uint8_t *quants = block + 1;
    for (int j = 0; j < 16; j++) {
        out[j] = doubled[quants[j] & 15] * scale;
        out[j + 16] = doubled[quants[j] >> 4] * scale;
    }
}

/* ------------------------------------------------------------------- super-blocks of 256 weights
 */

/* 16 scale bytes (scale low, minimum high), 64 bytes of 2-bit quants, d, dmin. The quants of a half
 * of 128 lie in 32 bytes: four planes of 32 weights, 2 bits apart. Each scale covers 16 weights. */
static void dequantize_q2_k(const uint8_t *block, double *out)
{
    const uint8_t *scales = block, *quants = block + 16;
    const double d = load_half(block + 80), dmin = load_half(block + 82);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, plane = i / 32 % 4;
        const int q = quants[32 * half + i % 32] >> 2 * plane & 3;
        const uint8_t scale = scales[i / 16];
        out[i] = d * (scale & 15) * q - dmin * (scale >> 4);
    }
}

/* 6-bit scale of group j (of 16), less 32: low 4 bits in nibbles of the first 8 bytes, high 2 bits
 * in four planes of the last 4. */
static int q3_k_scale(const uint8_t *scales, int j)
{
    const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
    const int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
    return (low | high << 4) - 32;
}

/* 32 bytes of third bits, 64 of 2-bit quants as in Q2_K, 12 of scales, d. A third bit that is not
 * set takes 4 off; bit b of the mask bytes belongs to the b-th 32 weights. */
static void dequantize_q3_k(const uint8_t *block, double *out)
{
    const uint8_t *mask = block, *quants = block + 32, *scales = block + 96;
    const double d = load_half(block + 108);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, plane = i / 32 % 4;
        const int low = quants[32 * half + i % 32] >> 2 * plane & 3;
        const int q = low - (mask[i % 32] >> i / 32 & 1 ? 0 : 4);
        out[i] = d * q3_k_scale(scales, i / 16) * q;
    }
}

/* 6-bit scale and minimum of group j (of 8), packed in 12 bytes. */
static void k_scale_and_min(const uint8_t *scales, int j, int *scale, int *minimum)
{
    if (j < 4) {
        *scale = scales[j] & 63;
        *minimum = scales[j + 4] & 63;
    } else {
        *scale = (scales[j + 4] & 15) | scales[j - 4] >> 6 << 4;
        *minimum = scales[j + 4] >> 4 | scales[j] >> 6 << 4;
    }
}

/* d, dmin, 12 bytes of scales and minima, nibbles. 32 bytes hold 64 weights: low halves first. */
static void dequantize_q4_k(const uint8_t *block, double *out)
{
    const double d = load_half(block), dmin = load_half(block + 2);
    const uint8_t *quants = block + 16;
    for (int i = 0; i < 256; i++) {
        int scale, minimum;
        k_scale_and_min(block + 4, i / 32, &scale, &minimum);
        const int q = quants[i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15;
        out[i] = d * scale * q - dmin * minimum;
    }
}

/* As Q4_K, with 32 bytes of fifth bits before the nibbles: bit g for the g-th 32 weights. */
static void dequantize_q5_k(const uint8_t *block, double *out)
{
    const double d = load_half(block), dmin = load_half(block + 2);
    const uint8_t *high = block + 16, *quants = block + 48;
    for (int i = 0; i < 256; i++) {
        int scale, minimum;
        k_scale_and_min(block + 4, i / 32, &scale, &minimum);
        const int low = quants[i / 64 * 32 + i % 32] >> 4 * (i / 32 % 2) & 15;
        const int q = low | (high[i % 32] >> i / 32 & 1) << 4;
        out[i] = d * scale * q - dmin * minimum;
    }
}

/* 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, d. In a half of 128 weights the
 * nibbles are two planes of 64 bytes, the bit pairs four planes of 32. */
static void dequantize_q6_k(const uint8_t *block, double *out)
{
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    const double d = load_half(block + 208);
    for (int i = 0; i < 256; i++) {
        const int half = i / 128, in_half = i % 128;
        const int nibble = low[64 * half + in_half % 64] >> 4 * (in_half / 64) & 15;
        const int pair = high[32 * half + in_half % 32] >> 2 * (in_half / 32) & 3;
        out[i] = d * (int8_t)scales[i / 16] * ((nibble | pair << 4) - 32);
    }
}

/* d, high bits of 8 scales in one word, their low nibbles in 4 bytes, then 8 times the nibbles of
 * 32 weights. */
static void dequantize_iq4_xs(const uint8_t *block, double *out)
{
    const double d = load_half(block);
    const uint16_t scales_high = load_u16(block + 2);
    const uint8_t *scales_low = block + 4, *quants = block + 8;
    for (int g = 0; g < 8; g++) {
        const int low = scales_low[g / 2] >> 4 * (g % 2) & 15;
        const int scale = (low | (scales_high >> 2 * g & 3) << 4) - 32;
        for (int j = 0; j < 16; j++) {
            out[32 * g + j] = d * scale * iq4_levels[quants[16 * g + j] & 15];
            out[32 * g + j + 16] = d * scale * iq4_levels[quants[16 * g + j] >> 4];
        }
    }
}

/* ----------------------------------------------------------------------------------- tables */

static const format_info formats[] = {
    {FORMAT_F32, "F32", 1, 4, dequantize_f32},
    {FORMAT_F16, "F16", 1, 2, dequantize_f16},
    {FORMAT_Q4_0, "Q4_0", 32, 18, dequantize_q4_0},
    {FORMAT_Q4_1, "Q4_1", 32, 20, dequantize_q4_1},
    {FORMAT_Q5_0, "Q5_0", 32, 22, dequantize_q5_0},
    {FORMAT_Q5_1, "Q5_1", 32, 24, dequantize_q5_1},
    {FORMAT_Q8_0, "Q8_0", 32, 34, dequantize_q8_0},
    {FORMAT_Q2_K, "Q2_K", 256, 84, dequantize_q2_k},
    {FORMAT_Q3_K, "Q3_K", 256, 110, dequantize_q3_k},
    {FORMAT_Q4_K, "Q4_K", 256, 144, dequantize_q4_k},
    {FORMAT_Q5_K, "Q5_K", 256, 176, dequantize_q5_k},
    {FORMAT_Q6_K, "Q6_K", 256, 210, dequantize_q6_k},
    {FORMAT_IQ4_NL, "IQ4_NL", 32, 18, dequantize_iq4_nl},
    {FORMAT_IQ4_XS, "IQ4_XS", 256, 136, dequantize_iq4_xs},
    {FORMAT_BF16, "BF16", 1, 2, dequantize_bf16},
    {FORMAT_MXFP4, "MXFP4", 32, 17, dequantize_mxfp4},
};

/* Every id that was ever given out, by number: to name what can't be read. */
static const char *const names[] = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
    "Q2_0",
};

const format_info *format_find(uint32_t id)
{
    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++) {
        if ((uint32_t)formats[f].id == id)
            return &formats[f];
    }
    return NULL;
}

const char *format_name(uint32_t id)
{
    return id < sizeof(names) / sizeof(names[0]) ? names[id] : "unknown";
}

void format_dequantize(const format_info *format, const uint8_t *data, uint64_t n, double *out)
{
    for (uint64_t block = 0; block < n / format->block_size; block++)
        format->dequantize(data + block * format->block_bytes, out + block * format->block_size);
}

/* Halfs of a block, and the most that a weight has of each. */
static const struct {
    enum tensor_format format;
    struct {
        uint32_t offset, most; /* most 0: there is none */
    } halfs[2];
} scales[] = {
    {FORMAT_F16, {{0, 1}}},
    {FORMAT_Q4_0, {{0, 8}}},
    {FORMAT_Q4_1, {{0, 15}, {2, 1}}},
    {FORMAT_Q5_0, {{0, 16}}},
    {FORMAT_Q5_1, {{0, 31}, {2, 1}}},
    {FORMAT_Q8_0, {{0, 128}}},
    {FORMAT_Q2_K, {{80, 15 * 3}, {82, 15}}},
    {FORMAT_Q3_K, {{108, 32 * 4}}},
    {FORMAT_Q4_K, {{0, 63 * 15}, {2, 63}}},
    {FORMAT_Q5_K, {{0, 63 * 31}, {2, 63}}},
    {FORMAT_Q6_K, {{208, 128 * 32}}},
    {FORMAT_IQ4_NL, {{0, 127}}},
    {FORMAT_IQ4_XS, {{0, 32 * 127}}},
};

/* The most that a weight of the block can be. */
static double largest_of_block(const format_info *format, const uint8_t *block)
{
    double largest = 0;

    if (format->id == FORMAT_F32 || format->id == FORMAT_BF16) {
        format->dequantize(block, &largest);
        return fabs(largest);
    }
    if (format->id == FORMAT_MXFP4)
        return ldexp(12, block[0] - 128);
    for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++)
        for (int h = 0; h < 2 && scales[s].format == format->id; h++)
            if (scales[s].halfs[h].most)
                largest += scales[s].halfs[h].most *
                           fabs(load_half(block + scales[s].halfs[h].offset));
    return largest;
}

double format_largest(const format_info *format, const uint8_t *data, uint64_t n)
{
    double largest = 0;

    for (uint64_t block = 0; block < n / format->block_size; block++)
        largest = fmax(largest, largest_of_block(format, data + block * format->block_bytes));
    return largest;
}

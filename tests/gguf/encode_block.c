/* Packs blocks of every tensor format bit by bit: see encode_block.h. */
#include "encode_block.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == 31)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, -24);
    return sign * ldexp(1024 + mantissa, exponent - 25);
}

uint64_t block_random_state;

static uint32_t random_below(uint32_t n)
{
    block_random_state ^= block_random_state << 13;
    block_random_state ^= block_random_state >> 7;
    block_random_state ^= block_random_state << 17;
    return (uint32_t)(block_random_state >> 33) % n;
}

static void put(uint8_t *block, int byte, int shift, int bits)
{
    block[byte] = (uint8_t)(block[byte] | bits << shift);
}

/* A finite half at `byte`, subnormals and negative ones included. */
static double put_half(uint8_t *block, int byte)
{
    uint16_t bits;
    do {
        bits = (uint16_t)random_below(65536);
    } while ((bits & 0x7c00) == 0x7c00);
    block[byte] = (uint8_t)bits;
    block[byte + 1] = (uint8_t)(bits >> 8);
    return half_value(bits);
}

static void put_nibbles32(uint8_t *block, int byte, const int *q)
{
    for (int i = 0; i < 32; i++)
        put(block, byte + i % 16, i < 16 ? 0 : 4, q[i] & 15);
}

static void random_quants(int *q, int n, uint32_t levels)
{
    for (int i = 0; i < n; i++)
        q[i] = (int)random_below(levels);
}

static void encode_q4_0(uint8_t *block, double *want)
{
    int q[32];
    const double d = put_half(block, 0);
    random_quants(q, 32, 16);
    put_nibbles32(block, 2, q);
    for (int i = 0; i < 32; i++)
        want[i] = (q[i] - 8) * d;
}

static void encode_q4_1(uint8_t *block, double *want)
{
    int q[32];
    const double d = put_half(block, 0), m = put_half(block, 2);
    random_quants(q, 32, 16);
    put_nibbles32(block, 4, q);
    for (int i = 0; i < 32; i++)
        want[i] = q[i] * d + m;
}

static void encode_q5_0(uint8_t *block, double *want)
{
    int q[32];
    const double d = put_half(block, 0);
    random_quants(q, 32, 32);
    put_nibbles32(block, 6, q);
    for (int i = 0; i < 32; i++) {
        put(block, 2 + i / 8, i % 8, q[i] >> 4);
        want[i] = (q[i] - 16) * d;
    }
}

static void encode_q5_1(uint8_t *block, double *want)
{
    int q[32];
    const double d = put_half(block, 0), m = put_half(block, 2);
    random_quants(q, 32, 32);
    put_nibbles32(block, 8, q);
    for (int i = 0; i < 32; i++) {
        put(block, 4 + i / 8, i % 8, q[i] >> 4);
        want[i] = q[i] * d + m;
    }
}

static void encode_q8_0(uint8_t *block, double *want)
{
    const double d = put_half(block, 0);
    for (int i = 0; i < 32; i++) {
        const int q = (int)random_below(256) - 128;
        put(block, 2 + i, 0, q & 255);
        want[i] = q * d;
    }
}

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};

static void encode_iq4_nl(uint8_t *block, double *want)
{
    int q[32];
    const double d = put_half(block, 0);
    random_quants(q, 32, 16);
    put_nibbles32(block, 2, q);
    for (int i = 0; i < 32; i++)
        want[i] = iq4[q[i]] * d;
}

static void encode_mxfp4(uint8_t *block, double *want)
{
    /* E2M1: sign, two bits of exponent with bias 1, one bit of mantissa. */
    int q[32];
    block[0] = (uint8_t)random_below(256);
    random_quants(q, 32, 16);
    put_nibbles32(block, 1, q);
    for (int i = 0; i < 32; i++) {
        const int exponent = q[i] >> 1 & 3, mantissa = q[i] & 1;
        const double e2m1 = exponent ? ldexp(2 + mantissa, exponent - 2) : mantissa * 0.5;
        want[i] = ldexp(q[i] & 8 ? -e2m1 : e2m1, block[0] - 127);
    }
}

/* The quants of Q2_K, and the low bits of Q3_K: 4 weights that lie 32 apart share a byte. */
static void put_pairs(uint8_t *block, int byte, const int *q)
{
    for (int half = 0; half < 2; half++) {
        for (int plane = 0; plane < 4; plane++) {
            for (int l = 0; l < 32; l++)
                put(block, byte + 32 * half + l, 2 * plane, q[128 * half + 32 * plane + l] & 3);
        }
    }
}

static void encode_q2_k(uint8_t *block, double *want)
{
    int q[256], scale[16], minimum[16];
    const double d = put_half(block, 80), dmin = put_half(block, 82);
    random_quants(q, 256, 4);
    random_quants(scale, 16, 16);
    random_quants(minimum, 16, 16);
    put_pairs(block, 16, q);
    for (int g = 0; g < 16; g++) {
        put(block, g, 0, scale[g]);
        put(block, g, 4, minimum[g]);
    }
    for (int i = 0; i < 256; i++)
        want[i] = d * scale[i / 16] * q[i] - dmin * minimum[i / 16];
}

static void encode_q3_k(uint8_t *block, double *want)
{
    int q[256], scale[16]; /* 0..7 stands for -4..3, 0..63 for -32..31 */
    const double d = put_half(block, 108);
    random_quants(q, 256, 8);
    random_quants(scale, 16, 64);
    put_pairs(block, 32, q);
    for (int i = 0; i < 256; i++)
        put(block, i % 32, i / 32, q[i] >> 2);
    for (int g = 0; g < 16; g++) {
        put(block, 96 + g % 8, g < 8 ? 0 : 4, scale[g] & 15);
        put(block, 96 + 8 + g % 4, 2 * (g / 4), scale[g] >> 4);
    }
    for (int i = 0; i < 256; i++)
        want[i] = d * (scale[i / 16] - 32) * (q[i] - 4);
}

/* The 12 bytes of Q4_K and Q5_K: groups 0..3 in the low 6 bits, the rest in nibbles and what is
 * left. */
static void put_scales_and_minima(uint8_t *block, int byte, const int *scale, const int *minimum)
{
    for (int g = 0; g < 4; g++) {
        put(block, byte + g, 0, scale[g]);
        put(block, byte + 4 + g, 0, minimum[g]);
        put(block, byte + 8 + g, 0, scale[g + 4] & 15);
        put(block, byte + 8 + g, 4, minimum[g + 4] & 15);
        put(block, byte + g, 6, scale[g + 4] >> 4);
        put(block, byte + 4 + g, 6, minimum[g + 4] >> 4);
    }
}

static void encode_q4_or_q5_k(uint8_t *block, double *want, bool is_q5)
{
    int q[256], scale[8], minimum[8];
    const double d = put_half(block, 0), dmin = put_half(block, 2);
    random_quants(q, 256, is_q5 ? 32 : 16);
    random_quants(scale, 8, 64);
    random_quants(minimum, 8, 64);
    put_scales_and_minima(block, 4, scale, minimum);
    for (int chunk = 0; chunk < 4; chunk++) {
        for (int l = 0; l < 32; l++) {
            const int byte = (is_q5 ? 48 : 16) + 32 * chunk + l;
            put(block, byte, 0, q[64 * chunk + l] & 15);
            put(block, byte, 4, q[64 * chunk + 32 + l] & 15);
            if (is_q5) {
                put(block, 16 + l, 2 * chunk, q[64 * chunk + l] >> 4);
                put(block, 16 + l, 2 * chunk + 1, q[64 * chunk + 32 + l] >> 4);
            }
        }
    }
    for (int i = 0; i < 256; i++)
        want[i] = d * scale[i / 32] * q[i] - dmin * minimum[i / 32];
}

static void encode_q4_k(uint8_t *block, double *want)
{
    encode_q4_or_q5_k(block, want, false);
}

static void encode_q5_k(uint8_t *block, double *want)
{
    encode_q4_or_q5_k(block, want, true);
}

static void encode_q6_k(uint8_t *block, double *want)
{
    int q[256], scale[16];
    const double d = put_half(block, 208);
    random_quants(q, 256, 64);
    for (int g = 0; g < 16; g++) {
        scale[g] = (int)random_below(256) - 128;
        put(block, 192 + g, 0, scale[g] & 255);
    }
    for (int half = 0; half < 2; half++) {
        for (int l = 0; l < 32; l++) {
            const int *four = q + 128 * half + l; /* weights l, l+32, l+64, l+96 */
            put(block, 64 * half + l, 0, four[0] & 15);
            put(block, 64 * half + l + 32, 0, four[32] & 15);
            put(block, 64 * half + l, 4, four[64] & 15);
            put(block, 64 * half + l + 32, 4, four[96] & 15);
            for (int k = 0; k < 4; k++)
                put(block, 128 + 32 * half + l, 2 * k, four[32 * k] >> 4);
        }
    }
    for (int i = 0; i < 256; i++)
        want[i] = d * scale[i / 16] * (q[i] - 32);
}

static void encode_iq4_xs(uint8_t *block, double *want)
{
    int q[256], scale[8];
    const double d = put_half(block, 0);
    random_quants(q, 256, 16);
    random_quants(scale, 8, 64);
    for (int g = 0; g < 8; g++) {
        put(block, 4 + g / 2, 4 * (g % 2), scale[g] & 15);
        put(block, 2 + g / 4, 2 * (g % 4), scale[g] >> 4);
        put_nibbles32(block, 8 + 16 * g, q + 32 * g);
    }
    for (int i = 0; i < 256; i++)
        want[i] = d * (scale[i / 32] - 32) * iq4[q[i]];
}

static void encode_f32(uint8_t *block, double *want)
{
    const float value = (float)ldexp((double)random_below(1u << 24) - (1 << 23),
                                     (int)random_below(200) - 150);
    const uint32_t bits = bits_of(value);
    for (int i = 0; i < 4; i++)
        block[i] = (uint8_t)(bits >> 8 * i);
    want[0] = value;
}

static void encode_f16(uint8_t *block, double *want)
{
    want[0] = put_half(block, 0);
}

static void encode_bf16(uint8_t *block, double *want)
{
    /* A value of 8 significant bits: its float has nothing in the low half. */
    const float value = (float)ldexp((double)random_below(511) - 255, (int)random_below(200) - 120);
    block[0] = (uint8_t)(bits_of(value) >> 16);
    block[1] = (uint8_t)(bits_of(value) >> 24);
    want[0] = value;
}

const struct block_encoder block_encoders[N_BLOCK_ENCODERS] = {
    {FORMAT_F32, encode_f32},     {FORMAT_F16, encode_f16},       {FORMAT_BF16, encode_bf16},
    {FORMAT_Q4_0, encode_q4_0},   {FORMAT_Q4_1, encode_q4_1},     {FORMAT_Q5_0, encode_q5_0},
    {FORMAT_Q5_1, encode_q5_1},   {FORMAT_Q8_0, encode_q8_0},     {FORMAT_Q2_K, encode_q2_k},
    {FORMAT_Q3_K, encode_q3_k},   {FORMAT_Q4_K, encode_q4_k},     {FORMAT_Q5_K, encode_q5_k},
    {FORMAT_Q6_K, encode_q6_k},   {FORMAT_IQ4_NL, encode_iq4_nl}, {FORMAT_IQ4_XS, encode_iq4_xs},
    {FORMAT_MXFP4, encode_mxfp4},
};

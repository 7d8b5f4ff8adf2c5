/* Repacking of weights into planes: one const table row per format that the kernels read. model.c
 * calls it for each part of a tensor at upload; shaders/weights_*.glsl read the planes.
 *
 * Only bits move. Where it saves the kernels work, a quant is stored in another order or with its
 * sign bit flipped (two's complement instead of an offset); scales keep their bits. All planes are
 * rows of bytes, little-endian within a word. */
#include "repack.h"

#include <string.h>

/* Q4_*: a word holds 8 weights: byte b has weight b in its low half and weight 4 + b in its high
 * half, so that one mask gives four weights as bytes. `flip` is xored into each. */
static uint8_t nibble_pair(uint32_t low, uint32_t high, uint32_t flip)
{
    return (uint8_t)((low ^ flip) | (high ^ flip) << 4);
}

/* One byte per weight to the nibble order above. */
static void pack_nibbles(const uint8_t *quants, uint64_t n, uint32_t flip, uint8_t *dst)
{
    for (uint64_t i = 0; i < n; i += 8)
        for (uint64_t b = 0; b < 4; b++)
            *dst++ = nibble_pair(quants[i + b], quants[i + 4 + b], flip);
}

/* One more bit of each of 32 weights in a word: that of weight 4i + b in bit i of byte b. */
static void pack_bits(const uint8_t bits[32], uint8_t *dst)
{
    memset(dst, 0, 4);
    for (int i = 0; i < 32; i++)
        dst[i % 4] |= (uint8_t)(bits[i] << i / 4);
}

/* Two bits of each of 16 weights in a word: those of weight 4i + b in bits 2i, 2i + 1 of byte b. */
static void pack_pairs(const uint8_t pairs[16], uint8_t *dst)
{
    for (int b = 0; b < 4; b++)
        dst[b] = (uint8_t)(pairs[b] | pairs[4 + b] << 2 | pairs[8 + b] << 4 | pairs[12 + b] << 6);
}

static void row_f32(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    memcpy(planes[0], src, k * 4);
}

static void row_half(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    memcpy(planes[0], src, k * 2);
}

/* Block: half d, 32 signed bytes. */
static void row_q8_0(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    for (uint64_t block = 0; block < k / 32; block++, src += 34) {
        memcpy(planes[1] + block * 2, src, 2);
        memcpy(planes[0] + block * 32, src + 2, 32);
    }
}

/* 16 bytes with weight j in the low and weight 16 + j in the high half of byte j. */
static void split_nibbles(const uint8_t *src, uint8_t quants[32])
{
    for (int j = 0; j < 16; j++) {
        quants[j] = src[j] & 15;
        quants[16 + j] = src[j] >> 4;
    }
}

/* Block: `head` bytes of scales, 16 bytes of nibbles. */
static void row_nibbles(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES],
                        uint64_t head, uint32_t flip)
{
    uint8_t quants[32];

    for (uint64_t block = 0; block < k / 32; block++, src += head + 16) {
        memcpy(planes[1] + block * head, src, head);
        split_nibbles(src + head, quants);
        pack_nibbles(quants, 32, flip, planes[0] + block * 16);
    }
}

/* Half d. Stored signed: value = d * (q - 8). */
static void row_q4_0(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    row_nibbles(src, k, planes, 2, 8);
}

/* Half d, half min. Both stay together: one load gives them. */
static void row_q4_1(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    row_nibbles(src, k, planes, 4, 0);
}

/* Half d; nibbles number the levels. */
static void row_iq4_nl(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    row_nibbles(src, k, planes, 2, 0);
}

/* A byte of exponent; nibbles are 4-bit floats. */
static void row_mxfp4(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    row_nibbles(src, k, planes, 1, 0);
}

/* Block: half d, half dmin, 12 bytes with eight 6-bit scales and eight 6-bit mins, 128 bytes of
 * quants. Plane 1 is {d, dmin, word of the scales' low halves, word of the mins' low halves, word
 * of both's upper two bits}, four bits for each sub-block of 32 in each word, which needs no branch
 * to read. */
static void row_q4_k(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    for (uint64_t block = 0; block < k / 256; block++, src += 144) {
        const uint8_t *packed = src + 4;
        uint8_t *words = planes[1] + block * 16;
        uint8_t quants[256];

        memcpy(words, src, 4);
        memset(words + 4, 0, 12);
        for (int j = 0; j < 8; j++) {
            uint32_t scale, min;

            if (j < 4) {
                scale = packed[j] & 63u;
                min = packed[j + 4] & 63u;
            } else {
                scale = (packed[j + 4] & 15u) | (uint32_t)(packed[j - 4] >> 6) << 4;
                min = (uint32_t)(packed[j + 4] >> 4) | (uint32_t)(packed[j] >> 6) << 4;
            }
            int shift = (j & 1) * 4;
            words[4 + j / 2] |= (uint8_t)((scale & 15u) << shift);
            words[8 + j / 2] |= (uint8_t)((min & 15u) << shift);
            words[12 + j / 2] |= (uint8_t)((scale >> 4 | min >> 4 << 2) << shift);
        }
        /* 64 weights in 32 bytes: the first 32 in the low halves. */
        for (int i = 0; i < 256; i++)
            quants[i] = src[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
        pack_nibbles(quants, 256, 0, planes[0] + block * 128);
    }
}

/* Block: 128 bytes of low halves, 64 bytes of upper 2-bit parts, 16 signed scales, half d. Stored
 * signed: value = d * scale * (q - 32). Upper parts: the word of 16 weights has in bits 2i, 2i + 1
 * of byte b those of weight 4i + b. */
static void row_q6_k(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    for (uint64_t block = 0; block < k / 256; block++, src += 210) {
        const uint8_t *low_bits = src, *high_bits = src + 128;
        uint8_t low[256], high[256];

        for (int i = 0; i < 256; i++) {
            int half = i / 128, quarter = i % 128 / 32, j = i % 32;

            low[i] = low_bits[half * 64 + quarter % 2 * 32 + j] >> (quarter / 2 * 4) & 15;
            high[i] = (high_bits[half * 32 + j] >> (quarter * 2) & 3) ^ 2;
        }
        pack_nibbles(low, 256, 0, planes[0] + block * 128);
        for (int i = 0; i < 256; i += 16)
            pack_pairs(high + i, planes[1] + block * 64 + i / 4);
        memcpy(planes[2] + block * 16, src + 192, 16);
        memcpy(planes[3] + block * 2, src + 208, 2);
    }
}

/* Block: `head` bytes of halfs, a word with the fifth bits, 16 bytes as in Q4_0. `flip`: 1 where a
 * fifth bit is stored inverted, which makes the number signed: q - 16 in two's complement. */
static void row_q5(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES],
                   uint64_t head, uint8_t flip)
{
    for (uint64_t block = 0; block < k / 32; block++, src += head + 20) {
        uint8_t quants[32], bits[32];

        for (int i = 0; i < 32; i++)
            bits[i] = (src[head + (uint64_t)i / 8] >> i % 8 & 1) ^ flip;
        split_nibbles(src + head + 4, quants);
        pack_nibbles(quants, 32, 0, planes[0] + block * 16);
        pack_bits(bits, planes[1] + block * 4);
        memcpy(planes[2] + block * head, src, head);
    }
}

static void row_q5_0(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    row_q5(src, k, planes, 2, 1);
}

static void row_q5_1(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    row_q5(src, k, planes, 4, 0);
}

/* Two bits of weight i of a block of Q2_K or Q3_K: in each half of 128 four times 32 weights share
 * 32 bytes. */
static uint8_t k_pair(const uint8_t *quants, int i)
{
    return quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void pack_k_pairs(const uint8_t *quants, uint8_t *dst)
{
    for (int first = 0; first < 256; first += 16) {
        uint8_t pairs[16];

        for (int i = 0; i < 16; i++)
            pairs[i] = k_pair(quants, first + i);
        pack_pairs(pairs, dst + first / 4);
    }
}

/* Block: 16 bytes of scales and minima, 64 bytes of quants, halfs d and dmin. */
static void row_q2_k(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    for (uint64_t block = 0; block < k / 256; block++, src += 84) {
        pack_k_pairs(src + 16, planes[0] + block * 64);
        memcpy(planes[1] + block * 16, src, 16);
        memcpy(planes[2] + block * 4, src + 80, 4);
    }
}

/* Block: 32 bytes of third bits (set: nothing is taken off), 64 of quants, 12 of scales, half d.
 * Third bits are stored inverted: low | bit << 2 is then q in two's complement. Scales: three
 * words, two with the low four bits of eight scales each, one with the upper two bits of all. */
static void row_q3_k(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    for (uint64_t block = 0; block < k / 256; block++, src += 110) {
        const uint8_t *mask = src, *scales = src + 96;
        uint8_t *words = planes[2] + block * 12;

        pack_k_pairs(src + 32, planes[0] + block * 64);
        for (int group = 0; group < 8; group++) {
            uint8_t bits[32];

            for (int i = 0; i < 32; i++)
                bits[i] = (mask[i] >> group & 1) ^ 1;
            pack_bits(bits, planes[1] + block * 32 + group * 4);
        }
        memset(words, 0, 12);
        for (int j = 0; j < 16; j++) {
            int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4;
            int high = scales[8 + j % 4] >> (2 * (j / 4)) & 3;

            words[j / 2] |= (uint8_t)(low << j % 2 * 4);
            words[8 + j / 4] |= (uint8_t)(high << j % 4 * 2);
        }
        memcpy(planes[3] + block * 2, src + 108, 2);
    }
}

/* Block: half d, half dmin, 12 bytes of scales and minima, 32 bytes of fifth bits, 128 of nibbles:
 * as Q4_K with the fifth bits in a plane of their own. */
static void row_q5_k(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    for (uint64_t block = 0; block < k / 256; block++, src += 176) {
        uint8_t *const here[REPACK_MAX_PLANES] = {planes[0] + block * 128, planes[1] + block * 16};
        uint8_t q4_k[144];

        memcpy(q4_k, src, 16);
        memcpy(q4_k + 16, src + 48, 128);
        row_q4_k(q4_k, 256, here);
        for (int group = 0; group < 8; group++) {
            uint8_t bits[32];

            for (int i = 0; i < 32; i++)
                bits[i] = src[16 + i] >> group & 1;
            pack_bits(bits, planes[2] + block * 32 + group * 4);
        }
    }
}

/* Block: half d, 2 bytes with the upper bits and 4 with the low bits of the scales, then for each
 * 32 weights 16 bytes. The first 8 bytes stay together: one load gives them. */
static void row_iq4_xs(const uint8_t *src, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES])
{
    uint8_t quants[32];

    for (uint64_t block = 0; block < k / 256; block++, src += 136) {
        memcpy(planes[1] + block * 8, src, 8);
        for (uint64_t group = 0; group < 8; group++) {
            split_nibbles(src + 8 + group * 16, quants);
            pack_nibbles(quants, 32, 0, planes[0] + block * 128 + group * 16);
        }
    }
}

static const repack_info formats[] = {
    {FORMAT_F32, "F32", 4, 1, {16}, 4, row_f32, false},
    {FORMAT_F16, "F16", 4, 1, {8}, 4, row_half, false},
    {FORMAT_BF16, "BF16", 4, 1, {8}, 4, row_half, false},
    {FORMAT_Q8_0, "Q8_0", 16, 2, {32, 2}, 32, row_q8_0, true},
    {FORMAT_Q4_0, "Q4_0", 16, 2, {16, 2}, 32, row_q4_0, true},
    {FORMAT_Q4_1, "Q4_1", 16, 2, {16, 4}, 32, row_q4_1, true},
    {FORMAT_Q5_0, "Q5_0", 16, 3, {16, 4, 2}, 32, row_q5_0, false},
    {FORMAT_Q5_1, "Q5_1", 16, 3, {16, 4, 4}, 32, row_q5_1, false},
    {FORMAT_Q2_K, "Q2_K", 16, 3, {64, 16, 4}, 256, row_q2_k, false},
    {FORMAT_Q3_K, "Q3_K", 16, 4, {64, 32, 12, 2}, 256, row_q3_k, false},
    {FORMAT_Q4_K, "Q4_K", 16, 2, {128, 16}, 256, row_q4_k, false},
    {FORMAT_Q5_K, "Q5_K", 16, 3, {128, 16, 32}, 256, row_q5_k, false},
    {FORMAT_Q6_K, "Q6_K", 16, 4, {128, 64, 16, 2}, 256, row_q6_k, false},
    {FORMAT_IQ4_NL, "IQ4_NL", 16, 2, {16, 2}, 32, row_iq4_nl, false},
    {FORMAT_IQ4_XS, "IQ4_XS", 16, 2, {128, 8}, 256, row_iq4_xs, false},
    {FORMAT_MXFP4, "MXFP4", 16, 2, {16, 1}, 32, row_mxfp4, false},
};

const repack_info *repack_find(enum tensor_format format)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (formats[i].format == format)
            return &formats[i];
    return NULL;
}

uint64_t repack_padded_k(const repack_info *info, uint64_t k)
{
    return (k + info->plane_unit - 1) / info->plane_unit * info->plane_unit;
}

uint64_t repack_bytes(const repack_info *info, uint64_t n_rows, uint64_t k,
                      uint32_t plane_words[REPACK_MAX_PLANES])
{
    uint64_t units = repack_padded_k(info, k) / info->plane_unit * n_rows;
    uint64_t bytes = 0;

    for (uint32_t p = 0; p < REPACK_MAX_PLANES; p++) {
        plane_words[p] = p < info->n_planes ? (uint32_t)(bytes / 4) : 0;
        if (p < info->n_planes)
            bytes = (bytes + units * info->plane_bytes[p] + 15) / 16 * 16;
    }
    return bytes;
}

void repack_rows(const repack_info *info, const uint8_t *src, uint64_t n_rows, uint64_t k,
                 uint8_t *dst)
{
    const format_info *format = format_find(info->format);
    uint64_t row_bytes = k / format->block_size * format->block_bytes;
    uint64_t units = repack_padded_k(info, k) / info->plane_unit;
    uint32_t plane_words[REPACK_MAX_PLANES];

    repack_bytes(info, n_rows, k, plane_words);
    for (uint64_t row = 0; row < n_rows; row++) {
        uint8_t *planes[REPACK_MAX_PLANES] = {0};

        for (uint32_t p = 0; p < info->n_planes; p++)
            planes[p] = dst + (uint64_t)plane_words[p] * 4 + row * units * info->plane_bytes[p];
        info->row(src + row * row_bytes, k, planes);
    }
}

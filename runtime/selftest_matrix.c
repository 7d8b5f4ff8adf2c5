/* Random matrices of the self-test (selftest_matrix.h), with the reference dequantiser's values. */
#include "selftest_matrix.h"

#include <math.h>
#include <string.h>

#include "cooperative.h"

/* More chunks in a row than any workgroup has lanes. */
#define N_WEIGHTS 2304
#define N_WEIGHTS_ODD 1290 /* of formats without blocks */
#define BLOCK 32           /* weights that share scale and minimum, at least 16 of them */

/* The halfs of a block (byte offsets, -1: none). */
static const struct {
    enum tensor_format format;
    int halfs[2];
    bool has_minima;
} layouts[] = {
    {FORMAT_F16, {0, -1}, false},    {FORMAT_Q8_0, {0, -1}, false},
    {FORMAT_Q4_0, {0, -1}, false},   {FORMAT_Q4_1, {0, 2}, true},
    {FORMAT_Q5_0, {0, -1}, false},   {FORMAT_Q5_1, {0, 2}, true},
    {FORMAT_Q2_K, {80, 82}, true},   {FORMAT_Q3_K, {108, -1}, false},
    {FORMAT_Q4_K, {0, 2}, true},     {FORMAT_Q5_K, {0, 2}, true},
    {FORMAT_Q6_K, {208, -1}, false}, {FORMAT_IQ4_NL, {0, -1}, false},
    {FORMAT_IQ4_XS, {0, -1}, false},
};
#define N_LAYOUTS (sizeof layouts / sizeof layouts[0])

/* Either sign and all mantissas; magnitudes from 2^-6 to 2, or all of them subnormal. */
static uint16_t random_half(selftest *t, bool subnormal)
{
    uint32_t bits = random_bits(t);

    if (subnormal)
        return (uint16_t)((bits & 0x83ff) | 1);
    return (uint16_t)((bits & 0x83ff) | (9 + (bits >> 16) % 7) << 10);
}

static void random_blocks(selftest *t, const format_info *format, bool subnormal, uint8_t *data,
                          uint64_t n_blocks)
{
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint8_t *block = data + b * format->block_bytes;

        for (uint32_t i = 0; i < format->block_bytes; i++)
            block[i] = (uint8_t)random_bits(t);
        for (size_t l = 0; l < N_LAYOUTS; l++)
            for (int h = 0; h < 2; h++)
                if (layouts[l].format == format->id && layouts[l].halfs[h] >= 0) {
                    uint16_t half = random_half(t, subnormal);
                    memcpy(block + layouts[l].halfs[h], &half, 2);
                }
        if (format->id == FORMAT_MXFP4)
            block[0] = (uint8_t)(120 + block[0] % 8); /* an exponent, biased by 128 */
        if (format->id == FORMAT_F32 || format->id == FORMAT_BF16) {
            float value = random_between(t, -2, 2);
            uint32_t bits;

            memcpy(&bits, &value, 4);
            if (format->id == FORMAT_BF16)
                bits >>= 16;
            memcpy(block, &bits, format->block_bytes);
        }
    }
}

bool matrix_has_halfs(enum tensor_format format)
{
    for (size_t l = 0; l < N_LAYOUTS; l++)
        if (layouts[l].format == format)
            return true;
    return false;
}

void matrix_fill(selftest *t, matrix *w, enum tensor_format format, uint32_t m, uint32_t k,
                 bool subnormal)
{
    const format_info *f = format_find(format);
    uint64_t n;

    w->info = repack_find(format);
    w->m = m;
    w->k = k ? k : f->block_size == 1 ? N_WEIGHTS_ODD : N_WEIGHTS;
    w->padded_k = (uint32_t)repack_padded_k(w->info, w->k);
    w->n_chunks = w->padded_k / w->info->chunk;
    w->has_minima = false;
    for (size_t l = 0; l < N_LAYOUTS; l++)
        w->has_minima = w->has_minima || (layouts[l].format == f->id && layouts[l].has_minima);
    n = (uint64_t)w->m * w->k;
    w->packed = selftest_buffer(t, repack_bytes(w->info, w->m, w->k, w->planes));
    w->values = selftest_memory(t, n * sizeof *w->values);
    w->magnitudes = selftest_memory(t, n * sizeof *w->magnitudes);
    uint8_t *stored = selftest_memory(t, n / f->block_size * f->block_bytes);
    if (t->result != OTR_OK)
        return;
    random_blocks(t, f, subnormal, stored, n / f->block_size);
    format_dequantize(f, stored, n, w->values);
    w->scale = cooperative_scale(format_largest(f, stored, n));
    repack_rows(w->info, stored, w->m, w->k, w->packed->mapped);
    for (uint64_t i = 0; i < n; i++)
        w->magnitudes[i] = fabs(w->values[i]);
    /* Where there are minima, scale * q and the minimum may be larger than their sum: random
     * numbers of 4 bits spread over most of their range, so that each is within 4 times the largest
     * weight. */
    for (uint64_t i = 0; w->has_minima && i < n; i += BLOCK) {
        double largest = 0;
        for (uint64_t j = i; j < i + BLOCK; j++)
            largest = fmax(largest, w->magnitudes[j]);
        for (uint64_t j = i; j < i + BLOCK; j++)
            w->magnitudes[j] = 4 * largest;
    }
}

/* Self-test of the kernels that read weights: matrix times vector and the embedding gather, in every
 * format that repack.c has, against the reference dequantiser. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "repack.h"
#include "selftest.h"
#include "step_state.h"

/* No multiple of a workgroup's outputs; more chunks in a row than any workgroup has lanes. */
#define N_OUTPUTS 37
#define N_WEIGHTS 2304      /* of a row */
#define N_WEIGHTS_ODD 1290  /* of formats without blocks */
#define MAX_FORMAT_ID 64
#define BLOCK 32            /* weights that share scale and minimum, at least 16 of them */

static const uint32_t row_counts[] = {17, 1, 2, 3, 5, 8};
#define N_ROW_COUNTS (sizeof row_counts / sizeof row_counts[0])

/* A matrix in a format: packed for the kernels, and its values. */
typedef struct matrix {
    const repack_info *info;
    bool has_minima;
    uint32_t m, k, padded_k, n_chunks;
    uint32_t planes[REPACK_MAX_PLANES];
    gpu_buffer *packed;
    double *values;     /* [m][k] */
    double *magnitudes; /* [m][k]: the most that was added up to get the value */
} matrix;

/* ----------------------------------------------------------------------------- random weights */

/* The halfs of a block (byte offsets, -1: none). */
static const struct {
    enum tensor_format format;
    int halfs[2];
    bool has_minima;
} layouts[] = {
    {FORMAT_F16, {0, -1}, false}, {FORMAT_Q8_0, {0, -1}, false}, {FORMAT_Q4_0, {0, -1}, false},
    {FORMAT_Q4_1, {0, 2}, true},  {FORMAT_Q4_K, {0, 2}, true},   {FORMAT_Q6_K, {208, -1}, false},
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

static void matrix_fill(selftest *t, matrix *w, enum tensor_format format, bool subnormal)
{
    const format_info *f = format_find(format);
    uint64_t n;

    w->info = repack_find(format);
    w->m = N_OUTPUTS;
    w->k = f->block_size == 1 ? N_WEIGHTS_ODD : N_WEIGHTS;
    w->padded_k = (uint32_t)repack_padded_k(w->info, w->k);
    w->n_chunks = w->padded_k / w->info->chunk;
    w->has_minima = false;
    for (size_t l = 0; l < N_LAYOUTS; l++)
        w->has_minima = w->has_minima || (layouts[l].format == format && layouts[l].has_minima);
    n = (uint64_t)w->m * w->k;
    w->packed = selftest_buffer(t, repack_bytes(w->info, w->m, w->k, w->planes));
    w->values = selftest_memory(t, n * sizeof *w->values);
    w->magnitudes = selftest_memory(t, n * sizeof *w->magnitudes);
    uint8_t *stored = selftest_memory(t, n / f->block_size * f->block_bytes);
    if (t->result != OTR_OK)
        return;
    random_blocks(t, f, subnormal, stored, n / f->block_size);
    format_dequantize(f, stored, n, w->values);
    repack_rows(w->info, stored, w->m, w->k, w->packed->mapped);
    for (uint64_t i = 0; i < n; i++)
        w->magnitudes[i] = fabs(w->values[i]);
    /* Where there are minima, scale * q and the minimum may be larger than their sum: random numbers of
     * 4 bits spread over most of their range, so that each is within 4 times the largest weight. */
    for (uint64_t i = 0; w->has_minima && i < n; i += BLOCK) {
        double largest = 0;
        for (uint64_t j = i; j < i + BLOCK; j++)
            largest = fmax(largest, w->magnitudes[j]);
        for (uint64_t j = i; j < i + BLOCK; j++)
            w->magnitudes[j] = 4 * largest;
    }
}

/* ------------------------------------------------------------------------------------- matvec */

enum { ACCUMULATE = 1, BIAS = 2, OUT_ROWS = 4 }; /* flags of shaders/matvec.comp */
#define Y_OFFSET 5
#define Y_STRIDE (N_OUTPUTS + Y_OFFSET + 6)
#define OLD_Y 0.75f

typedef struct matvec_check {
    const matrix *w;
    uint32_t tier, lanes, flags;
    VkPipeline pipeline;
    gpu_buffer *x, *y, *bias, *state;
    uint32_t *all_rows; /* results of the pass with the most rows */
} matvec_check;

static void matvec_compare(selftest *t, const matvec_check *c, uint32_t rows)
{
    const matrix *w = c->w;
    const float *x = c->x->mapped, *y = c->y->mapped, *bias = c->bias->mapped;
    /* A term goes through the additions of its chunk, of its lane, and of the lanes (fewer on tier 1,
     * where they are added as a tree), and a few for scale, bias and residual; each rounds by at most
     * 2^-24 of what is added up. */
    double roundings = w->info->chunk + (double)w->n_chunks / c->lanes + c->lanes + 6;

    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t o = 0; o < w->m; o++) {
            double sum = 0, magnitude = 0;
            for (uint32_t i = 0; i < w->k; i++) {
                double value = x[r * w->padded_k + i];
                sum += w->values[o * w->k + i] * value;
                magnitude += w->magnitudes[o * w->k + i] * fabs(value);
            }
            if (c->flags & BIAS) {
                sum += (double)bias[o];
                magnitude += fabs((double)bias[o]);
            }
            if (c->flags & ACCUMULATE) {
                sum += (double)OLD_Y;
                magnitude += (double)OLD_Y;
            }
            expect_near(t, r, o, (double)y[r * Y_STRIDE + Y_OFFSET + o], sum,
                        magnitude * roundings * 0x1p-24);
        }
}

static void matvec_rows(selftest *t, const matvec_check *c, uint32_t rows)
{
    const matrix *w = c->w;
    uint32_t push[] = {w->m,        w->n_chunks,  w->planes[1], w->planes[2], w->planes[3],
                       w->padded_k, Y_STRIDE,     Y_OFFSET,     c->flags};
    const kernel_run run = {
        .pipeline = c->pipeline,
        .buffers = {w->packed, c->x, c->y, c->bias},
        .state = c->state,
        .push = push,
        .push_bytes = sizeof push,
        .groups = {(w->m + t->tuning->matvec_outputs - 1) / t->tuning->matvec_outputs, 1, 1},
    };
    uint32_t *state = c->state->mapped, *words = c->y->mapped;
    float *y = c->y->mapped;

    state[S_ROWS] = c->flags & OUT_ROWS ? MAX_ROWS : rows;
    state[S_OUT_ROWS] = c->flags & OUT_ROWS ? rows : 0;
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        poison(c->y);
        for (uint32_t i = 0; c->flags & ACCUMULATE && i < rows * Y_STRIDE; i++)
            if (i % Y_STRIDE >= Y_OFFSET && i % Y_STRIDE < Y_OFFSET + w->m)
                y[i] = OLD_Y;
        selftest_dispatch(t, &run);
        if (t->result != OTR_OK)
            return;
        for (uint32_t r = 0; r <= MAX_ROWS; r++) {
            uint32_t at = r * Y_STRIDE;
            expect_poison(t, c->y, at, at + (r < rows ? Y_OFFSET : Y_STRIDE));
            expect_poison(t, c->y, at + Y_OFFSET + w->m, at + Y_STRIDE);
        }
        if (rows == MAX_ROWS && t->run == 0)
            memcpy(c->all_rows, words, MAX_ROWS * Y_STRIDE * 4);
        /* Equal bits in all runs, and whatever the number of rows: then one comparison is enough. */
        expect_words(t, "not the result of 17 rows", words, c->all_rows, rows * Y_STRIDE);
    }
    t->run = SELFTEST_RUNS - 1;
    matvec_compare(t, c, rows);
}

static void matvec(selftest *t, const matrix *w, uint32_t tier, uint32_t flags, const char *variant)
{
    uint32_t lanes = tier >= 1 ? t->gpu->subgroup_size : t->tuning->matvec_lanes;
    uint32_t subgroups = tier >= 1 ? t->tuning->matvec_subgroups : 1;
    uint32_t constants[] = {lanes * subgroups, lanes, t->tuning->matvec_outputs, 32};
    matvec_check c = {.w = w, .tier = tier, .lanes = lanes, .flags = flags};
    char shader[64], detail[16];

    snprintf(shader, sizeof shader, "matvec_%s_t%u", w->info->shader, tier);
    snprintf(detail, sizeof detail, "tier %u", tier);
    c.pipeline = selftest_pipeline(t, shader, constants, 4, tier >= 1);
    c.x = selftest_buffer(t, (uint64_t)MAX_ROWS * w->padded_k * 4);
    c.y = selftest_buffer(t, (MAX_ROWS + 1) * Y_STRIDE * 4);
    c.bias = selftest_buffer(t, N_OUTPUTS * 4);
    c.state = selftest_buffer(t, STATE_WORDS * 4);
    c.all_rows = selftest_memory(t, MAX_ROWS * Y_STRIDE * 4);
    if (t->result != OTR_OK)
        return;
    /* The padding of x meets weights of zero: any finite number must do. */
    random_floats(t, c.x->mapped, (uint64_t)MAX_ROWS * w->padded_k, -3, 3);
    random_floats(t, c.bias->mapped, N_OUTPUTS, -3, 3);
    for (size_t i = 0; i < N_ROW_COUNTS && t->result == OTR_OK; i++) {
        selftest_begin(t, "matvec %s%s tier=%u rows=%u", w->info->shader, variant, tier, row_counts[i]);
        matvec_rows(t, &c, row_counts[i]);
        selftest_end(t, detail);
    }
}

/* -------------------------------------------------------------------------------------- embed */

#define EMBED_BASE 3
#define EMBED_ROWS 17
#define EMBED_SCALE 0.5f

static void embed(selftest *t, const matrix *w)
{
    const uint32_t lanes = t->tuning->elementwise_lanes, first_token = 11;
    struct {
        uint32_t first_token, n_tokens, n_chunks, planes[3], out_stride;
        float scale;
    } push = {first_token, w->m, w->n_chunks, {w->planes[1], w->planes[2], w->planes[3]},
              w->padded_k + 4, EMBED_SCALE};
    char shader[64];

    snprintf(shader, sizeof shader, "embed_%s", w->info->shader);
    kernel_run run = {
        .pipeline = selftest_pipeline(t, shader, &lanes, 1, false),
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {(w->n_chunks + lanes - 1) / lanes, EMBED_ROWS + 1, 1},
    };
    gpu_buffer *lane = selftest_buffer(t, (LANE_HISTORY + EMBED_BASE + EMBED_ROWS + 1) * 4);
    gpu_buffer *out = selftest_buffer(t, (uint64_t)(EMBED_ROWS + 1) * push.out_stride * 4);
    if (t->result != OTR_OK)
        return;
    uint32_t *words = lane->mapped;
    const float *got = out->mapped;

    run.buffers[0] = w->packed;
    run.buffers[1] = run.state = lane;
    run.buffers[2] = out;
    words[S_BASE] = EMBED_BASE;
    words[S_ROWS] = EMBED_ROWS;
    /* Tokens of the part's ends, and one before and behind: rows of other parts. */
    for (uint32_t r = 0; r < EMBED_ROWS; r++)
        words[LANE_HISTORY + EMBED_BASE + r] = first_token + random_bits(t) % w->m;
    words[LANE_HISTORY + EMBED_BASE] = first_token;
    words[LANE_HISTORY + EMBED_BASE + 1] = first_token + w->m - 1;
    words[LANE_HISTORY + EMBED_BASE + 2] = first_token - 1;
    words[LANE_HISTORY + EMBED_BASE + 3] = first_token + w->m;

    selftest_begin(t, "embed %s", w->info->shader);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        poison(out);
        selftest_dispatch(t, &run);
        for (uint32_t r = 0; r <= EMBED_ROWS && t->result == OTR_OK; r++) {
            uint32_t token = words[LANE_HISTORY + EMBED_BASE + r] - first_token;
            uint64_t at = (uint64_t)r * push.out_stride;
            bool written = r < EMBED_ROWS && token < w->m;

            expect_poison(t, out, written ? at + w->padded_k : at, at + push.out_stride);
            for (uint32_t i = 0; written && i < w->k; i++) {
                double want = w->values[token * w->k + i] * (double)EMBED_SCALE;
                /* Scale times number is exact in all formats. With a minimum there is one rounding, or
                 * two where the device has no fused multiply-add. */
                double size = w->magnitudes[token * w->k + i];
                expect_near(t, r, i, (double)got[at + i], want, w->has_minima ? size * 0x1p-23 : 0);
            }
        }
    }
    selftest_end(t, "");
}

void selftest_weights(selftest *t)
{
    for (uint32_t id = 0; id < MAX_FORMAT_ID && t->result == OTR_OK; id++) {
        const repack_info *info = repack_find((enum tensor_format)id);
        bool has_halfs = false;
        matrix w;

        if (!info)
            continue;
        for (size_t l = 0; l < N_LAYOUTS; l++)
            has_halfs = has_halfs || layouts[l].format == info->format;
        for (int subnormal = 0; subnormal <= has_halfs && t->result == OTR_OK; subnormal++) {
            matrix_fill(t, &w, info->format, subnormal);
            for (int32_t tier = 0; tier <= t->gpu->tier && t->result == OTR_OK; tier++)
                matvec(t, &w, (uint32_t)tier, 0, subnormal ? " subnormal" : "");
            if (!subnormal && t->result == OTR_OK)
                embed(t, &w);
            selftest_release(t);
        }
    }
}

/* Self-test of the kernels that read weights: matrix times vector and the embedding gather, in
 * every format that repack.c has, against the reference dequantiser. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cooperative.h"
#include "selftest_matrix.h"
#include "step_state.h"

#define MAX_FORMAT_ID 64

enum { ACCUMULATE = 1, BIAS = 2, OUT_ROWS = 4, SWIGLU = 8 }; /* flags of shaders/linear.glsl */

/* --------------------------------------------------------------------------- matvec and matmul */

#define Y_OFFSET 5
#define Y_STRIDE (N_OUTPUTS + Y_OFFSET + 6)
#define OLD_Y 0.75f

/* A kernel that multiplies, with its sizes. matvec_direct has a pipeline for each tile of rows; the
 * others have one, with tile 0. */
static const uint32_t direct_tiles[N_TILES] = {TILES};

typedef struct linear_kernel {
    char shader[64], name[64], detail[16];
    uint32_t constants[KERNEL_MAX_CONSTANTS], n_constants;
    bool pins_subgroup;
    int32_t lowest_tier, highest_tier; /* that may use it */
    bool tiled;                        /* the last constant is the tile */
    uint32_t group_outputs;            /* of a workgroup */
    uint32_t group_rows;               /* of a workgroup in y */
    double roundings;                  /* that a term of the sum goes through at most */
    bool uses_bytes;        /* of the rows, which are rounded to 8 bits before (tier 2) */
    bool uses_halfs;        /* factors are rounded to halfs before */
    uint32_t row_counts[7]; /* the most rows first */
    uint32_t n_row_counts;
} linear_kernel;

typedef struct linear_check {
    const matrix *w;
    const linear_kernel *kernel;
    uint32_t flags, max_rows;
    VkPipeline pipelines[N_TILES];
    gpu_buffer *x, *y, *bias, *state;
    gpu_buffer *rows;          /* what the kernel reads: x, or its bytes */
    double *inputs;            /* what they stand for */
    double *sums, *magnitudes; /* [max_rows][m] */
    uint32_t *all_rows;        /* results of the pass with the most rows */
} linear_check;

/* The right results, and the sum of the sizes of all that is added up: what is allowed to be wrong is
 * `roundings` of 2^-24 of it. */
static void linear_expected(const linear_check *c)
{
    const matrix *w = c->w;
    const float *bias = c->bias->mapped;

    for (uint32_t r = 0; r < c->max_rows; r++)
        for (uint32_t o = 0; o < w->m; o++) {
            double sum = 0, magnitude = 0, squares = 0;
            for (uint32_t i = 0; i < w->k; i++) {
                double value = c->inputs[r * w->padded_k + i];
                double term = w->values[o * w->k + i] * value;
                sum += term;
                squares += term * term;
                magnitude += w->magnitudes[o * w->k + i] * fabs(value);
            }
            /* Both factors are 2^-11 off at most, which in a sum of many is as good as random: its
             * deviation is 0.8 * 2^-11 of the norm at most. */
            if (c->kernel->uses_halfs)
                magnitude += fmin(magnitude, 3 * sqrt(squares)) * 0x1p14 / c->kernel->roundings;
            if (c->flags & SWIGLU && o % 2) { /* with the gate before it */
                double gate = c->sums[r * w->m + o / 2];
                double error = 1.1 * c->magnitudes[r * w->m + o / 2]; /* the slope of silu */
                double silu = gate / (1 + exp(-gate));

                c->sums[r * w->m + o / 2] = silu * sum;
                c->magnitudes[r * w->m + o / 2] = error * fabs(sum) + fabs(silu) * magnitude +
                                                  fabs(silu * sum);
                continue;
            }
            if (c->flags & SWIGLU) {
                c->sums[r * w->m + o / 2] = sum;
                c->magnitudes[r * w->m + o / 2] = magnitude;
                continue;
            }
            if (c->flags & BIAS) {
                sum += (double)bias[o];
                magnitude += fabs((double)bias[o]);
            }
            if (c->flags & ACCUMULATE) {
                sum += (double)OLD_Y;
                magnitude += (double)OLD_Y;
            }
            c->sums[r * w->m + o] = sum;
            c->magnitudes[r * w->m + o] = magnitude;
        }
}

/* Poison, and in place of the outputs what a residual is added to. */
static void linear_prepare(const linear_check *c, uint32_t rows)
{
    float *y = c->y->mapped;

    poison(c->y);
    for (uint32_t r = 0; c->flags & ACCUMULATE && r < rows; r++)
        for (uint32_t o = 0; o < c->w->m; o++)
            y[r * Y_STRIDE + Y_OFFSET + o] = OLD_Y;
}

static void linear_compare(selftest *t, const linear_check *c, uint32_t rows)
{
    const matrix *w = c->w;
    const float *y = c->y->mapped;
    uint32_t n = c->flags & SWIGLU ? w->m / 2 : w->m;

    for (uint32_t r = 0; r <= c->max_rows; r++) {
        uint32_t at = r * Y_STRIDE;
        expect_poison(t, c->y, at, at + (r < rows ? Y_OFFSET : Y_STRIDE));
        expect_poison(t, c->y, at + Y_OFFSET + n, at + Y_STRIDE);
    }
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t o = 0; o < n; o++)
            expect_near(t, r, o, (double)y[r * Y_STRIDE + Y_OFFSET + o], c->sums[r * w->m + o],
                        c->magnitudes[r * w->m + o] * c->kernel->roundings * 0x1p-24);
    /* Equal bits in all runs, and whatever the number of rows. */
    if (rows == c->max_rows && t->run == 0)
        memcpy(c->all_rows, y, rows * Y_STRIDE * 4);
    expect_words(t, "not the result of more rows", c->y->mapped, c->all_rows, rows * Y_STRIDE);
}

/* Workgroups in y of a tile for so many rows: tiles of TILE_MAIN from the first row on, and the
 * least tile that holds what is left. */
static uint32_t tile_groups(uint32_t tile, uint32_t rows)
{
    uint32_t mains = MAIN_TILES(rows), left = rows - mains * TILE_MAIN;

    return (tile == TILE_MAIN ? mains : 0) + (left && tile == TILE_OF(left));
}

static void linear_dispatch(selftest *t, const linear_check *c, uint32_t rows)
{
    const matrix *w = c->w;
    const linear_kernel *kernel = c->kernel;
    uint32_t push[] = {w->m,
                       w->n_chunks,
                       w->planes[1],
                       w->planes[2],
                       w->planes[3],
                       kernel->uses_bytes ? w->padded_k / QUANTISED_BLOCK * QUANTISED_WORDS
                                          : w->padded_k,
                       Y_STRIDE,
                       Y_OFFSET,
                       c->flags,
                       0,
                       0};
    kernel_run run = {
        .buffers = {w->packed, c->rows, c->y, c->bias},
        .state = c->state,
        .push = push,
        .push_bytes = sizeof push,
        .groups = {(w->m + kernel->group_outputs - 1) / kernel->group_outputs, 1, 1},
    };

    memcpy(&push[10], &w->scale, sizeof w->scale);
    for (uint32_t i = 0; i < (kernel->tiled ? N_TILES : 1); i++) {
        run.pipeline = c->pipelines[i];
        run.groups[1] = kernel->tiled ? tile_groups(direct_tiles[i], rows)
                                      : (rows + kernel->group_rows - 1) / kernel->group_rows;
        if (run.groups[1])
            selftest_dispatch(t, &run);
    }
}

static void linear_rows(selftest *t, const linear_check *c, uint32_t rows)
{
    uint32_t *state = c->state->mapped;

    state[S_ROWS] = c->flags & OUT_ROWS ? c->max_rows : rows;
    state[S_OUT_ROWS] = c->flags & OUT_ROWS ? rows : 0;
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        linear_prepare(c, rows);
        linear_dispatch(t, c, rows);
        if (t->result == OTR_OK)
            linear_compare(t, c, rows);
    }
}

/* Random rows. The padding of x meets weights of zero: any finite number must do. */
static void linear_fill(selftest *t, linear_check *c)
{
    uint64_t n = (uint64_t)c->max_rows * c->w->padded_k;

    random_floats(t, c->x->mapped, n, -3, 3);
    random_floats(t, c->bias->mapped, N_OUTPUTS, -3, 3);
    for (uint64_t i = 0; i < n; i++)
        c->inputs[i] = (double)((const float *)c->x->mapped)[i];
    c->rows = c->x;
    if (c->kernel->uses_bytes)
        c->rows = check_quantise(t, c->x, c->w->padded_k, c->max_rows, c->inputs);
}

static void linear(selftest *t, const matrix *w, const linear_kernel *kernel, uint32_t flags,
                   const char *variant)
{
    linear_check c = {.w = w, .kernel = kernel, .flags = flags, .max_rows = kernel->row_counts[0]};
    uint64_t n = (uint64_t)c.max_rows * w->m;

    selftest_tiers(t, kernel->lowest_tier, kernel->highest_tier);
    for (uint32_t i = 0; i < (kernel->tiled ? N_TILES : 1); i++) {
        uint32_t constants[KERNEL_MAX_CONSTANTS];

        memcpy(constants, kernel->constants, sizeof constants);
        if (kernel->tiled)
            constants[kernel->n_constants - 1] = direct_tiles[i];
        c.pipelines[i] = selftest_pipeline(t, kernel->shader, constants, kernel->n_constants,
                                           kernel->pins_subgroup);
    }
    if (t->is_refused && !selftest_counts(t)) {
        selftest_report_refusal(t);
        return;
    }
    c.x = selftest_buffer(t, (uint64_t)c.max_rows * w->padded_k * 4);
    c.y = selftest_buffer(t, (c.max_rows + 1) * Y_STRIDE * 4);
    c.bias = selftest_buffer(t, N_OUTPUTS * 4);
    c.state = selftest_buffer(t, STATE_WORDS * 4);
    c.inputs = selftest_memory(t, (uint64_t)c.max_rows * w->padded_k * sizeof *c.inputs);
    c.sums = selftest_memory(t, n * sizeof *c.sums);
    c.magnitudes = selftest_memory(t, n * sizeof *c.magnitudes);
    c.all_rows = selftest_memory(t, c.max_rows * Y_STRIDE * 4);
    if (t->result != OTR_OK)
        return;
    linear_fill(t, &c);
    linear_expected(&c);
    for (uint32_t i = 0; i < kernel->n_row_counts && t->result == OTR_OK; i++) {
        selftest_begin(t, "%s%s rows=%u", kernel->name, variant, kernel->row_counts[i]);
        selftest_tiers(t, kernel->lowest_tier, kernel->highest_tier);
        linear_rows(t, &c, kernel->row_counts[i]);
        selftest_end(t, kernel->detail);
    }
}

static linear_kernel matvec_kernel(const selftest *t, const matrix *w, uint32_t tier,
                                   uint32_t rows_per_y, uint32_t max_tile)
{
    const tuning *tuned = selftest_tuning(t, false);
    uint32_t lanes = tier >= 1 ? t->gpu->subgroup_size : tuned->matvec_lanes;
    uint32_t subgroups = tier >= 1 ? tuned->matvec_subgroups : 1;
    linear_kernel kernel = {
        .constants = {lanes * subgroups, lanes, tuned->matvec_outputs, rows_per_y, max_tile},
        .n_constants = 5,
        .pins_subgroup = tier >= 1,
        .lowest_tier = (int32_t)tier,
        .highest_tier = tier >= 1 ? 3 : 0,
        .group_outputs = subgroups * tuned->matvec_outputs,
        .group_rows = rows_per_y,
        /* The additions of its chunk, of its lane, and of the lanes (fewer on tier 1, where they
         * are added as a tree), and a few for scale, bias and residual. */
        .roundings = w->info->chunk + (double)w->n_chunks / lanes + lanes + 6,
        .row_counts = {17, 1, 2, 3, 5, 7, 8},
        .n_row_counts = 7,
    };

    if (max_tile == 1) {
        kernel.row_counts[0] = 1;
        kernel.n_row_counts = 1;
    }
    snprintf(kernel.shader, sizeof kernel.shader, "matvec_%s_t%u", w->info->shader, tier);
    snprintf(kernel.name, sizeof kernel.name, "matvec %s tier=%u%s", w->info->shader, tier,
             max_tile == 1 ? " one" : "");
    snprintf(kernel.detail, sizeof kernel.detail, "tier %u", tier);
    return kernel;
}

/* As matvec of tier 1, with which it shares its sizes and the order of its sums. */
static linear_kernel dot_kernel(const selftest *t, const matrix *w, uint32_t max_tile)
{
    linear_kernel kernel = matvec_kernel(t, w, 1, 32, max_tile);

    kernel.uses_bytes = true;
    kernel.lowest_tier = 2;
    snprintf(kernel.shader, sizeof kernel.shader, "matvec_dot_%s", w->info->shader);
    snprintf(kernel.name, sizeof kernel.name, "matvec_dot %s%s", w->info->shader,
             max_tile == 1 ? " one" : "");
    snprintf(kernel.detail, sizeof kernel.detail, "tier 2");
    return kernel;
}

static linear_kernel direct_kernel(const selftest *t, const matrix *w)
{
    uint32_t lanes = t->gpu->subgroup_size, outputs = selftest_tuning(t, true)->direct_outputs;
    linear_kernel kernel = {
        .constants = {lanes, lanes, outputs, 0},
        .n_constants = 4,
        .highest_tier = 3,
        .tiled = true,
        .group_outputs = lanes * outputs,
        .roundings = w->padded_k + 6.0, /* one chain, and scale, bias and residual */
        .row_counts = {17, 1, 2, 3, 5, 7, 8},
        .n_row_counts = 7,
    };

    snprintf(kernel.shader, sizeof kernel.shader, "matvec_direct_%s", w->info->shader);
    snprintf(kernel.name, sizeof kernel.name, "matvec_direct %s", w->info->shader);
    return kernel;
}

static linear_kernel matmul_kernel(const selftest *t, const matrix *w)
{
    const uint32_t *size = selftest_tuning(t, false)->matmul; /* BM, BN, BK, TM, TN */
    linear_kernel kernel = {
        .constants = {size[0] / size[3] * (size[1] / size[4])},
        .n_constants = 6,
        .highest_tier = 2,
        .group_outputs = size[0],
        .group_rows = size[1],
        .roundings = w->padded_k + 6.0, /* as above */
        .row_counts = {71, 1, 8, 65},
        .n_row_counts = 4,
    };

    memcpy(kernel.constants + 1, size, 5 * sizeof *size);
    snprintf(kernel.shader, sizeof kernel.shader, "matmul_%s", w->info->shader);
    snprintf(kernel.name, sizeof kernel.name, "matmul %s", w->info->shader);
    return kernel;
}

static linear_kernel cooperative_kernel(const selftest *t, const matrix *w)
{
    cooperative_sizes sizes = cooperative_find_sizes(t->gpu,
                                                     selftest_tuning(t, false)->cooperative_size);
    linear_kernel kernel = {
        .n_constants = COOPERATIVE_CONSTANTS,
        .pins_subgroup = true,
        .lowest_tier = 3,
        .highest_tier = 3,
        .group_outputs = sizes.outputs,
        .group_rows = sizes.rows,
        .roundings = 2.0 * w->padded_k + 6.0, /* which may be truncations */
        .uses_halfs = true,
        .row_counts = {71, 1, 8, 65},
        .n_row_counts = 4,
    };

    memcpy(kernel.constants, sizes.constants, sizeof sizes.constants);
    snprintf(kernel.shader, sizeof kernel.shader, "matmul_cooperative_%s", w->info->shader);
    snprintf(kernel.name, sizeof kernel.name, "matmul_cooperative %s", w->info->shader);
    snprintf(kernel.detail, sizeof kernel.detail, "tier 3");
    return kernel;
}

/* -------------------------------------------------------------------------------------- embed */

#define EMBED_BASE 3
#define EMBED_ROWS 17
#define EMBED_SCALE 0.5f

static void embed(selftest *t, const matrix *w)
{
    const uint32_t lanes = t->tuning.elementwise_lanes, first_token = 11;
    struct {
        uint32_t first_token, n_tokens, n_chunks, planes[3], out_stride;
        float scale;
    } push = {first_token,     w->m,       w->n_chunks, {w->planes[1], w->planes[2], w->planes[3]},
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
                /* Scale times number is exact in all formats. With a minimum there is one rounding,
                 * or two where the device has no fused multiply-add. */
                double size = w->magnitudes[token * w->k + i];
                expect_near(t, r, i, (double)got[at + i], want, w->has_minima ? size * 0x1p-23 : 0);
            }
        }
    }
    selftest_end(t, "");
}

/* ---------------------------------------------------------------------------- the self-test */

void check_linear(selftest *t, const linear_shape *shape)
{
    const char *variant = shape->subnormal        ? " subnormal"
                          : shape->flags & SWIGLU ? " swiglu"
                          : shape->flags          ? " with bias"
                                                  : "";
    uint32_t rows_per_y = shape->matvec_rows ? shape->matvec_rows : 32;
    linear_kernel kernels[9];
    uint32_t n = 0;
    matrix w;

    matrix_fill(t, &w, shape->format, shape->flags & SWIGLU ? N_OUTPUTS - 1 : N_OUTPUTS, /* pairs */
                shape->k, shape->subnormal);
    kernels[n++] = direct_kernel(t, &w);
    for (uint32_t tier = 0; tier <= (t->gpu->tier >= 1); tier++) {
        kernels[n++] = matvec_kernel(t, &w, tier, rows_per_y, 8);
        kernels[n++] = matvec_kernel(t, &w, tier, rows_per_y, 1);
    }
    if (t->gpu->uses_dot8 && w.info->has_dot8) {
        kernels[n++] = dot_kernel(t, &w, 8);
        kernels[n++] = dot_kernel(t, &w, 1);
    }
    kernels[n++] = matmul_kernel(t, &w);
    if (t->gpu->tier >= 3)
        kernels[n++] = cooperative_kernel(t, &w);
    for (uint32_t i = 0; i < n && t->result == OTR_OK; i++)
        linear(t, &w, &kernels[i], shape->flags, variant);
    if (t->result == OTR_OK && !shape->subnormal && !shape->flags)
        embed(t, &w);
    selftest_release(t);
}

void selftest_weights(selftest *t)
{
    for (uint32_t id = 0; id < MAX_FORMAT_ID && t->result == OTR_OK; id++) {
        const repack_info *info = repack_find((enum tensor_format)id);
        linear_shape shape = {0};

        if (!info)
            continue;
        shape.format = info->format;
        check_linear(t, &shape);
        shape.subnormal = matrix_has_halfs(info->format);
        if (!shape.subnormal) /* no halfs in it */
            shape.flags = ACCUMULATE | BIAS | OUT_ROWS;
        check_linear(t, &shape);
    }
    if (t->result == OTR_OK)
        check_linear(t, &(linear_shape){.format = FORMAT_F32, .k = 260, .flags = SWIGLU});
}

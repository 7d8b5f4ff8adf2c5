/* Kernels that multiply by a weight matrix, for tests (linear.h). */
#include "linear.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "cooperative.h"
#include "step_state.h"

/* Those that differ most come first: some tests take only a few (tests/runtime/meson.build). */
const enum tensor_format linear_formats[N_LINEAR_FORMATS] = {
    FORMAT_F32,  FORMAT_Q8_0, FORMAT_Q4_K,  FORMAT_IQ4_XS, FORMAT_Q3_K, FORMAT_Q4_1,
    FORMAT_BF16, FORMAT_Q5_0, FORMAT_MXFP4, FORMAT_Q6_K,   FORMAT_F16,  FORMAT_Q4_0,
    FORMAT_Q5_1, FORMAT_Q2_K, FORMAT_Q5_K,  FORMAT_IQ4_NL,
};

static void add_matvec(linear_kernel *out, const char *format, uint32_t tier, uint32_t lanes,
                       uint32_t subgroups, uint32_t outputs, uint32_t rows_per_y, uint32_t max_tile)
{
    *out = (linear_kernel){
        .constants = {lanes * subgroups, lanes, outputs, rows_per_y, max_tile},
        .n_constants = 5,
        .outputs_per_group = outputs * subgroups,
        .rows_per_group = rows_per_y,
        .lanes = lanes,
        .pins_subgroup = tier > 0,
    };
    snprintf(out->shader, sizeof out->shader, "matvec_%s_t%u", format, tier);
}

static const uint32_t direct_tiles[N_DIRECT_TILES] = {12, 10, 8, 6, 4, 2, 1};

static void add_direct(linear_kernel *out, const char *format, uint32_t lanes, uint32_t outputs)
{
    *out = (linear_kernel){
        .constants = {lanes, lanes, outputs},
        .n_constants = 4,
        .outputs_per_group = lanes * outputs,
    };
    snprintf(out->shader, sizeof out->shader, "matvec_direct_%s", format);
}

static void add_matmul(linear_kernel *out, const char *format, uint32_t bm, uint32_t bn,
                       uint32_t bk, uint32_t tm, uint32_t tn)
{
    *out = (linear_kernel){
        .constants = {bm / tm * (bn / tn), bm, bn, bk, tm, tn},
        .n_constants = 6,
        .outputs_per_group = bm,
        .rows_per_group = bn,
    };
    snprintf(out->shader, sizeof out->shader, "matmul_%s", format);
}

uint32_t cooperative_kernels(harness *h, const repack_info *info,
                             linear_kernel out[MAX_LINEAR_KERNELS])
{
    cooperative_sizes sizes;

    if (h->gpu->tier < 3)
        return 0;
    sizes = cooperative_find_sizes(h->gpu, 0);
    out[0] = (linear_kernel){
        .n_constants = COOPERATIVE_CONSTANTS,
        .outputs_per_group = sizes.outputs,
        .rows_per_group = sizes.rows,
        .uses_halfs = true,
        .pins_subgroup = true,
    };
    memcpy(out[0].constants, sizes.constants, sizeof sizes.constants);
    snprintf(out[0].shader, sizeof out[0].shader, "matmul_cooperative_%s", info->shader);
    /* The other size: results must not depend on it. */
    out[1] = out[0];
    out[1].constants[1] = out[1].outputs_per_group = sizes.outputs == 64 ? 32 : 64;
    for (int i = 0; i < 2; i++)
        out[i].pipeline = harness_pipeline(h, out[i].shader, out[i].constants, out[i].n_constants,
                                           true);
    return 2;
}

uint32_t linear_kernels(harness *h, const repack_info *info, linear_kernel out[MAX_LINEAR_KERNELS])
{
    const char *format = info->shader;
    uint32_t n = 0;

    add_matvec(&out[n++], format, 0, 16, 1, 4, 32, 8);
    add_matvec(&out[n++], format, 0, 16, 1, 4, 8, 1);
    if (h->gpu->tier >= 1) {
        add_matvec(&out[n++], format, 1, h->gpu->subgroup_size, 1, 4, 32, 8);
        add_matvec(&out[n++], format, 1, h->gpu->subgroup_size, 1, 4, 8, 1);
        add_matvec(&out[n++], format, 1, h->gpu->subgroup_size, 2, 2, 32, 8);
    }
    add_direct(&out[n++], format, 8, 4);
    add_direct(&out[n++], format, 8, 8);
    add_direct(&out[n++], format, 4, 2);
    add_matmul(&out[n++], format, 64, 64, 32, 4, 8);
    add_matmul(&out[n++], format, 16, 8, 16, 2, 4);
    for (uint32_t i = 0; i < n; i++) {
        for (int t = 0; t < N_DIRECT_TILES && !out[i].rows_per_group; t++) {
            out[i].constants[3] = direct_tiles[t];
            out[i].tiles[t] = harness_pipeline(h, out[i].shader, out[i].constants, 4, false);
        }
        if (!out[i].rows_per_group)
            continue;
        out[i].pipeline = harness_pipeline(h, out[i].shader, out[i].constants, out[i].n_constants,
                                           out[i].pins_subgroup);
    }
    return n;
}

matrix matrix_of(harness *h, const repack_info *info, uint32_t m, uint32_t k, const uint8_t *blocks)
{
    const format_info *format = format_find(info->format);
    uint64_t n = (uint64_t)m * k;
    matrix w = {
        .info = info,
        .m = m,
        .k = k,
        .padded_k = (uint32_t)repack_padded_k(info, k),
        .values = malloc(n * sizeof(double)),
        .magnitudes = malloc(n * sizeof(double)),
    };
    uint64_t plane_bytes = repack_bytes(info, m, k, w.plane_words);
    uint8_t *planes = calloc(1, plane_bytes);

    ck_assert(k % format->block_size == 0 && w.values && w.magnitudes && planes);
    w.largest = format_largest(format, blocks, n);
    format_dequantize(format, blocks, n, w.values);
    weight_magnitudes(format, blocks, n, w.magnitudes);
    repack_rows(info, blocks, m, k, planes);
    w.buffer = harness_buffer(h, plane_bytes, planes);
    free(planes);
    return w;
}

matrix matrix_random(harness *h, const repack_info *info, uint32_t m, uint32_t k,
                     enum weights_kind kind, uint64_t *state)
{
    const format_info *format = format_find(info->format);
    uint64_t n_blocks = (uint64_t)m * k / format->block_size;
    uint8_t *blocks = malloc(n_blocks * format->block_bytes);

    ck_assert_ptr_nonnull(blocks);
    random_blocks(format, blocks, n_blocks, kind, state);
    matrix w = matrix_of(h, info, m, k, blocks);
    free(blocks);
    return w;
}

void matrix_free(harness *h, matrix *w)
{
    harness_free(h, &w->buffer);
    free(w->values);
    free(w->magnitudes);
    memset(w, 0, sizeof *w);
}

dot matrix_dot(const matrix *w, uint32_t o, const float *x)
{
    const double *values = w->values + (uint64_t)o * w->k;
    const double *magnitudes = w->magnitudes + (uint64_t)o * w->k;

    dot d = {0};

    for (uint32_t i = 0; i < w->k; i++) {
        double term = values[i] * (double)x[i];
        d.sum += term;
        d.magnitude += magnitudes[i] * fabs((double)x[i]);
        d.norm += term * term;
    }
    d.norm = sqrt(d.norm);
    return d;
}

/* Factors are rounded to halfs, 2^-11 each, which in a sum of many is as good as random: 0.8 * 2^-11
 * of the norm is the most that its deviation can be. Additions may be truncated. Small factors are
 * 2^-25 off, times others of up to 2^15, where activations are multiplied by at least 2^14 and
 * weights by 2^14 / largest. */
static double half_error(const matrix *w, double n_roundings, const dot *d)
{
    return fmin(d->magnitude, 3 * d->norm) * ldexp(1.01, -10) +
           n_roundings * ldexp(1, -23) * d->magnitude + w->padded_k * ldexp(1, -37) * w->largest;
}

/* The classic bound: n roundings on the longest way from a product to the result give at most
 * n u / (1 - n u) of the terms' magnitudes. The ways: one fma for each weight; or, where lanes
 * share a row, a chunk of at most 16, up to four fma for each chunk of a lane, and the lanes.
 * Values that need rounding themselves, bias and residual make six more. */
double linear_error(const linear_kernel *kernel, const matrix *w, const dot *d)
{
    double u = ldexp(1, -24), n_roundings = w->padded_k;

    if (kernel->lanes != 0) {
        uint32_t n_chunks = w->padded_k / w->info->chunk;
        n_roundings = 16 + 4 * ((n_chunks + kernel->lanes - 1) / kernel->lanes) + kernel->lanes;
    }
    n_roundings += 6;
    if (kernel->uses_halfs)
        return half_error(w, n_roundings, d);
    /* and where products vanish: far below any sum here */
    return n_roundings * u / (1 - n_roundings * u) * d->magnitude + w->padded_k * ldexp(1, -100);
}

void linear_dispatch(harness *h, const linear_kernel *kernel, const matrix *w,
                     const gpu_buffer *state, const linear_run *run)
{
    float scale = cooperative_scale(w->largest);
    uint32_t push[11] = {
        w->m,
        w->padded_k / w->info->chunk,
        w->plane_words[1],
        w->plane_words[2],
        w->plane_words[3],
        run->x_stride,
        run->y_stride,
        run->y_offset,
        run->flags,
        run->bias_offset,
        0,
    };
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS] = {&w->buffer, run->x, run->y, run->bias};
    uint32_t *words = state->mapped;
    uint32_t groups_x = (w->m + kernel->outputs_per_group - 1) / kernel->outputs_per_group;
    /* Up to four rows more than tiles of 8 cover go with the last of these. */
    uint32_t after = run->rows % 8,
             n_eights = run->rows / 8 - (run->rows > 8 && after >= 1 && after <= 4);
    uint32_t left = run->rows - 8 * n_eights;
    uint32_t last_tile = left < 3 ? left : (left + 1) / 2 * 2;

    memcpy(&push[10], &scale, sizeof scale);
    /* The other count is wrong on purpose. */
    words[S_ROWS] = run->flags & LINEAR_OUT_ROWS ? 1000 : run->rows;
    words[S_OUT_ROWS] = run->flags & LINEAR_OUT_ROWS ? run->rows : 1000;
    for (int t = 0; t < (kernel->rows_per_group ? 1 : N_DIRECT_TILES); t++) {
        uint32_t groups_y;
        if (kernel->rows_per_group)
            groups_y = (run->rows + kernel->rows_per_group - 1) / kernel->rows_per_group;
        else
            groups_y = (direct_tiles[t] == 8 ? n_eights : 0) + (direct_tiles[t] == last_tile);
        if (groups_y)
            harness_run(h, kernel->rows_per_group ? kernel->pipeline : kernel->tiles[t], buffers,
                        state, push, sizeof push, run->fold ? (groups_x + 1) / 2 : groups_x,
                        groups_y, run->fold ? 2 : 1);
    }
}

bool flushes_subnormals(harness *h)
{
    const float row[4] = {0x1p-130f, 0, 0, 0};
    linear_kernel kernel;
    matrix w = matrix_of(h, repack_find(FORMAT_F32), 1, 4, (const uint8_t *)row);
    gpu_buffer state = harness_buffer(h, STATE_WORDS * 4, NULL);
    gpu_buffer x = harness_buffer(h, 4 * 4, (float[]){0x1p60f, 0, 0, 0});
    gpu_buffer y = harness_buffer(h, 4, NULL);
    float got;

    add_matvec(&kernel, "F32", 0, 16, 1, 4, 32, 8);
    kernel.pipeline = harness_pipeline(h, kernel.shader, kernel.constants, 5, false);
    linear_dispatch(h, &kernel, &w, &state,
                    &(linear_run){.rows = 1, .x_stride = 4, .y_stride = 1, .x = &x, .y = &y});
    got = *(const float *)y.mapped;
    ck_assert(got == 0 || got == 0x1p-70f);
    harness_free(h, &y);
    harness_free(h, &x);
    harness_free(h, &state);
    matrix_free(h, &w);
    return got == 0;
}

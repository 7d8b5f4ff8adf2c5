/* Self-test of a layer's kernels that read no packed weights: norm, rotary embedding and cache
 * write, attention, SwiGLU. Each check takes its shape, so that tests can run it over many. */
#include <math.h>
#include <string.h>

#include "attention.h"
#include "format.h"
#include "kernel_reference.h"
#include "selftest.h"
#include "step_state.h"

static uint32_t padded(uint32_t n)
{
    return (n + 3) / 4 * 4;
}

static uint32_t groups_of(uint32_t n, uint32_t lanes)
{
    return (n + lanes - 1) / lanes;
}

/* Activations: mostly small, a few large, some zero. */
static void activations(selftest *t, float *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t kind = random_bits(t) % 64;
        out[i] = kind == 0 ? 0.0f : random_between(t, -2, 2) * (kind == 1 ? 30.0f : 1.0f);
    }
}

/* ------------------------------------------------------------------------------------ RMS norm */

#define NORM_EPS 1e-5f

void check_rmsnorm(selftest *t, uint32_t n, uint32_t rows, uint32_t out_first)
{
    const uint32_t constants[] = {t->tuning.norm_lanes, t->tuning.norm_sums};
    const uint32_t stride = padded(n), all = out_first + rows;
    struct {
        uint32_t n, x_stride, out_stride;
        float eps;
        uint32_t output_rows;
    } push = {n, stride, stride, NORM_EPS, out_first > 0};
    kernel_run run = {
        .pipeline = selftest_pipeline(t, "rmsnorm", constants, 2, false),
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {1, rows, 1},
    };
    gpu_buffer *x = selftest_buffer(t, (uint64_t)all * stride * 4);
    gpu_buffer *weight = selftest_buffer(t, (uint64_t)n * 4);
    gpu_buffer *out = selftest_buffer(t, (uint64_t)(rows + 1) * stride * 4);
    gpu_buffer *state = selftest_buffer(t, STATE_WORDS * 4);
    double *want = selftest_memory(t, (uint64_t)rows * n * sizeof *want);
    uint32_t *first = selftest_memory(t, (uint64_t)rows * stride * 4);
    if (t->result != OTR_OK)
        return;
    const float *got = out->mapped, *from = x->mapped;
    uint32_t *words = state->mapped;

    run.buffers[0] = x;
    run.buffers[1] = weight;
    run.buffers[2] = out;
    run.state = state;
    words[S_ROWS] = all;
    words[S_OUT_FIRST] = out_first;
    words[S_OUT_ROWS] = rows;
    activations(t, x->mapped, (uint64_t)all * stride);
    random_floats(t, weight->mapped, n, -1.5f, 1.5f);
    for (uint32_t r = 0; r < rows; r++)
        reference_rmsnorm(from + (out_first + r) * stride, weight->mapped, n, (double)NORM_EPS,
                          want + (uint64_t)r * n);

    selftest_begin(t, "rmsnorm n=%u rows=%u%s", n, rows, out_first ? " of the output" : "");
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        poison(out);
        run.groups[1] = rows;
        selftest_dispatch(t, &run);
        for (uint32_t r = 0; r <= rows && t->result == OTR_OK; r++) {
            expect_poison(t, out, (uint64_t)r * stride + (r < rows ? n : 0),
                          (uint64_t)(r + 1) * stride);
            for (uint32_t i = 0; r < rows && i < n; i++) {
                double right = want[(uint64_t)r * n + i];
                expect_near(t, r, i, (double)got[r * stride + i], right,
                            fabs(right) * rmsnorm_tolerance(n, t->tuning.norm_sums));
            }
        }
        if (rows > 1 && t->result == OTR_OK) { /* one row less: the others keep their bits */
            memcpy(first, out->mapped, (uint64_t)rows * stride * 4);
            poison(out);
            run.groups[1] = rows - 1;
            selftest_dispatch(t, &run);
            expect_words(t, "not the result of one row more", out->mapped, first,
                         (rows - 1) * stride);
        }
    }
    selftest_end(t, "");
    selftest_release(t);
}

/* -------------------------------------------------------------------------------------- SwiGLU */

void check_swiglu(selftest *t, uint32_t n, uint32_t rows)
{
    const uint32_t lanes = t->tuning.elementwise_lanes, stride = padded(n);
    uint32_t push[] = {n, stride, stride};
    kernel_run run = {
        .pipeline = selftest_pipeline(t, "swiglu", &lanes, 1, false),
        .push = push,
        .push_bytes = sizeof push,
        .groups = {groups_of(n, lanes), rows, 1},
    };
    gpu_buffer *gate_up = selftest_buffer(t, (uint64_t)rows * 2 * stride * 4);
    gpu_buffer *out = selftest_buffer(t, (uint64_t)(rows + 1) * stride * 4);
    if (t->result != OTR_OK)
        return;
    const float *from = gate_up->mapped, *got = out->mapped;

    run.buffers[0] = gate_up;
    run.buffers[1] = out;
    random_floats(t, gate_up->mapped, (uint64_t)rows * 2 * stride, -20, 20);
    /* Where exp overflows, and where it vanishes. */
    for (uint32_t i = 0; i < n && i < 9; i++)
        ((float *)gate_up->mapped)[i] = (float)((int)i - 4) * 60;

    selftest_begin(t, "swiglu n=%u rows=%u", n, rows);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        poison(out);
        selftest_dispatch(t, &run);
        for (uint32_t r = 0; r <= rows && t->result == OTR_OK; r++) {
            expect_poison(t, out, (uint64_t)r * stride + (r < rows ? n : 0),
                          (uint64_t)(r + 1) * stride);
            for (uint32_t i = 0; r < rows && i < n; i++) {
                double gate = (double)from[2 * r * stride + i];
                double up = (double)from[(2 * r + 1) * stride + i];
                expect_near(t, r, i, (double)got[r * stride + i], reference_swiglu(gate, up),
                            swiglu_tolerance(gate, up));
            }
        }
    }
    selftest_end(t, "");
    selftest_release(t);
}

/* ------------------------------------------------------------------------------------- caches */

static attention_shape attention_of(const head_shape *s)
{
    return (attention_shape){s->n_heads, s->n_kv_heads, s->head_size, s->cache};
}

/* A cache in test: its plan's numbers. */
typedef struct cache_view {
    gpu_buffer *buffer;
    otr_cache_type type;
    uint32_t kv, n_positions, scales_at;
} cache_view;

static cache_view cache_create(selftest *t, const head_shape *s, uint32_t n_positions)
{
    const attention_shape shape = attention_of(s);

    return (cache_view){
        .buffer = selftest_buffer(t, attention_cache_bytes(&shape, n_positions)),
        .type = s->cache,
        .kv = s->n_kv_heads * s->head_size,
        .n_positions = n_positions,
        .scales_at = attention_scales_at(&shape, n_positions),
    };
}

/* The scale of element i, counted from position 0; 0 in an F16 cache. */
static double cache_scale(const cache_view *c, uint64_t i)
{
    float scale = 0;
    if (c->type == OTR_CACHE_Q8_0)
        memcpy(&scale, (const uint32_t *)c->buffer->mapped + c->scales_at + i / 32, 4);
    return (double)scale;
}

static double cache_value(const cache_view *c, uint64_t i)
{
    if (c->type == OTR_CACHE_Q8_0)
        return ((const int8_t *)c->buffer->mapped)[i] * cache_scale(c, i);
    return (double)half_to_float(((const uint16_t *)c->buffer->mapped)[i]);
}

/* The positions [from, to) must still be poison. */
static void expect_cache_poison(selftest *t, const cache_view *c, uint64_t from, uint64_t to)
{
    const uint32_t per_word = c->type == OTR_CACHE_Q8_0 ? 4 : 2;

    expect_poison(t, c->buffer, from * c->kv / per_word, to * c->kv / per_word);
    if (c->type == OTR_CACHE_Q8_0)
        expect_poison(t, c->buffer, c->scales_at + from * c->kv / 32,
                      c->scales_at + to * c->kv / 32);
}

/* What lies behind the first n_positions is poison, and not read. */
static void random_cache(selftest *t, const cache_view *c, uint32_t n_positions)
{
    const uint64_t n = (uint64_t)n_positions * c->kv;

    poison(c->buffer);
    if (c->type == OTR_CACHE_Q8_0) {
        int8_t *bytes = c->buffer->mapped;
        float *scales = (float *)c->buffer->mapped + c->scales_at;
        for (uint64_t i = 0; i < n; i++)
            bytes[i] = (int8_t)(random_bits(t) % 255 - 127);
        for (uint64_t i = 0; i < n / 32; i++)
            scales[i] = random_between(t, 0, 2.0f / 127);
        return;
    }
    uint16_t *halfs = c->buffer->mapped;
    for (uint64_t i = 0; i < n; i++)
        halfs[i] = half_from_float(random_between(t, -2, 2));
}

static const char *cache_name(const head_shape *s)
{
    return s->cache == OTR_CACHE_Q8_0 ? " Q8_0" : "";
}

/* ------------------------------------------------------------- rotary embedding, cache write */

typedef struct rope_check {
    head_shape s;
    uint32_t q, kv, stride; /* floats of a row of Q, of K and V, of all */
    cache_view k_cache, v_cache;
    gpu_buffer *qkv, *angles, *state;
    float *input; /* rows of qkv before the dispatch */
} rope_check;

/* The values of 32 elements, or of a pair, and how far the cache may be from them. */
static void rope_compare_unit(selftest *t, const rope_check *c, uint32_t row, uint32_t position,
                              bool is_k, uint32_t first, uint32_t n)
{
    const cache_view *cache = is_k ? &c->k_cache : &c->v_cache;
    const uint32_t in_row = c->q + (is_k ? 0 : c->kv) + first;
    const float *from = c->input + row * c->stride + in_row;
    const float *angles = (const float *)c->angles->mapped + position * c->s.rope_size;
    const uint64_t at = (uint64_t)position * c->kv + first;
    double want[32], more[32] = {0}, largest = 0, most = 0;

    for (uint32_t i = 0; i < n; i += 2) {
        uint32_t in_head = (first + i) % c->s.head_size;
        want[i] = (double)from[i];
        want[i + 1] = (double)from[i + 1];
        if (is_k && in_head < c->s.rope_size) {
            reference_rotation(from + i, angles + in_head, want + i);
            more[i] = more[i + 1] = rotation_tolerance(from + i, angles + in_head);
        }
        largest = fmax(largest, fmax(fabs(want[i]), fabs(want[i + 1])));
        most = fmax(most, more[i]);
    }
    double scale = cache_scale(cache, at);
    if (cache->type == OTR_CACHE_Q8_0)
        expect_near(t, row, in_row, scale, largest / 127, (largest + most) / 127 * 0x1p-20 + most);
    for (uint32_t i = 0; i < n; i++) {
        double tolerance = cache->type == OTR_CACHE_Q8_0 ? scale * (0.5 + 0x1p-14)
                                                         : half_tolerance(want[i]);
        expect_near(t, row, in_row + i, cache_value(cache, at + i), want[i], tolerance + more[i]);
    }
}

static void rope_compare(selftest *t, const rope_check *c, uint32_t base, uint32_t rows)
{
    const float *got = c->qkv->mapped;
    const uint32_t unit = c->s.cache == OTR_CACHE_Q8_0 ? 32 : 2;

    for (uint32_t r = 0; r < rows; r++) {
        const float *angles = (const float *)c->angles->mapped + (base + r) * c->s.rope_size;
        const float *from = c->input + r * c->stride;

        for (uint32_t i = 0; i < c->q; i += 2) {
            uint32_t in_head = i % c->s.head_size;
            double want[2] = {(double)from[i], (double)from[i + 1]}, tolerance = 0;

            if (in_head < c->s.rope_size) {
                reference_rotation(from + i, angles + in_head, want);
                tolerance = rotation_tolerance(from + i, angles + in_head);
            }
            for (uint32_t j = 0; j < 2; j++)
                expect_near(t, r, i + j, (double)got[r * c->stride + i + j], want[j], tolerance);
        }
        expect_words(t, "K and V of the row",
                     (const uint32_t *)c->qkv->mapped + r * c->stride + c->q,
                     (const uint32_t *)c->input + r * c->stride + c->q, 2 * c->kv);
        for (uint32_t i = 0; i < c->kv; i += unit) {
            rope_compare_unit(t, c, r, base + r, true, i, unit);
            rope_compare_unit(t, c, r, base + r, false, i, unit);
        }
    }
    for (int v = 0; v < 2; v++) {
        const cache_view *cache = v ? &c->v_cache : &c->k_cache;
        expect_cache_poison(t, cache, 0, base);
        expect_cache_poison(t, cache, base + rows, cache->n_positions);
    }
}

void check_rope(selftest *t, const head_shape *shape, uint32_t base, uint32_t rows)
{
    const uint32_t lanes = t->tuning.elementwise_lanes, positions = base + rows + 1;
    const attention_shape attention = attention_of(shape);
    rope_check c = {.s = *shape};

    c.q = shape->n_heads * shape->head_size;
    c.kv = shape->n_kv_heads * shape->head_size;
    c.stride = padded(c.q + 2 * c.kv);
    uint32_t push[] = {c.q / 2,
                       c.kv / 2,
                       shape->head_size / 2,
                       shape->rope_size / 2,
                       c.stride / 2,
                       attention_scales_at(&attention, positions)};
    kernel_run run = {
        .pipeline = selftest_pipeline(t, attention_rope_shader(shape->cache), &lanes, 1, false),
        .push = push,
        .push_bytes = sizeof push,
        .groups = {groups_of(attention_rope_units(&attention), lanes), rows, 1},
    };
    c.qkv = selftest_buffer(t, (uint64_t)rows * c.stride * 4);
    c.k_cache = cache_create(t, shape, positions);
    c.v_cache = cache_create(t, shape, positions);
    c.angles = selftest_buffer(t, (uint64_t)positions * shape->rope_size * 4);
    c.state = selftest_buffer(t, STATE_WORDS * 4);
    c.input = selftest_memory(t, (uint64_t)rows * c.stride * 4);
    double *all_k = selftest_memory(t, c.kv * sizeof *all_k);
    double *alone = selftest_memory(t, c.kv * sizeof *alone);
    if (t->result != OTR_OK)
        return;
    uint32_t *state = c.state->mapped;
    float *angles = c.angles->mapped;
    const uint64_t last = (uint64_t)(base + rows - 1) * c.kv;

    run.buffers[0] = c.qkv;
    run.buffers[1] = c.k_cache.buffer;
    run.buffers[2] = c.v_cache.buffer;
    run.buffers[3] = c.angles;
    run.state = c.state;
    activations(t, c.input, (uint64_t)rows * c.stride);
    for (uint64_t i = 0; i < (uint64_t)positions * shape->rope_size / 2; i++) {
        double angle = (double)random_between(t, -4, 4);
        angles[2 * i] = (float)cos(angle);
        angles[2 * i + 1] = (float)sin(angle);
    }
    selftest_begin(t, "rope%s head=%u of %u heads=%u/%u base=%u rows=%u", cache_name(shape),
                   shape->rope_size, shape->head_size, shape->n_heads, shape->n_kv_heads, base,
                   rows);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        memcpy(c.qkv->mapped, c.input, (uint64_t)rows * c.stride * 4);
        poison(c.k_cache.buffer);
        poison(c.v_cache.buffer);
        state[S_BASE] = base;
        state[S_ROWS] = run.groups[1] = rows;
        selftest_dispatch(t, &run);
        if (t->result != OTR_OK)
            break;
        rope_compare(t, &c, base, rows);
        /* The last row alone writes the same bits. */
        for (uint32_t i = 0; i < c.kv; i++)
            all_k[i] = cache_value(&c.k_cache, last + i);
        memcpy(c.qkv->mapped, c.input + (rows - 1) * c.stride, c.stride * 4);
        poison(c.k_cache.buffer);
        state[S_BASE] = base + rows - 1;
        state[S_ROWS] = run.groups[1] = 1;
        selftest_dispatch(t, &run);
        for (uint32_t i = 0; i < c.kv; i++)
            alone[i] = cache_value(&c.k_cache, last + i);
        expect_words(t, "K of the last row alone", (const uint32_t *)alone, (const uint32_t *)all_k,
                     2 * c.kv);
    }
    selftest_end(t, "");
    selftest_release(t);
}

/* ----------------------------------------------------------------------------------- attention */

typedef struct attention_check {
    head_shape s;
    uint32_t q, kv, q_stride, out_stride; /* floats of a row; kv of a position */
    cache_view k_cache, v_cache;
    gpu_buffer *qkv, *out, *state;
    double *want, *tolerance; /* [rows][q] */
} attention_check;

static void attention_expected(selftest *t, attention_check *c, uint32_t base, uint32_t rows,
                               double scale)
{
    const uint64_t n = (uint64_t)(base + rows) * c->kv;
    const float *qkv = c->qkv->mapped;
    double *weights = selftest_memory(t, (base + rows) * sizeof *weights);
    float *k = selftest_memory(t, n * sizeof *k), *v = selftest_memory(t, n * sizeof *v);

    for (uint64_t i = 0; i < n && t->result == OTR_OK; i++) {
        k[i] = (float)cache_value(&c->k_cache, i); /* exact: bytes times a float, or halfs */
        v[i] = (float)cache_value(&c->v_cache, i);
    }
    for (uint32_t r = 0; r < rows && t->result == OTR_OK; r++)
        for (uint32_t h = 0; h < c->s.n_heads; h++) {
            uint32_t kv_head = h / (c->s.n_heads / c->s.n_kv_heads);
            const reference_head head = {
                .q = qkv + r * c->q_stride + h * c->s.head_size,
                .k = k + kv_head * c->s.head_size,
                .v = v + kv_head * c->s.head_size,
                .stride = c->kv,
                .head_size = c->s.head_size,
                .n_positions = base + r + 1,
                .scale = scale,
            };
            uint64_t at = (uint64_t)r * c->q + h * c->s.head_size;
            reference_attention(&head, weights, c->want + at, c->tolerance + at);
        }
}

/* Rows [first, first + n) of the query as one pass that begins at position base + first. */
static void attend(selftest *t, attention_check *c, const attention_plan *plan, const float *q,
                   uint32_t base, uint32_t first, uint32_t n)
{
    uint32_t *state = c->state->mapped, *out = c->out->mapped;
    kernel_run run = {
        .pipeline = selftest_pipeline(t, plan->shader, plan->constants, ATTENTION_CONSTANTS, false),
        .buffers = {c->qkv, c->k_cache.buffer, c->v_cache.buffer, c->out},
        .state = c->state,
        .push = &plan->push,
        .push_bytes = sizeof plan->push,
        .groups = {plan->groups_x, groups_of(n, plan->rows_per_y),
                   groups_of(base + first + n, plan->split)},
    };

    memcpy(c->qkv->mapped, q + first * c->q_stride, (uint64_t)n * c->q_stride * 4);
    state[S_BASE] = base + first;
    state[S_ROWS] = n;
    kernel_run combine = run;
    combine.groups[0] = c->s.n_heads;
    combine.groups[1] = n;
    combine.groups[2] = 1;
    poison(c->out);
    memset(out + plan->push.counters_at, 0, plan->n_counters * 4);
    if (t->result == OTR_OK)
        selftest_dispatch(t, &run);
    if (t->result == OTR_OK && plan->combine_shader) {
        combine.pipeline = selftest_pipeline(t, plan->combine_shader, plan->constants,
                                             ATTENTION_CONSTANTS, false);
        if (t->result == OTR_OK)
            selftest_dispatch(t, &combine);
    }
    /* The next pass needs them so. */
    for (uint64_t i = 0; i < plan->n_counters && t->result == OTR_OK; i++)
        expect_near(t, 0, i, out[plan->push.counters_at + i], 0, 0);
}

/* One plan over all rows, and over the later ones alone. */
static void check_plan(selftest *t, attention_check *c, const attention_plan *plan,
                       const attention_plan *one_row, const float *q, uint32_t *all, uint32_t base,
                       uint32_t rows)
{
    const float *got = c->out->mapped;

    attend(t, c, plan, q, base, 0, rows);
    for (uint32_t r = 0; r <= rows && t->result == OTR_OK; r++) {
        expect_poison(t, c->out, (uint64_t)r * c->out_stride + (r < rows ? c->q : 0),
                      (uint64_t)(r + 1) * c->out_stride);
        for (uint32_t i = 0; r < rows && i < c->q; i++)
            expect_near(t, r, i, (double)got[r * c->out_stride + i],
                        c->want[(uint64_t)r * c->q + i], c->tolerance[(uint64_t)r * c->q + i]);
    }
    memcpy(all, c->out->mapped, (uint64_t)rows * c->out_stride * 4);
    /* The same bits in passes that begin elsewhere: the last row alone, and all but the first. */
    const uint32_t cuts[] = {rows - 1, 1};
    for (uint32_t i = 0; i < 2 && t->result == OTR_OK; i++) {
        uint32_t n = rows - cuts[i];
        if (rows == 1 && i > 0)
            break;
        attend(t, c, n == 1 ? one_row : plan, q, base, cuts[i], n);
        for (uint32_t r = 0; r < n; r++)
            expect_words(t, "a pass that begins later",
                         (const uint32_t *)c->out->mapped + r * c->out_stride,
                         all + (cuts[i] + r) * c->out_stride, c->q);
    }
}

void check_attention(selftest *t, const head_shape *shape, uint32_t base, uint32_t rows)
{
    const attention_shape attention = attention_of(shape);
    const float scale = 1 / sqrtf((float)shape->head_size);
    const uint32_t positions = base + rows + 40;
    attention_check c = {.s = *shape};
    attention_plan plans[2][3]; /* [as GPUs have it, direct][use] */
    uint64_t out_words = 0;

    c.q = shape->n_heads * shape->head_size;
    c.kv = shape->n_kv_heads * shape->head_size;
    c.q_stride = padded(c.q + 2 * c.kv);
    c.out_stride = padded(c.q);
    for (int i = 0; i < 6; i++) {
        /* A row more than there are: it must stay as it is. */
        attention_plan *p = &plans[i / 3][i % 3];
        *p = attention_make_plan(selftest_tuning(t, i / 3), t->gpu->subgroup_size, &attention,
                                 (attention_use)(i % 3), rows + 1, positions, c.q_stride, scale);
        if (p->out_words + p->n_counters > out_words)
            out_words = p->out_words + p->n_counters;
    }
    c.qkv = selftest_buffer(t, (uint64_t)rows * c.q_stride * 4);
    c.k_cache = cache_create(t, shape, positions);
    c.v_cache = cache_create(t, shape, positions);
    c.out = selftest_buffer(t, out_words * 4);
    c.state = selftest_buffer(t, STATE_WORDS * 4);
    c.want = selftest_memory(t, (uint64_t)rows * c.q * sizeof *c.want);
    c.tolerance = selftest_memory(t, (uint64_t)rows * c.q * sizeof *c.tolerance);
    float *q = selftest_memory(t, (uint64_t)rows * c.q_stride * 4);
    uint32_t *all = selftest_memory(t, (uint64_t)rows * c.out_stride * 4);
    if (t->result != OTR_OK)
        return;

    activations(t, q, (uint64_t)rows * c.q_stride);
    random_cache(t, &c.k_cache, base + rows);
    random_cache(t, &c.v_cache, base + rows);
    memcpy(c.qkv->mapped, q, (uint64_t)rows * c.q_stride * 4);
    attention_expected(t, &c, base, rows, (double)scale);
    selftest_begin(t, "attention%s head=%u heads=%u/%u base=%u rows=%u", cache_name(shape),
                   shape->head_size, shape->n_heads, shape->n_kv_heads, base, rows);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        for (int i = 0; i < 2; i++) {
            const attention_plan *p = plans[i];
            check_plan(t, &c, &p[ATTENTION_ROWS], &p[ATTENTION_ONE_ROW], q, all, base, rows);
            check_plan(t, &c, &p[ATTENTION_PREFILL], &p[ATTENTION_PREFILL], q, all, base, rows);
        }
    }
    selftest_end(t, "");
    selftest_release(t);
}

/* --------------------------------------------------------------------------------- the self-test
 */

void selftest_layer(selftest *t)
{
    static const head_shape wide = {8, 2, 64, 48, OTR_CACHE_F16};
    static const head_shape narrow = {3, 3, 8, 8, OTR_CACHE_F16};
    static const head_shape bytes = {6, 2, 64, 48, OTR_CACHE_Q8_0};

    check_rmsnorm(t, 1000, 17, 0);
    check_rmsnorm(t, 64, 3, 0);
    check_rmsnorm(t, 576, 5, 12);
    check_swiglu(t, 172, 17);
    check_swiglu(t, 1536, 3);
    check_rope(t, &wide, 61, 17);
    check_rope(t, &narrow, 0, 3);
    check_attention(t, &wide, 61, 17);
    check_attention(t, &wide, 300, 2);
    check_attention(t, &narrow, 0, 5);
    check_rope(t, &bytes, 61, 17);
    check_attention(t, &bytes, 500, 17);
}

/* Self-test of a layer's kernels that read no packed weights: norm, rotary embedding and cache
 * write, attention, SwiGLU. Each check takes its shape, so that tests can run it over many. */
#include <math.h>
#include <string.h>

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

/* ------------------------------------------------------------- rotary embedding, cache write */

typedef struct rope_check {
    head_shape s;
    uint32_t q, kv, stride; /* floats of a row of Q, of K and V, of all */
    gpu_buffer *qkv, *k_cache, *v_cache, *angles, *state;
    float *input; /* rows of qkv before the dispatch */
} rope_check;

static void rope_compare_cache(selftest *t, const rope_check *c, uint32_t row, uint32_t position,
                               bool is_k)
{
    const uint16_t *cache = (is_k ? c->k_cache : c->v_cache)->mapped;
    const float *from = c->input + row * c->stride + c->q + (is_k ? 0 : c->kv);
    const float *angles = (const float *)c->angles->mapped + position * c->s.rope_size;

    for (uint32_t i = 0; i < c->kv; i += 2) {
        uint32_t in_head = i % c->s.head_size;
        double want[2] = {(double)from[i], (double)from[i + 1]}, more = 0;

        if (is_k && in_head < c->s.rope_size) {
            reference_rotation(from + i, angles + in_head, want);
            more = rotation_tolerance(from + i, angles + in_head);
        }
        for (uint32_t j = 0; j < 2; j++)
            expect_near(t, row, c->q + (is_k ? 0 : c->kv) + i + j,
                        (double)half_to_float(cache[position * c->kv + i + j]), want[j],
                        half_tolerance(want[j]) + more);
    }
}

static void rope_compare(selftest *t, const rope_check *c, uint32_t base, uint32_t rows)
{
    const float *got = c->qkv->mapped;

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
        rope_compare_cache(t, c, r, base + r, true);
        rope_compare_cache(t, c, r, base + r, false);
    }
    for (int v = 0; v < 2; v++) {
        const gpu_buffer *cache = v ? c->v_cache : c->k_cache;
        expect_poison(t, cache, 0, (uint64_t)base * c->kv / 2);
        expect_poison(t, cache, (uint64_t)(base + rows) * c->kv / 2, cache->size / 4);
    }
}

void check_rope(selftest *t, const head_shape *shape, uint32_t base, uint32_t rows)
{
    const uint32_t lanes = t->tuning.elementwise_lanes;
    rope_check c = {.s = *shape};
    uint64_t positions = base + rows + 1;

    c.q = shape->n_heads * shape->head_size;
    c.kv = shape->n_kv_heads * shape->head_size;
    c.stride = padded(c.q + 2 * c.kv);
    uint32_t pairs = (c.q + 2 * c.kv) / 2;
    uint32_t push[] = {c.q / 2, c.kv / 2, shape->head_size / 2, shape->rope_size / 2, c.stride / 2};
    kernel_run run = {
        .pipeline = selftest_pipeline(t, "rope", &lanes, 1, false),
        .push = push,
        .push_bytes = sizeof push,
        .groups = {groups_of(pairs, lanes), rows, 1},
    };
    c.qkv = selftest_buffer(t, (uint64_t)rows * c.stride * 4);
    c.k_cache = selftest_buffer(t, positions * c.kv * 2);
    c.v_cache = selftest_buffer(t, positions * c.kv * 2);
    c.angles = selftest_buffer(t, positions * shape->rope_size * 4);
    c.state = selftest_buffer(t, STATE_WORDS * 4);
    c.input = selftest_memory(t, (uint64_t)rows * c.stride * 4);
    uint32_t *all_k = selftest_memory(t, positions * c.kv * 2);
    if (t->result != OTR_OK)
        return;
    uint32_t *state = c.state->mapped;
    float *angles = c.angles->mapped;

    run.buffers[0] = c.qkv;
    run.buffers[1] = c.k_cache;
    run.buffers[2] = c.v_cache;
    run.buffers[3] = c.angles;
    run.state = c.state;
    activations(t, c.input, (uint64_t)rows * c.stride);
    for (uint64_t i = 0; i < positions * shape->rope_size / 2; i++) {
        double angle = (double)random_between(t, -4, 4);
        angles[2 * i] = (float)cos(angle);
        angles[2 * i + 1] = (float)sin(angle);
    }
    selftest_begin(t, "rope head=%u of %u heads=%u/%u base=%u rows=%u", shape->rope_size,
                   shape->head_size, shape->n_heads, shape->n_kv_heads, base, rows);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        memcpy(c.qkv->mapped, c.input, (uint64_t)rows * c.stride * 4);
        poison(c.k_cache);
        poison(c.v_cache);
        state[S_BASE] = base;
        state[S_ROWS] = run.groups[1] = rows;
        selftest_dispatch(t, &run);
        if (t->result != OTR_OK)
            break;
        rope_compare(t, &c, base, rows);
        /* The last row alone writes the same bits. */
        memcpy(all_k, c.k_cache->mapped, positions * c.kv * 2);
        memcpy(c.qkv->mapped, c.input + (rows - 1) * c.stride, c.stride * 4);
        poison(c.k_cache);
        state[S_BASE] = base + rows - 1;
        state[S_ROWS] = run.groups[1] = 1;
        selftest_dispatch(t, &run);
        uint32_t at = (base + rows - 1) * c.kv / 2;
        expect_words(t, "K of the last row alone", (const uint32_t *)c.k_cache->mapped + at,
                     all_k + at, c.kv / 2);
    }
    selftest_end(t, "");
    selftest_release(t);
}

/* ----------------------------------------------------------------------------------- attention */

typedef struct attention_check {
    head_shape s;
    uint32_t q, kv, q_stride, out_stride; /* floats of a row; kv halfs of a position */
    gpu_buffer *qkv, *k_cache, *v_cache, *out, *state;
    double *want, *tolerance; /* [rows][q] */
    kernel_run run;
} attention_check;

static void attention_expected(selftest *t, attention_check *c, uint32_t base, uint32_t rows,
                               double scale)
{
    const float *qkv = c->qkv->mapped;
    double *weights = selftest_memory(t, (base + rows) * sizeof *weights);

    for (uint32_t r = 0; r < rows && t->result == OTR_OK; r++)
        for (uint32_t h = 0; h < c->s.n_heads; h++) {
            uint32_t kv_head = h / (c->s.n_heads / c->s.n_kv_heads);
            const reference_head head = {
                .q = qkv + r * c->q_stride + h * c->s.head_size,
                .k = (const uint16_t *)c->k_cache->mapped + kv_head * c->s.head_size,
                .v = (const uint16_t *)c->v_cache->mapped + kv_head * c->s.head_size,
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
static void attend(selftest *t, attention_check *c, const float *q, uint32_t base, uint32_t first,
                   uint32_t n)
{
    uint32_t *state = c->state->mapped;

    memcpy(c->qkv->mapped, q + first * c->q_stride, (uint64_t)n * c->q_stride * 4);
    state[S_BASE] = base + first;
    state[S_ROWS] = c->run.groups[1] = n;
    poison(c->out);
    selftest_dispatch(t, &c->run);
}

static void random_cache(selftest *t, gpu_buffer *cache, uint64_t n)
{
    uint16_t *halfs = cache->mapped;

    poison(cache); /* what lies behind the last position is not read */
    for (uint64_t i = 0; i < n; i++)
        halfs[i] = half_from_float(random_between(t, -2, 2));
}

void check_attention(selftest *t, const head_shape *shape, uint32_t base, uint32_t rows)
{
    attention_check c = {.s = *shape};
    uint64_t positions = base + rows + 40;

    c.q = shape->n_heads * shape->head_size;
    c.kv = shape->n_kv_heads * shape->head_size;
    c.q_stride = padded(c.q + 2 * c.kv);
    c.out_stride = padded(c.q);
    struct {
        uint32_t group, kv_pairs, q_stride, out_stride;
        float scale;
    } push = {shape->n_heads / shape->n_kv_heads, c.kv / 2, c.q_stride / 2, c.out_stride / 2,
              1 / sqrtf((float)shape->head_size)};
    const uint32_t constants[] = {t->tuning.attention_lanes, shape->head_size / 2, 32};

    c.qkv = selftest_buffer(t, (uint64_t)rows * c.q_stride * 4);
    c.k_cache = selftest_buffer(t, positions * c.kv * 2);
    c.v_cache = selftest_buffer(t, positions * c.kv * 2);
    c.out = selftest_buffer(t, (uint64_t)(rows + 1) * c.out_stride * 4);
    c.state = selftest_buffer(t, STATE_WORDS * 4);
    c.want = selftest_memory(t, (uint64_t)rows * c.q * sizeof *c.want);
    c.tolerance = selftest_memory(t, (uint64_t)rows * c.q * sizeof *c.tolerance);
    float *q = selftest_memory(t, (uint64_t)rows * c.q_stride * 4);
    uint32_t *all = selftest_memory(t, (uint64_t)rows * c.out_stride * 4);
    c.run = (kernel_run){
        .pipeline = selftest_pipeline(t, "attention", constants, 3, false),
        .buffers = {c.qkv, c.k_cache, c.v_cache, c.out},
        .state = c.state,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = {shape->n_heads, rows, 1},
    };
    if (t->result != OTR_OK)
        return;
    const float *got = c.out->mapped;

    activations(t, q, (uint64_t)rows * c.q_stride);
    random_cache(t, c.k_cache, (uint64_t)(base + rows) * c.kv);
    random_cache(t, c.v_cache, (uint64_t)(base + rows) * c.kv);
    memcpy(c.qkv->mapped, q, (uint64_t)rows * c.q_stride * 4);
    attention_expected(t, &c, base, rows, (double)push.scale);
    selftest_begin(t, "attention head=%u heads=%u/%u base=%u rows=%u", shape->head_size,
                   shape->n_heads, shape->n_kv_heads, base, rows);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        attend(t, &c, q, base, 0, rows);
        for (uint32_t r = 0; r <= rows && t->result == OTR_OK; r++) {
            expect_poison(t, c.out, (uint64_t)r * c.out_stride + (r < rows ? c.q : 0),
                          (uint64_t)(r + 1) * c.out_stride);
            for (uint32_t i = 0; r < rows && i < c.q; i++)
                expect_near(t, r, i, (double)got[r * c.out_stride + i],
                            c.want[(uint64_t)r * c.q + i], c.tolerance[(uint64_t)r * c.q + i]);
        }
        memcpy(all, c.out->mapped, (uint64_t)rows * c.out_stride * 4);
        /* The same bits in passes that begin elsewhere: the last row alone, and all but the first.
         */
        const uint32_t cuts[] = {rows - 1, 1};
        for (uint32_t i = 0; i < 2 && rows > 1 && t->result == OTR_OK; i++) {
            attend(t, &c, q, base, cuts[i], rows - cuts[i]);
            expect_words(t, "a pass that begins later", c.out->mapped, all + cuts[i] * c.out_stride,
                         (uint64_t)(rows - cuts[i]) * c.out_stride);
        }
    }
    selftest_end(t, "");
    selftest_release(t);
}

/* --------------------------------------------------------------------------------- the self-test
 */

void selftest_layer(selftest *t)
{
    static const head_shape wide = {8, 2, 64, 48}, narrow = {3, 3, 8, 8};

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
}

/* The llama-architecture transformer as a list of dispatches: what each pass of a lane does, over
 * which buffers, and which dispatch waits for which. Called once per lane by lane_create; nothing
 * here runs during generation. */
#include "lane.h"

#include <stdio.h>
#include <string.h>

#include "cooperative.h"
#include "kernel_pool.h"

/* Must match shaders/linear.glsl. */
enum { MATVEC_ACCUMULATE = 1, MATVEC_BIAS = 2, MATVEC_OUT_ROWS = 4, MATVEC_SWIGLU = 8 };

typedef struct builder {
    lane *l;
    const otr_model *model;
    const hparams *h;
    const tuning *t;
    bool waits;                  /* of the next operation */
    const gpu_buffer *quantised; /* what l->quantised holds, since the last barrier */
} builder;

/* Every operation of a group but the first of parallel ones waits for the ones before. */
static void then(builder *b)
{
    b->waits = true;
    b->quantised = NULL;
}

static otr_result kernel(const builder *b, const char *name, const char *format,
                         const uint32_t *constants, uint32_t n, VkPipeline *out)
{
    char shader[64];

    snprintf(shader, sizeof shader, "%s%s%s", name, format ? "_" : "", format ? format : "");
    return kernel_get(b->l->gpu, shader, constants, n, false, out);
}

static enum operation_kind kind_of(const char *kernel_name)
{
    static const struct {
        const char *name;
        enum operation_kind kind;
    } kinds[] = {
        {"rmsnorm", OPERATION_NORM},       {"rope", OPERATION_ELEMENTWISE},
        {"swiglu", OPERATION_ELEMENTWISE}, {"embed", OPERATION_ELEMENTWISE},
        {"sample", OPERATION_SAMPLE},      {"quantise", OPERATION_ELEMENTWISE},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strncmp(kinds[i].name, kernel_name, strlen(kinds[i].name))) /* or a form of it */
            return kinds[i].kind;
    return OPERATION_OTHER;
}

/* Adds an operation that runs the same on both paths. */
static otr_result add(builder *b, const char *name, const char *format, const uint32_t *constants,
                      uint32_t n_constants, const binding *bindings, uint32_t n_bindings,
                      const void *push, uint32_t push_bytes, uint32_t groups_x, uint32_t rows_per_y,
                      bool output_rows)
{
    operation op = {.kind = kind_of(name), .n_push = push_bytes / 4, .waits = b->waits};
    otr_result result = kernel(b, name, format, constants, n_constants, &op.pipeline[0]);

    if (result == OTR_OK)
        result = lane_bind(b->l, bindings, n_bindings, &op.set);
    if (result != OTR_OK)
        return result;
    uint32_t grid = lane_grid(b->l, groups_x, rows_per_y, output_rows, 0);
    for (int path = 0; path < N_PATHS; path++) {
        op.pipeline[path] = op.pipeline[0];
        op.grid[path] = grid;
    }
    memcpy(op.push, push, push_bytes);
    b->waits = false;
    return lane_add(b->l, &op);
}

static binding whole(const gpu_buffer *buffer)
{
    return (binding){buffer, 0, 0};
}

static binding vector_of(const weight *w)
{
    return (binding){w->parts[0].buffer, w->parts[0].offset, w->parts[0].n_bytes};
}

static uint32_t groups(uint32_t n, uint32_t of)
{
    return (n + of - 1) / of;
}

static uint32_t padded(uint64_t n)
{
    return (uint32_t)((n + 3) / 4 * 4);
}

/* Software devices: matvec_direct, one operation for each tile of rows; a path of one row has only
 * that tile's. */
static otr_result add_direct(builder *b, const char *format, uint32_t n_outputs, bool output_rows,
                             operation *op)
{
    static const uint32_t tiles[N_TILES] = {TILES};
    uint32_t lanes = b->l->gpu->subgroup_size, outputs = b->t->direct_outputs;

    for (size_t i = 0; i < N_TILES; i++) {
        uint32_t constants[] = {lanes, lanes, outputs, tiles[i]};
        otr_result result = kernel(b, "matvec_direct", format, constants, 4,
                                   &op->pipeline[PATH_ROWS]);
        if (result != OTR_OK)
            return result;
        op->grid[PATH_ROWS] = lane_grid(b->l, groups(n_outputs, lanes * outputs), 0, output_rows,
                                        tiles[i]);
        op->pipeline[PATH_PREFILL] = op->pipeline[PATH_ROWS];
        op->grid[PATH_PREFILL] = op->grid[PATH_ROWS];
        op->pipeline[PATH_ONE] = tiles[i] == 1 ? op->pipeline[PATH_ROWS] : VK_NULL_HANDLE;
        op->grid[PATH_ONE] = op->grid[PATH_ROWS];
        result = lane_add(b->l, op);
        if (result != OTR_OK)
            return result;
        op->waits = false; /* tiles write different rows */
    }
    return OTR_OK;
}

/* GPUs, prefill: the tiled matmul, on tier 3 with cooperative matrices. */
static otr_result add_matmul(builder *b, const char *format, uint32_t n_outputs, operation *op)
{
    const uint32_t *m = b->t->matmul;
    const uint32_t tiled[] = {m[0] / m[3] * (m[1] / m[4]), m[0], m[1], m[2], m[3], m[4]};
    uint32_t outputs = m[0], rows = m[1];
    otr_result result;

    if (b->l->gpu->tier >= 3) {
        cooperative_sizes sizes = cooperative_find_sizes(b->l->gpu, b->t->cooperative_size);
        char shader[64];

        outputs = sizes.outputs;
        rows = sizes.rows;
        snprintf(shader, sizeof shader, "matmul_cooperative_%s", format);
        result = kernel_get(b->l->gpu, shader, sizes.constants, COOPERATIVE_CONSTANTS, true,
                            &op->pipeline[PATH_PREFILL]);
    } else {
        result = kernel(b, "matmul", format, tiled, 6, &op->pipeline[PATH_PREFILL]);
    }
    op->grid[PATH_PREFILL] = lane_grid(b->l, groups(n_outputs, outputs), rows, false, 0);
    return result;
}

/* The paths of up to MAX_ROWS rows, with matvec or matvec_dot; suffix: of the shader's name. */
static otr_result plan_matvec(const builder *b, const char *name, const char *format,
                              const char *suffix, uint32_t n_outputs, bool output_rows,
                              operation *op)
{
    const tuning *t = b->t;
    gpu *g = b->l->gpu;
    uint32_t lanes = g->tier >= 1 ? g->subgroup_size : t->matvec_lanes;
    uint32_t subgroups = g->tier >= 1 ? t->matvec_subgroups : 1;
    const uint32_t constants[] = {lanes * subgroups, lanes, t->matvec_outputs, 32, 8};
    const uint32_t one_row[] = {lanes * subgroups, lanes, t->matvec_outputs, 32, 1};
    char shader[64];

    snprintf(shader, sizeof shader, "%s_%s%s", name, format, suffix);
    otr_result result = kernel_get(g, shader, constants, 5, g->tier >= 1, &op->pipeline[PATH_ROWS]);
    if (result == OTR_OK)
        result = kernel_get(g, shader, one_row, 5, g->tier >= 1, &op->pipeline[PATH_ONE]);
    op->grid[PATH_ROWS] = lane_grid(b->l, groups(n_outputs, subgroups * t->matvec_outputs), 0,
                                    output_rows, 0);
    op->grid[PATH_ONE] = op->grid[PATH_ROWS];
    return result;
}

/* GPUs: matvec for up to MAX_ROWS rows, matmul for prefill. */
static otr_result add_matvec(builder *b, const char *format, uint32_t n_outputs, bool output_rows,
                             operation *op)
{
    const char *suffix = b->l->gpu->tier >= 1 ? "_t1" : "_t0";
    otr_result result = plan_matvec(b, "matvec", format, suffix, n_outputs, output_rows, op);

    if (result == OTR_OK && !output_rows) { /* there are never many rows with logits */
        result = add_matmul(b, format, n_outputs, op);
    } else {
        op->pipeline[PATH_PREFILL] = op->pipeline[PATH_ROWS];
        op->grid[PATH_PREFILL] = op->grid[PATH_ROWS];
    }
    return result == OTR_OK ? lane_add(b->l, op) : result;
}

static bool uses_dot8(const builder *b, const weight *w)
{
    return b->l->gpu->uses_dot8 && !b->t->direct_outputs && w->repack->has_dot8;
}

/* Tier 2: x in 8 bits, unless l->quantised holds it. Prefill has no use for it. */
static otr_result add_quantised(builder *b, const gpu_buffer *x, uint32_t k, uint32_t x_stride,
                                bool output_rows)
{
    const uint32_t n_blocks = k / QUANTISED_BLOCK, lanes = b->t->elementwise_lanes;
    const uint32_t push[] = {n_blocks, x_stride};
    const binding bindings[] = {whole(x), whole(&b->l->quantised)};

    if (b->quantised == x)
        return OTR_OK;
    otr_result result = add(b, "quantise", NULL, &lanes, 1, bindings, 2, push, sizeof push,
                            groups(n_blocks, lanes), 1, output_rows);
    if (result == OTR_OK)
        b->l->operations[b->l->n_operations - 1].pipeline[PATH_PREFILL] = VK_NULL_HANDLE;
    then(b);
    b->quantised = x;
    return result;
}

/* Tier 2: matvec_dot for up to MAX_ROWS rows; op, with its set and pushes, stays for prefill. */
static otr_result add_dot(builder *b, const weight *w, uint32_t n_outputs, const binding *bindings,
                          bool output_rows, operation *op)
{
    const char *format = w->repack->shader;
    binding quantised[4] = {bindings[0], whole(&b->l->quantised), bindings[2], bindings[3]};
    operation dot = *op;
    otr_result result = lane_bind(b->l, quantised, 4, &dot.set);

    dot.push[5] = w->n_chunks * w->repack->chunk / QUANTISED_BLOCK * QUANTISED_WORDS;
    if (result == OTR_OK)
        result = plan_matvec(b, "matvec_dot", format, "", n_outputs, output_rows, &dot);
    if (result == OTR_OK)
        result = lane_add(b->l, &dot);
    if (result != OTR_OK || output_rows)
        return result;
    result = add_matmul(b, format, n_outputs, op);
    return result == OTR_OK ? lane_add(b->l, op) : result;
}

/* y[r][y_offset + o] = W x[r] (+ bias[bias_offset + o]) (+ y): for each part of W. */
static otr_result add_matrix(builder *b, const weight *w, const gpu_buffer *x, uint32_t x_stride,
                             const gpu_buffer *y, uint32_t y_stride, uint32_t y_offset,
                             const weight *bias, uint32_t bias_offset, uint32_t flags)
{
    otr_result result = OTR_OK;

    if (uses_dot8(b, w))
        result = add_quantised(b, x, w->n_chunks * w->repack->chunk, x_stride,
                               flags & MATVEC_OUT_ROWS);
    if (result != OTR_OK)
        return result;
    bool waits = b->waits;
    if (bias && weight_exists(bias))
        flags |= MATVEC_BIAS;
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const weight_part *p = &w->parts[i];
        /* A binding that the shader names must be valid even when flags leave it unread. */
        binding bindings[4] = {{p->buffer, p->offset, p->n_bytes}, whole(x), whole(y), whole(x)};
        uint32_t push[] = {p->n_rows,
                           w->n_chunks,
                           p->plane_words[1],
                           p->plane_words[2],
                           p->plane_words[3],
                           x_stride,
                           y_stride,
                           y_offset + (flags & MATVEC_SWIGLU ? p->first_row / 2 : p->first_row),
                           flags,
                           bias_offset + p->first_row,
                           0};
        operation op = {.kind = OPERATION_MATRIX, .n_push = sizeof push / 4, .waits = waits};

        if (flags & MATVEC_BIAS)
            bindings[3] = vector_of(bias);
        memcpy(&push[10], &p->scale, sizeof p->scale);
        memcpy(op.push, push, sizeof push);
        result = lane_bind(b->l, bindings, 4, &op.set);
        if (result == OTR_OK && uses_dot8(b, w))
            result = add_dot(b, w, p->n_rows, bindings, flags & MATVEC_OUT_ROWS, &op);
        else if (result == OTR_OK)
            result = (b->t->direct_outputs ? add_direct : add_matvec)(
                b, w->repack->shader, p->n_rows, flags & MATVEC_OUT_ROWS, &op);
        if (result != OTR_OK)
            return result;
    }
    b->waits = false;
    return OTR_OK;
}

static otr_result add_norm(builder *b, const gpu_buffer *x, const weight *w, bool output_rows)
{
    struct {
        uint32_t n, x_stride, out_stride;
        float eps;
        uint32_t output_rows;
    } push = {b->h->n_embd, padded(b->h->n_embd), padded(b->h->n_embd), b->h->rms_eps, output_rows};
    const binding bindings[] = {whole(x), vector_of(w), whole(&b->l->normed)};
    const uint32_t constants[] = {b->t->norm_lanes, b->t->norm_sums};
    return add(b, "rmsnorm", NULL, constants, 2, bindings, 3, &push, sizeof push, 1, 1,
               output_rows);
}

static otr_result add_rope(builder *b, const binding *k_cache, const binding *v_cache,
                           uint32_t qkv_stride)
{
    const hparams *h = b->h;
    uint32_t q_pairs = h->n_heads * h->head_size / 2, kv_pairs = h->n_kv_heads * h->head_size / 2;
    const attention_shape shape = attention_shape_of(h, b->l->cache_type);
    uint32_t push[] = {q_pairs,          kv_pairs,       h->head_size / 2,
                       h->rope_size / 2, qkv_stride / 2, attention_scales_at(&shape, b->l->n_ctx)};
    const binding bindings[] = {whole(&b->l->qkv), *k_cache, *v_cache, whole(&b->l->angles)};
    return add(b, attention_rope_shader(shape.cache), NULL, &b->t->elementwise_lanes, 1, bindings,
               4, push, sizeof push, groups(attention_rope_units(&shape), b->t->elementwise_lanes),
               1, false);
}

/* An operation for each path: they differ in rows and parts. */
static otr_result add_attention(builder *b, const binding *k_cache, const binding *v_cache)
{
    const binding bindings[] = {whole(&b->l->qkv), *k_cache, *v_cache, whole(&b->l->attended)};
    operation op = {
        .kind = OPERATION_OTHER, .n_push = sizeof(attention_push) / 4, .waits = b->waits};
    otr_result result = lane_bind(b->l, bindings, 4, &op.set);

    for (int path = 0; path < N_PATHS && result == OTR_OK; path++) {
        const attention_plan plan = lane_attention_plan(b->l, (enum lane_path)path);

        memset(op.pipeline, 0, sizeof op.pipeline);
        memcpy(op.push, &plan.push, sizeof plan.push);
        result = kernel(b, plan.shader, NULL, plan.constants, ATTENTION_CONSTANTS,
                        &op.pipeline[path]);
        op.grid[path] = lane_grid_positions(b->l, plan.groups_x, plan.rows_per_y, plan.split);
        if (result == OTR_OK)
            result = lane_add(b->l, &op);
        if (result == OTR_OK && plan.combine_shader) {
            operation combine = op;
            combine.waits = true;
            result = kernel(b, plan.combine_shader, NULL, plan.constants, ATTENTION_CONSTANTS,
                            &combine.pipeline[path]);
            combine.grid[path] = lane_grid(b->l, b->h->n_heads, 1, false, 0);
            if (result == OTR_OK)
                result = lane_add(b->l, &combine);
        }
        op.waits = false; /* one wait serves them all: a path has one of them */
    }
    b->waits = false;
    return result;
}

static otr_result add_swiglu(builder *b, uint32_t half_stride)
{
    uint32_t push[] = {b->h->n_ff, half_stride, padded(b->h->n_ff)};
    const binding bindings[] = {whole(&b->l->gate_up), whole(&b->l->gated)};
    return add(b, "swiglu", NULL, &b->t->elementwise_lanes, 1, bindings, 2, push, sizeof push,
               groups(b->h->n_ff, b->t->elementwise_lanes), 1, false);
}

/* gated = silu(Wgate n) * Wup n: one dispatch where gate and up have one format. */
static otr_result add_gated(builder *b, uint32_t layer)
{
    lane *l = b->l;
    const weight *gate = model_weight(b->model, WEIGHT_GATE, layer);
    const weight *up = model_weight(b->model, WEIGHT_UP, layer);
    uint32_t embd = padded(b->h->n_embd), ff = padded(b->h->n_ff);
    otr_result r;

    if (gate->n_joined == 2)
        return add_matrix(b, gate, &l->normed, embd, &l->gated, ff, 0, NULL, 0, MATVEC_SWIGLU);
    if ((r = add_matrix(b, gate, &l->normed, embd, &l->gate_up, 2 * ff, 0, NULL, 0, 0)) ||
        (r = add_matrix(b, up, &l->normed, embd, &l->gate_up, 2 * ff, ff, NULL, 0, 0)))
        return r;
    then(b);
    return add_swiglu(b, ff);
}

static otr_result build_embed(builder *b)
{
    const weight *w = model_weight(b->model, WEIGHT_TOKEN_EMBD, 0);
    then(b);
    bool waits = b->waits;
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const weight_part *p = &w->parts[i];
        struct {
            uint32_t first_token, n_tokens, n_chunks, planes[3], out_stride;
            float scale;
        } push = {p->first_row,         p->n_rows,
                  w->n_chunks,          {p->plane_words[1], p->plane_words[2], p->plane_words[3]},
                  padded(b->h->n_embd), 1.0f};
        const binding bindings[] = {
            {p->buffer, p->offset, p->n_bytes}, whole(&b->l->words), whole(&b->l->x)};
        b->waits = waits && i == 0;
        otr_result result = add(b, "embed", w->repack->shader, &b->t->elementwise_lanes, 1,
                                bindings, 3, &push, sizeof push,
                                groups(w->n_chunks, b->t->elementwise_lanes), 1, false);
        if (result != OTR_OK)
            return result;
    }
    return OTR_OK;
}

static otr_result build_layer(builder *b, uint32_t layer)
{
    lane *l = b->l;
    const hparams *h = b->h;
    const otr_model *m = b->model;
    uint32_t q = h->n_heads * h->head_size, kv = h->n_kv_heads * h->head_size;
    uint32_t embd = padded(h->n_embd), qkv = padded(q + 2 * kv), att = padded(q),
             ff = padded(h->n_ff);
    binding k_cache = {&l->k_cache, layer * l->layer_cache_bytes, l->layer_cache_bytes};
    binding v_cache = {&l->v_cache, layer * l->layer_cache_bytes, l->layer_cache_bytes};
    otr_result r;

#define W(id) model_weight(m, id, layer)
    /* Attention: x += Wo attention(rope(Wq n), rope(Wk n), Wv n), n = norm(x). */
    then(b);
    if ((r = add_norm(b, &l->x, W(WEIGHT_ATTN_NORM), false)) != OTR_OK)
        return r;
    then(b);
    const uint32_t at[] = {0, q, q + kv};
    for (int i = 0; i < 3; i++) { /* one dispatch where their formats allow it (model.c) */
        const weight *w = W((enum weight_id)(WEIGHT_Q + i));
        if (weight_exists(w) && (r = add_matrix(b, w, &l->normed, embd, &l->qkv, qkv, at[i],
                                                W(WEIGHT_Q_BIAS), at[i], 0)) != OTR_OK)
            return r;
    }
    then(b);
    if ((r = add_rope(b, &k_cache, &v_cache, qkv)) != OTR_OK)
        return r;
    then(b);
    if ((r = add_attention(b, &k_cache, &v_cache)) != OTR_OK)
        return r;
    then(b);
    if ((r = add_matrix(b, W(WEIGHT_ATTN_OUT), &l->attended, att, &l->x, embd, 0,
                        W(WEIGHT_ATTN_OUT_BIAS), 0, MATVEC_ACCUMULATE)) != OTR_OK)
        return r;
    /* Feed-forward: x += Wdown (silu(Wgate n) * Wup n), n = norm(x). */
    then(b);
    if ((r = add_norm(b, &l->x, W(WEIGHT_FFN_NORM), false)) != OTR_OK)
        return r;
    then(b);
    if ((r = add_gated(b, layer)) != OTR_OK)
        return r;
    then(b);
    return add_matrix(b, W(WEIGHT_DOWN), &l->gated, ff, &l->x, embd, 0, NULL, 0, MATVEC_ACCUMULATE);
#undef W
}

static otr_result build_output(builder *b)
{
    const weight *head = model_weight(b->model, WEIGHT_OUTPUT, 0);
    otr_result result;

    if (!weight_exists(head)) /* tied */
        head = model_weight(b->model, WEIGHT_TOKEN_EMBD, 0);
    then(b);
    result = add_norm(b, &b->l->x, model_weight(b->model, WEIGHT_OUTPUT_NORM, 0), true);
    if (result != OTR_OK)
        return result;
    then(b);
    return add_matrix(b, head, &b->l->normed, padded(b->h->n_embd), &b->l->logits,
                      b->l->logits_stride, 0, NULL, 0, MATVEC_OUT_ROWS);
}

static otr_result build_sample(builder *b)
{
    uint32_t push[] = {b->h->n_vocab, b->l->logits_stride};
    const binding bindings[] = {whole(&b->l->logits), whole(&b->l->words)};
    then(b);
    return add(b, "sample", NULL, &b->t->sample_lanes, 1, bindings, 2, push, sizeof push, 1, 1,
               true);
}

uint32_t transformer_n_sets(const otr_model *model)
{
    uint32_t n = 16;
    for (int id = 0; id < WEIGHT_FIRST_PER_LAYER; id++)
        n += 2 * model->global[id].n_parts;
    for (uint32_t layer = 0; layer < model->h.n_layers; layer++) {
        n += 8;
        for (int id = WEIGHT_FIRST_PER_LAYER; id < N_WEIGHTS; id++)
            n += model_weight(model, (enum weight_id)id, layer)->n_parts;
    }
    return model->gpu->uses_dot8 ? 2 * n : n; /* matrices have two, and their inputs one more */
}

otr_result transformer_build(lane *l)
{
    builder b = {.l = l, .model = l->model, .h = &l->model->h, .t = &l->tuning};
    otr_result result;

    l->embed.first = l->n_operations;
    result = build_embed(&b);
    l->embed.end = l->n_operations;
    for (uint32_t layer = 0; layer < l->model->h.n_layers && result == OTR_OK; layer++) {
        l->layers[layer].first = l->n_operations;
        result = build_layer(&b, layer);
        l->layers[layer].end = l->n_operations;
    }
    l->output.first = l->n_operations;
    if (result == OTR_OK)
        result = build_output(&b);
    l->output.end = l->sample.first = l->n_operations;
    if (result == OTR_OK)
        result = build_sample(&b);
    l->sample.end = l->n_operations;
    return result;
}

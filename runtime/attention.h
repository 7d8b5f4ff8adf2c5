/* Shapes of the attention kernels and the memory they need: one place for the lanes that record
 * them, the self-test and tests. See shaders/attention.comp. */
#ifndef OUTRIDER_ATTENTION_H
#define OUTRIDER_ATTENTION_H

#include "arch.h"
#include "step_state.h"
#include "tuning.h"

#define ATTENTION_CONSTANTS 5

/* The passes that a plan is for. */
typedef enum attention_use {
    ATTENTION_ONE_ROW,
    ATTENTION_ROWS, /* 1..MAX_ROWS: the same bits */
    ATTENTION_PREFILL,
} attention_use;

typedef struct attention_shape {
    uint32_t n_heads, n_kv_heads, head_size;
    otr_cache_type cache;
} attention_shape;

/* As shaders/attention_cache.glsl has them. */
typedef struct attention_push {
    uint32_t group, kv_heads, q_stride, out_stride, scales_at, partials_at, counters_at, max_parts;
    float scale;
} attention_push;

/* How a pass of up to `rows` rows with a context of n_ctx positions is done. */
typedef struct attention_plan {
    const char *shader;
    bool is_direct;             /* attention_direct: no shared memory, no counters */
    const char *combine_shader; /* run after it, with the same constants; NULL: none */
    uint32_t constants[ATTENTION_CONSTANTS];
    attention_push push;
    uint32_t groups_x, rows_per_y, split; /* of the dispatch; parts in z */
    /* Of the output's buffer: words for rows and parts, and counters behind them, at
     * push.counters_at. Plans that share a buffer need their counters where no other writes. */
    uint64_t out_words, n_counters;
} attention_plan;

/* Of a model, with such a cache. */
attention_shape attention_shape_of(const hparams *h, otr_cache_type cache);
/* q_stride: floats between rows of q. */
attention_plan attention_make_plan(const tuning *t, uint32_t subgroup_size,
                                   const attention_shape *shape, attention_use use, uint32_t rows,
                                   uint32_t n_ctx, uint32_t q_stride, float scale);

/* Of one of a layer's two caches. */
uint64_t attention_cache_bytes(const attention_shape *shape, uint32_t n_ctx);
/* Words before the scales in a Q8_0 cache; 0 in others. */
uint32_t attention_scales_at(const attention_shape *shape, uint32_t n_ctx);
/* Invocations of the rope kernel for a row: pairs of Q, and units of K and V. */
uint32_t attention_rope_units(const attention_shape *shape);
/* Name of the rope kernel that writes such a cache. */
const char *attention_rope_shader(otr_cache_type cache);

#endif

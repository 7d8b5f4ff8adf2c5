/* Plans of the attention kernels. See attention.h. */
#include "attention.h"

/* Queries of a workgroup at most: each has its own sums in registers. */
#define MAX_QUERIES 8
#define Q8_BLOCK 32 /* elements with one scale */

static uint32_t elements_of_word(otr_cache_type cache)
{
    return cache == OTR_CACHE_Q8_0 ? 4 : 2;
}

/* The most query heads of one key-value head that workgroups can share evenly. */
static uint32_t heads_of_group(uint32_t group)
{
    uint32_t heads = MAX_QUERIES;
    while (group % heads)
        heads--;
    return heads;
}

static uint64_t divided_up(uint64_t n, uint64_t of)
{
    return (n + of - 1) / of;
}

attention_plan attention_make_plan(const tuning *t, const attention_shape *s, bool one_row,
                                   uint32_t rows, uint32_t n_ctx, uint32_t split, uint32_t q_stride,
                                   float scale)
{
    const uint32_t elements = elements_of_word(s->cache), words = s->head_size / elements;
    const uint32_t group = s->n_heads / s->n_kv_heads, heads = heads_of_group(group);
    const uint32_t rows_per_y = one_row ? 1 : MAX_QUERIES / heads;
    const uint32_t parts = (uint32_t)divided_up(n_ctx, split);
    const uint64_t out_stride = divided_up((uint64_t)s->n_heads * s->head_size, 4) * 4;
    const uint64_t partials = rows * out_stride / elements;
    const uint64_t n_partials = parts > 1 ? (uint64_t)rows * s->n_heads * parts * (words + 1) : 0;
    const uint64_t out_words = (partials + n_partials) * elements;
    const uint64_t n_counters = divided_up(rows, rows_per_y) * (s->n_heads / heads);

    return (attention_plan){
        .shader = s->cache == OTR_CACHE_Q8_0 ? "attention_q8" : "attention_f16",
        .constants = {t->attention_lanes, words, heads, rows_per_y, split},
        .push = {group, s->n_kv_heads, q_stride / elements, (uint32_t)out_stride / elements,
                 attention_scales_at(s, n_ctx), (uint32_t)partials, (uint32_t)out_words, parts,
                 scale},
        .groups_x = s->n_heads / heads,
        .rows_per_y = rows_per_y,
        .split = split,
        .out_words = out_words,
        .n_counters = n_counters,
    };
}

uint64_t attention_cache_bytes(const attention_shape *s, uint32_t n_ctx)
{
    uint64_t n = (uint64_t)n_ctx * s->n_kv_heads * s->head_size;
    return s->cache == OTR_CACHE_Q8_0 ? n + n / Q8_BLOCK * 4 : n * 2;
}

uint32_t attention_scales_at(const attention_shape *s, uint32_t n_ctx)
{
    uint64_t n = (uint64_t)n_ctx * s->n_kv_heads * s->head_size;
    return s->cache == OTR_CACHE_Q8_0 ? (uint32_t)(n / 4) : 0;
}

uint32_t attention_rope_units(const attention_shape *s)
{
    uint32_t unit = s->cache == OTR_CACHE_Q8_0 ? Q8_BLOCK : 2;
    return s->n_heads * s->head_size / 2 + 2 * (s->n_kv_heads * s->head_size / unit);
}

const char *attention_rope_shader(otr_cache_type cache)
{
    return cache == OTR_CACHE_Q8_0 ? "rope_q8" : "rope_f16";
}

/* Plans of the attention kernels. See attention.h. */
#include "attention.h"

/* Queries of a workgroup at most: each has its own sums in registers. */
#define MAX_QUERIES 8
/* The same for a lane of attention_direct, in words of a head. */
#define MAX_WORDS_OF_LANE 128
#define LEAST_SHARED_BYTES 16384
#define Q8_BLOCK 32 /* elements with one scale */
/* Positions of a part: few for the row kernels of GPUs, so that a long context keeps the device busy;
 * many for prefill, whose rows do, and where the parts need a dispatch of their own. Each use has its
 * own order of summation, and only one. */
#define SPLIT_FINE 256
#define SPLIT_COARSE 4096

static uint32_t elements_of_word(otr_cache_type cache)
{
    return cache == OTR_CACHE_Q8_0 ? 4 : 2;
}

/* The most query heads of one key-value head, at most `most`, that workgroups can share evenly. */
static uint32_t heads_of_group(uint32_t group, uint32_t most)
{
    uint32_t heads = most < group ? most : group;
    while (group % heads)
        heads--;
    return heads;
}

/* As many as fit the shared memory that every device has, each with its head, a page's scores and
 * three numbers. */
static uint32_t shared_queries(const attention_shape *s, uint32_t lanes)
{
    uint32_t of_query = s->head_size * 4 + ATTENTION_PAGE * 4 + 12;
    uint32_t most = (LEAST_SHARED_BYTES - lanes * 16 - 16) / of_query;
    return most < MAX_QUERIES ? most : MAX_QUERIES;
}

static uint64_t divided_up(uint64_t n, uint64_t of)
{
    return (n + of - 1) / of;
}

attention_shape attention_shape_of(const hparams *h, otr_cache_type cache)
{
    return (attention_shape){h->n_heads, h->n_kv_heads, h->head_size, cache};
}

/* Queries of a lane of attention_direct. */
static uint32_t direct_tile(attention_use use, uint32_t words)
{
    uint32_t tile = use == ATTENTION_ONE_ROW ? 1 : use == ATTENTION_ROWS ? 2 : 4;
    while (tile > 1 && tile * words > MAX_WORDS_OF_LANE)
        tile /= 2;
    return tile;
}

attention_plan attention_make_plan(const tuning *t, uint32_t subgroup_size,
                                   const attention_shape *s, attention_use use, uint32_t rows,
                                   uint32_t n_ctx, uint32_t q_stride, float scale)
{
    const bool direct = t->direct_outputs > 0, q8 = s->cache == OTR_CACHE_Q8_0;
    const uint32_t elements = elements_of_word(s->cache), words = s->head_size / elements;
    const uint32_t queries = direct ? subgroup_size * direct_tile(use, words)
                                    : shared_queries(s, t->attention_lanes);
    const uint32_t group = s->n_heads / s->n_kv_heads, heads = heads_of_group(group, queries);
    const uint32_t rows_per_y = use == ATTENTION_ONE_ROW ? 1 : queries / heads;
    const uint32_t split = direct || use == ATTENTION_PREFILL ? SPLIT_COARSE : SPLIT_FINE;
    const uint32_t parts = (uint32_t)divided_up(n_ctx, split);
    const uint64_t out_stride = divided_up((uint64_t)s->n_heads * s->head_size, 4) * 4;
    const uint64_t partials = rows * out_stride / elements;
    const uint64_t n_partials = parts > 1 ? (uint64_t)rows * s->n_heads * parts * (words + 1) : 0;
    const uint64_t out_words = (partials + n_partials) * elements;
    attention_plan plan = {
        .shader = q8 ? "attention_q8" : "attention_f16",
        .is_direct = direct,
        .constants = {t->attention_lanes, words, heads, rows_per_y, split},
        .push = {group, s->n_kv_heads, q_stride / elements, (uint32_t)out_stride / elements,
                 attention_scales_at(s, n_ctx), (uint32_t)partials, (uint32_t)out_words, parts,
                 scale},
        .groups_x = s->n_heads / heads,
        .rows_per_y = rows_per_y,
        .split = split,
        .out_words = out_words,
        .n_counters = divided_up(rows, rows_per_y) * (s->n_heads / heads),
    };

    if (direct) {
        plan.shader = q8 ? "attention_direct_q8" : "attention_direct_f16";
        plan.constants[0] = subgroup_size;
        plan.n_counters = 0;
        if (parts > 1)
            plan.combine_shader = q8 ? "attention_combine_q8" : "attention_combine_f16";
    }
    return plan;
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

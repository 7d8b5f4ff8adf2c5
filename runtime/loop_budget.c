/* The budget of loop iterations (loop_budget.h). The formulas follow the loops of shaders/. */
#include "loop_budget.h"

#include "step_state.h"

static uint64_t rounds(uint64_t n, uint64_t of)
{
    return (n + of - 1) / of;
}

/* A part's pages: the lanes share positions for the scores (a loop over the head's words each),
 * queries for maxima and totals, and words for the sum of values, in groups of positions where they
 * are fewer than lanes. Then one workgroup goes over the sums of all parts, for each of its queries
 * three times. */
uint64_t loops_of_attention(const attention_plan *plan, uint64_t n_positions)
{
    const uint64_t lanes = plan->constants[0], words = plan->constants[1];
    const uint64_t queries = plan->constants[2] * plan->constants[3], split = plan->constants[4];
    const uint64_t in_part = n_positions < split ? n_positions : split;
    const uint64_t groups = words < lanes ? lanes / words : 1;
    const uint64_t page = 1 + rounds(ATTENTION_PAGE, lanes) * (1 + words) +
                          rounds(queries, lanes) * 2 * (1 + ATTENTION_PAGE) +
                          rounds(queries * ATTENTION_PAGE, lanes) + rounds(ATTENTION_PAGE, groups);
    const uint64_t parts = rounds(n_positions, split);

    if (plan->is_direct) /* what is within a position is unrolled; attention_combine */
        return in_part > rounds(words, lanes) * (1 + 3 * parts)
                   ? in_part
                   : rounds(words, lanes) * (1 + 3 * parts);
    return rounds(queries * words, lanes) + rounds(in_part, ATTENTION_PAGE) * page +
           (parts > 1 ? queries * parts * (2 + rounds(words, lanes)) : 0);
}

/* An invocation has whole rows; the parts of a chunk are a loop with its last test, the rest is
 * unrolled (measured: 1 and 6 iterations a chunk). */
uint64_t loops_of_direct(uint64_t n_chunks, uint32_t chunk)
{
    return n_chunks * (chunk == 4 ? 1 : 1 + chunk / 4 + 1);
}

/* A lane's chunks once for each tile of 8 rows; tier 0 adds the lanes' sums in a loop at the end.
 */
uint64_t loops_of_matvec(uint64_t n_chunks, uint32_t lanes)
{
    return rounds(MAX_ROWS, 8) * (rounds(n_chunks, lanes) + rounds(4 * 8, lanes) * (1 + lanes));
}

/* Slices of BK: a loop over the slice, and an invocation's share of loading both sides, each with
 * its last test (measured: 44 iterations a slice of F32, 41 of Q8_0). */
uint64_t loops_of_matmul(const tuning *t, uint64_t n_chunks, uint32_t chunk)
{
    const uint32_t bm = t->matmul[0], bn = t->matmul[1], bk = t->matmul[2];
    const uint32_t threads = bm / t->matmul[3] * (bn / t->matmul[4]);
    uint64_t slice = 1 + (bk + 1) + (rounds(bm * (bk / chunk), threads) + 1) +
                     (rounds(bn * (bk / 4), threads) + 1);

    return rounds(n_chunks * chunk, bk) * slice;
}

/* The scales of a subgroup's share of the rows, and slices as above; the products of a slice are loops
 * over whole arrays, unrolled but for the matrices along k. */
uint64_t loops_of_cooperative(const cooperative_sizes *sizes, uint64_t n_chunks, uint32_t chunk)
{
    const uint32_t *c = sizes->constants;
    const uint32_t threads = c[0], bm = c[1], bn = c[2], bk = c[3];
    uint64_t scales = bn / COOPERATIVE_SUBGROUPS *
                      (1 + rounds(n_chunks * chunk / 4, threads / COOPERATIVE_SUBGROUPS) + 1);
    uint64_t slice = 1 + (rounds(bm * (bk / chunk), threads) + 1) +
                     (rounds(bn * (bk / 4), threads) + 1) + (bk / c[6] + 1);

    return scales + rounds(n_chunks * chunk, bk) * slice;
}

/* A lane's partial sums, each over its elements; their total; the lane's share of the output. */
uint64_t loops_of_rmsnorm(const tuning *t, uint64_t n)
{
    return rounds(t->norm_sums, t->norm_lanes) * (1 + rounds(n, t->norm_sums)) + t->norm_sums +
           rounds(n, t->norm_lanes);
}

/* Passes over the row four items at a time, the digits of its walks, the penalty's window: see the
 * head of shaders/sample.comp. */
uint64_t loops_of_sample(const tuning *t, uint64_t n_vocab)
{
    uint64_t lanes = t->sample_lanes;

    return 15 * rounds(n_vocab, 4 * lanes) + rounds(n_vocab, 16 * lanes) +
           11 * (rounds(256, lanes) + 48) + 22 + rounds(512, lanes) * 129;
}

static otr_result too_long(const otr_model *model, const char *kernel, uint64_t loops,
                           const char *what, uint64_t size)
{
    return context_fail(
        model->context, OTR_ERROR_UNSUPPORTED,
        "%s: %s of %llu takes %llu loop iterations in kernel '%s'; software devices "
        "such as %s are trusted with %u",
        model->name, what, (unsigned long long)size, (unsigned long long)loops, kernel,
        model->gpu->info->name, LOOP_BUDGET);
}

static otr_result check_weight(const otr_model *model, const tuning *t, const weight *w)
{
    uint32_t lanes = model->gpu->tier >= 1 ? model->gpu->subgroup_size : t->matvec_lanes;
    const char *kernel = t->direct_outputs ? "matvec_direct" : "matvec";
    uint64_t loops = 0;

    if (!weight_exists(w))
        return OTR_OK;
    loops = t->direct_outputs ? loops_of_direct(w->n_chunks, w->repack->chunk)
                              : loops_of_matvec(w->n_chunks, lanes);
    if (!t->direct_outputs && model->gpu->tier >= 3) {
        cooperative_sizes sizes = cooperative_find_sizes(model->gpu, t->cooperative_size);
        uint64_t more = loops_of_cooperative(&sizes, w->n_chunks, w->repack->chunk);

        kernel = more > loops ? "matmul_cooperative" : kernel;
        loops = more > loops ? more : loops;
    } else if (!t->direct_outputs && loops_of_matmul(t, w->n_chunks, w->repack->chunk) > loops) {
        kernel = "matmul";
        loops = loops_of_matmul(t, w->n_chunks, w->repack->chunk);
    }
    return loops > LOOP_BUDGET ? too_long(model, kernel, loops, "a row of weights", w->k) : OTR_OK;
}

bool loop_budget_allows(const tuning *t)
{
    return loops_of_sample(t, 1u << 19) <= LOOP_BUDGET &&
           loops_of_rmsnorm(t, 1u << 17) <= LOOP_BUDGET &&
           (t->direct_outputs || loops_of_matmul(t, (1u << 15) / 4, 4) <= LOOP_BUDGET);
}

otr_result loop_budget_check(const otr_model *model, const tuning *t, uint32_t n_ctx)
{
    const hparams *h = &model->h;
    const attention_shape shape = attention_shape_of(h, OTR_CACHE_F16);
    otr_result result = OTR_OK;

    if (!model->gpu->is_cpu)
        return OTR_OK;
    for (int use = ATTENTION_ONE_ROW; use <= ATTENTION_PREFILL; use++) {
        const attention_plan plan = attention_make_plan(t, model->gpu->subgroup_size, &shape,
                                                        (attention_use)use, 1, n_ctx, 0, 1);
        if (loops_of_attention(&plan, n_ctx) > LOOP_BUDGET)
            return too_long(model, "attention", loops_of_attention(&plan, n_ctx), "a context",
                            n_ctx);
    }
    if (loops_of_rmsnorm(t, h->n_embd) > LOOP_BUDGET)
        return too_long(model, "rmsnorm", loops_of_rmsnorm(t, h->n_embd), "an embedding",
                        h->n_embd);
    if (loops_of_sample(t, h->n_vocab) > LOOP_BUDGET)
        return too_long(model, "sample", loops_of_sample(t, h->n_vocab), "a vocabulary",
                        h->n_vocab);
    for (uint32_t layer = 0; layer < h->n_layers && result == OTR_OK; layer++)
        for (int id = 0; id < N_WEIGHTS && result == OTR_OK; id++)
            result = check_weight(model, t, model_weight(model, (enum weight_id)id, layer));
    return result;
}

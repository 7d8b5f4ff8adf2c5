/* Blocks one after the other (block_loop.h). A block is plain, or proposed by the n-gram drafter, or
 * drafted by the draft lane: in the target's submission (serial, lanes joined), before it by a chain of
 * its own (serial, lanes apart), or while the block before it was verified (pipelined). */
#include "block_loop.h"

#include <string.h>

/* A draft that lacks so many positions catches up by a prefill pass before its chain. */
#define MAX_CATCH_UP_ROWS 4
/* With fixed K plain blocks come at every such block, and only in generations long enough to bear
 * them. */
#define PLAIN_PROBE_STRIDE 3
#define MIN_TOKENS_TO_PROBE 32

static void finish(generation *g, otr_finish why)
{
    g->finished = true;
    g->finish = why;
}

static bool ends(const generation *g, int32_t token)
{
    return !g->p->ignore_stop_tokens && vocab_is_stop(g->s->target_model->vocab, (uint32_t)token);
}

/* Gives the tokens of a block out until one ends the generation; the rest is discarded. */
static otr_result give_out(generation *g, const block_result *block)
{
    otr_session *s = g->s;

    for (uint32_t i = 0; i < block->n_tokens; i++) {
        int32_t token = block->tokens[i];
        if (g->finished) {
            g->log.stats->discarded++;
            continue;
        }
        s->tokens[s->n_tokens++] = token;
        if (!stats_token(&g->log))
            return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY,
                                "out of memory for statistics");
        if (ends(g, token)) {
            finish(g, OTR_FINISH_STOP);
            continue;
        }
        switch (text_out_push(&g->text, token)) {
        case TEXT_GO_ON:
            break;
        case TEXT_STOPPED:
            finish(g, OTR_FINISH_STOP);
            continue;
        case TEXT_CANCELLED:
            finish(g, OTR_FINISH_CANCELLED);
            continue;
        case TEXT_NO_MEMORY:
            return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for text");
        }
        if (g->p->max_tokens >= 0 && g->log.stats->emitted >= (uint64_t)g->p->max_tokens)
            finish(g, OTR_FINISH_LENGTH);
        else if (s->n_tokens == s->n_ctx)
            finish(g, OTR_FINISH_CONTEXT);
    }
    return OTR_OK;
}

/* ---------------------------------------------------------------------------------- decisions */

/* Tokens that a block behind a root may draft: the cache must hold their rows, and a block gives one
 * token of its own, so there is no need to draft the last one. n_before: tokens given out until then. */
static uint32_t room_behind(const generation *g, uint32_t root, uint64_t n_before)
{
    uint32_t room = g->s->n_ctx - 1 - root;

    if (g->p->max_tokens >= 0) {
        uint64_t left = (uint64_t)g->p->max_tokens > n_before
                            ? (uint64_t)g->p->max_tokens - n_before
                            : 0;
        room = !left ? 0 : room < left - 1 ? room : (uint32_t)(left - 1);
    }
    return room < OTR_MAX_DRAFT ? room : OTR_MAX_DRAFT;
}

static bool may_use(const generation *g, enum drafter drafter)
{
    uint32_t asked = g->p->drafters;

    if (drafter == DRAFTER_MODEL)
        return g->s->draft && g->p->draft_max && (!asked || asked & OTR_DRAFTER_MODEL);
    return asked ? g->p->draft_max && asked & OTR_DRAFTER_NGRAM : g->p->draft_max == OTR_DRAFT_AUTO;
}

/* The n-gram drafter knows the text up to its last token. */
static otr_result feed_ngram(generation *g)
{
    otr_session *s = g->s;

    if (!s->ngram.tokens && !ngram_init(&s->ngram, s->n_ctx))
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY,
                            "out of memory for the n-gram drafter");
    while (s->ngram.n_tokens < s->n_tokens)
        ngram_append(&s->ngram, s->tokens[s->ngram.n_tokens]);
    return OTR_OK;
}

static enum schedule fixed_schedule(const generation *g)
{
    return g->p->schedule == OTR_SCHEDULE_PIPELINED ? SCHEDULE_PIPELINED : SCHEDULE_SERIAL;
}

/* With fixed K: what the n-gram drafter proposes goes first, as it costs nothing. */
static void decide_fixed(generation *g, const controller_context *x)
{
    uint32_t k = g->p->draft_max < x->max_draft ? g->p->draft_max : x->max_draft;
    controller_decision *d = &g->decision;

    *d = (controller_decision){.reason = REASON_PLAIN_TIME};
    if (k && !g->n_ahead && g->n_plain_left && g->log.stats->blocks % PLAIN_PROBE_STRIDE == 1) {
        g->n_plain_left--;
        return;
    }
    *d = (controller_decision){.n_draft = k, .reason = k ? REASON_PAYS : REASON_NO_ROOM};
    if (k && x->n_ngram && !g->n_ahead) {
        d->drafter = DRAFTER_NGRAM;
        d->n_draft = k < x->n_ngram ? k : x->n_ngram;
    } else if (k && may_use(g, DRAFTER_MODEL)) {
        d->drafter = DRAFTER_MODEL;
        d->schedule = fixed_schedule(g);
        d->n_draft = g->n_ahead && g->n_ahead < k ? g->n_ahead : k;
        d->n_next = g->p->draft_max;
        d->catch_up_rows = x->draft_lag > 1 ? x->draft_lag : 0;
    } else {
        d->n_draft = 0;
    }
}

/* Which drafters and schedules the controller may use in this generation. */
static void allow(generation *g)
{
    controller_params *p = &g->s->controller.params;
    bool apart = session_lanes_are_apart(g->s);

    p->drafters[DRAFTER_MODEL] = may_use(g, DRAFTER_MODEL);
    p->drafters[DRAFTER_NGRAM] = may_use(g, DRAFTER_NGRAM);
    p->schedules[SCHEDULE_SERIAL] = g->p->schedule != OTR_SCHEDULE_PIPELINED;
    p->schedules[SCHEDULE_PIPELINED] = g->p->schedule == OTR_SCHEDULE_PIPELINED ||
                                       (g->p->schedule == OTR_SCHEDULE_AUTO && apart);
    p->stops_early = true;
}

static otr_result decide(generation *g, uint32_t root)
{
    otr_session *s = g->s;
    controller_context x = {.max_draft = room_behind(g, root, g->log.stats->emitted),
                            .n_ahead = g->n_ahead};
    otr_result result = OTR_OK;

    if (s->draft && root > s->draft->length)
        x.draft_lag = root - s->draft->length;
    g->n_proposed = 0;
    if (may_use(g, DRAFTER_NGRAM)) {
        result = feed_ngram(g);
        if (result == OTR_OK)
            g->n_proposed = ngram_draft(&s->ngram, x.max_draft, g->proposed, &x.ngram_match);
        x.n_ngram = g->n_proposed;
    }
    if (g->p->draft_max == OTR_DRAFT_AUTO)
        controller_decide(&s->controller, &x, &g->decision);
    else
        decide_fixed(g, &x);
    return result;
}

/* ------------------------------------------------------------------------------------- blocks */

/* The draft's cache up to the root, or near enough for a chain to begin with the rest. */
static otr_result catch_up(generation *g, uint32_t root, double *ms)
{
    otr_session *s = g->s;
    lane *l = s->draft;
    uint64_t start = clock_ns();
    uint32_t lag = root - l->length, rows = g->decision.catch_up_rows;

    if (rows && rows < lag) { /* only the end of the text */
        l->origin = l->length = root - rows;
        lag = rows;
    }
    if (lag < MAX_CATCH_UP_ROWS)
        return OTR_OK;
    otr_result result = session_prefill(s, l, root, NULL, NULL);
    *ms = (double)(clock_ns() - start) / 1e6;
    return result;
}

/* A chain of its own before the target's pass. */
static otr_result draft_apart(generation *g, uint32_t root, chain_result *drafted,
                              uint64_t *wait_ns)
{
    otr_result result = chain_start(g->s, root, g->decision.n_draft);
    return result == OTR_OK ? chain_wait(g->s, drafted, wait_ns) : result;
}

/* Goes on behind the block's drafted tokens while it is verified: the guess of the bonus token, and
 * the next block's. *n_steps is 0 when there is nothing to go on with. */
static otr_result start_ahead(generation *g, uint32_t root, const chain_result *drafted,
                              uint32_t *n_steps)
{
    otr_session *s = g->s;
    uint32_t room = room_behind(g, root + drafted->n + 1, g->log.stats->emitted + drafted->n + 1);
    uint32_t n_next = g->decision.n_next < room ? g->decision.n_next : room;

    *n_steps = 0;
    if (g->decision.schedule != SCHEDULE_PIPELINED || !drafted->n || !n_next ||
        root + drafted->n + 1 >= s->n_ctx || ends(g, drafted->tokens[drafted->n - 1]))
        return OTR_OK;
    *n_steps = n_next < OTR_MAX_DRAFT ? n_next + 1 : OTR_MAX_DRAFT;
    memcpy(s->tokens + root + 1, drafted->tokens, drafted->n * sizeof *s->tokens);
    chain_set_stops(s, NULL, NULL); /* it costs no more than the wait for the target */
    return chain_start(s, root + drafted->n, *n_steps);
}

/* What came of it: kept when all of the block was accepted and the bonus token is the guess. */
static otr_result end_ahead(generation *g, block_result *block)
{
    bool whole = block->accepted == block->drafted;

    if (!whole)
        chain_cancel(g->s);
    otr_result result = chain_wait(g->s, &g->ahead, &block->wait_ns);
    if (result != OTR_OK)
        return result;
    if (whole && g->ahead.n > 1 && g->ahead.tokens[0] == block->tokens[block->accepted])
        g->n_ahead = g->ahead.n - 1;
    else
        g->log.stats->dropped += g->ahead.n;
    return OTR_OK;
}

typedef struct block_times {
    uint64_t start_ns;
    double catch_up_ms, draft_ms; /* before the target's pass */
    uint32_t n_steps_ahead;
} block_times;

static void take_ahead(generation *g, chain_result *drafted)
{
    uint32_t n = g->decision.n_draft < g->n_ahead ? g->decision.n_draft : g->n_ahead;

    *drafted = (chain_result){.n = n};
    memcpy(drafted->tokens, g->ahead.tokens + 1, n * sizeof *drafted->tokens);
    memcpy(drafted->probabilities, g->ahead.probabilities + 1, n * sizeof *drafted->probabilities);
}

/* A block of the draft model whose tokens cross through the host. */
static otr_result run_apart(generation *g, uint32_t root, block_times *times, block_result *block)
{
    otr_session *s = g->s;
    chain_result drafted = {0};
    uint64_t wait_ns = 0;
    uint32_t n_steps = 0;
    otr_result result = OTR_OK;

    if (g->n_ahead) {
        take_ahead(g, &drafted);
        /* With rows of what isn't verified now the draft's cache is of no use. */
        session_cut_draft(s, root + drafted.n);
    } else {
        result = draft_apart(g, root, &drafted, &wait_ns);
        times->draft_ms = drafted.ms;
    }
    g->n_ahead = 0;
    const block_work work = {.proposed = drafted.tokens, .n_proposed = drafted.n};
    if (result == OTR_OK)
        result = verify_start(s, &work);
    if (result != OTR_OK)
        return result;
    otr_result ahead = start_ahead(g, root, &drafted, &n_steps);
    result = verify_wait(s, block); /* in any case: it is under way */
    result = result == OTR_OK ? ahead : result;
    block->wait_ns += wait_ns;
    if (result == OTR_OK && n_steps) {
        result = end_ahead(g, block);
        times->n_steps_ahead = g->ahead.n;
    }
    block->draft_ms = times->draft_ms;
    memcpy(block->probabilities, drafted.probabilities, drafted.n * sizeof *drafted.probabilities);
    return result;
}

static otr_result run_joined(generation *g, const block_work *work, block_result *block)
{
    otr_result result = verify_start(g->s, work);
    return result == OTR_OK ? verify_wait(g->s, block) : result;
}

static void drop_ahead(generation *g)
{
    g->log.stats->dropped += g->n_ahead;
    g->n_ahead = 0;
}

static otr_result run_block(generation *g, uint32_t root, block_times *times, block_result *block)
{
    otr_session *s = g->s;
    const controller_decision *d = &g->decision;
    otr_result result;

    if (d->drafter != DRAFTER_MODEL) {
        const block_work work = {.proposed = g->proposed, .n_proposed = d->n_draft};
        drop_ahead(g);
        return run_joined(g, &work, block);
    }
    if (!g->n_ahead) {
        session_cut_draft(s, root);
        result = catch_up(g, root, &times->catch_up_ms);
        if (result != OTR_OK)
            return result;
        bool early = g->p->draft_max == OTR_DRAFT_AUTO;
        chain_set_stops(s, d->band_acceptance, early ? d->stop : NULL);
    }
    if (s->joined && d->schedule == SCHEDULE_SERIAL && !g->n_ahead) {
        const block_work work = {.n_chain = d->n_draft};
        result = run_joined(g, &work, block);
        times->draft_ms = block->draft_ms;
        return result;
    }
    return run_apart(g, root, times, block);
}

/* What the controller learns of a block. The host's share counts as the target's. */
static void learn(generation *g, const block_result *block, const block_times *times)
{
    double total_ms = (double)block->total_ns / 1e6;
    bool has_confidence = g->decision.drafter == DRAFTER_MODEL;
    controller_outcome outcome = {
        .drafted = block->drafted,
        .accepted = block->accepted,
        .probabilities = has_confidence ? block->probabilities : NULL,
        .total_ms = total_ms,
        .catch_up_ms = times->catch_up_ms,
        .draft_ms = times->draft_ms,
        .n_steps_ahead = times->n_steps_ahead,
    };
    bool in_one = has_confidence && g->s->verifying.n_chain; /* and without timestamps unknown */

    if (!in_one || times->draft_ms > 0)
        outcome.verify_ms = total_ms - times->catch_up_ms - times->draft_ms;
    controller_record(&g->s->controller, &g->decision, &outcome);
}

/* What happened, for the application and the log. */
static void tell(const generation *g, const block_result *block, const block_times *times,
                 bool was_ready, uint32_t n_given)
{
    static const char *const names[N_DRAFTERS] = {"plain", "draft", "n-gram"};
    static const uint32_t flags[N_DRAFTERS] = {0, OTR_DRAFTER_MODEL, OTR_DRAFTER_NGRAM};
    const controller_decision *d = &g->decision;
    const controller *c = &g->s->controller;
    const otr_block told = {
        .size = sizeof told,
        .drafter = flags[d->drafter],
        .pipelined = d->drafter == DRAFTER_MODEL && d->schedule == SCHEDULE_PIPELINED,
        .was_ready = was_ready,
        .reason = decision_reason_string(d->reason),
        .drafted = block->drafted,
        .accepted = block->accepted,
        .n_tokens = n_given,
        .tokens = block->tokens,
        .latency_ms = g->log.gaps_ms + g->log.n_gaps - n_given,
        .probabilities = d->drafter == DRAFTER_MODEL ? block->probabilities : NULL,
        .rejected = block->rejected,
        .total_ms = (double)block->total_ns / 1e6,
        .catch_up_ms = times->catch_up_ms,
        .draft_ms = times->draft_ms,
        .verify_ms = block->verify_ms,
        .expected_speedup = d->expected_speedup,
        .plain_ms = controller_target_ms(c, 1),
        .draft_step_ms = controller_draft_ms(c),
        .budget_ms = controller_budget_ms(c),
    };

    context_log(g->s->context, OTR_LOG_DEBUG,
                "block %llu: %s%s%s (%s), %u of %u accepted, %.2f ms; expected %.2fx of plain "
                "%.2f ms, draft step %.2f ms, budget %.1f ms",
                (unsigned long long)g->log.stats->blocks, names[d->drafter],
                told.pipelined ? ", pipelined" : "", told.was_ready ? ", ready" : "", told.reason,
                told.accepted, told.drafted, told.total_ms, told.expected_speedup, told.plain_ms,
                told.draft_step_ms, told.budget_ms);
    if (g->p->on_block)
        g->p->on_block(&told, g->p->block_user);
}

static void tell_first(const generation *g, const block_result *block)
{
    static const float none = 0;
    const otr_block told = {
        .size = sizeof told,
        .is_first = true,
        .n_tokens = block->n_tokens,
        .tokens = block->tokens,
        .latency_ms = &none,
        .rejected = -1,
        .total_ms = (double)block->total_ns / 1e6,
    };
    if (g->p->on_block)
        g->p->on_block(&told, g->p->block_user);
}

static otr_result next_block(generation *g)
{
    otr_session *s = g->s;
    block_result block = {0};
    uint32_t root = s->n_tokens - 1;
    block_times times = {.start_ns = clock_ns()};
    otr_result result = decide(g, root);
    bool was_ready = g->n_ahead > 0 && g->decision.drafter == DRAFTER_MODEL;

    if (result == OTR_OK)
        result = run_block(g, root, &times, &block);
    if (result != OTR_OK)
        return result;
    block.total_ns = clock_ns() - times.start_ns; /* a draft's catching up belongs to its block */
    if (s->draft && !g->n_ahead)
        session_cut_draft(s, block.root);
    stats_block(&g->log, &block, &g->decision, was_ready);
    if (g->p->draft_max == OTR_DRAFT_AUTO)
        learn(g, &block, &times);
    uint32_t n_before = s->n_tokens;
    result = give_out(g, &block);
    if (result == OTR_OK)
        tell(g, &block, &times, was_ready, s->n_tokens - n_before);
    return result;
}

otr_result block_loop_run(generation *g)
{
    otr_session *s = g->s;
    block_result block;
    bool long_enough = g->p->max_tokens < 0 || g->p->max_tokens >= MIN_TOKENS_TO_PROBE;

    allow(g);
    g->n_plain_left = long_enough && g->p->draft_max != OTR_DRAFT_AUTO ? g->p->plain_probes : 0;
    otr_result result = verify_first(s, &block);
    if (result == OTR_OK)
        result = give_out(g, &block);
    if (result == OTR_OK)
        tell_first(g, &block);
    while (result == OTR_OK && !g->finished) {
        if (atomic_load(&s->cancelled))
            finish(g, OTR_FINISH_CANCELLED);
        else
            result = next_block(g);
    }
    return result;
}

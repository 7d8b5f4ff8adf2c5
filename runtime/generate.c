/* otr_generate: the block loop. Chooses K for each block, runs it, gives its tokens out one by one,
 * and cuts text, cache and counters at the same token when the generation ends inside a block. */
#include <math.h>
#include <string.h>

#include "params.h"
#include "stats.h"
#include "text_out.h"
#include "verify.h"

/* A draft that lacks so many positions catches up by a prefill pass before its chain. */
#define MAX_CATCH_UP_ROWS 4
/* Plain probes come at every such block, and only in generations long enough to bear them. */
#define PLAIN_PROBE_STRIDE 3
#define MIN_TOKENS_TO_PROBE 32

otr_sampling otr_sampling_default(void)
{
    return (otr_sampling){
        .size = sizeof(otr_sampling),
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .repeat_penalty = 1.0f,
        .repeat_last_n = 64,
    };
}

otr_generate_params otr_generate_params_default(void)
{
    return (otr_generate_params){
        .size = sizeof(otr_generate_params),
        .sampling = otr_sampling_default(),
        .max_tokens = -1,
        .draft_max = OTR_DRAFT_AUTO,
        .plain_probes = 4,
    };
}

static otr_result check_params(const otr_session *s, const otr_generate_params *p)
{
    const otr_sampling *a = &p->sampling;
    const struct {
        bool ok;
        const char *what;
    } checks[] = {
        {a->size == sizeof *a, "size of the sampling params (start from otr_sampling_default)"},
        {p->draft_max <= OTR_MAX_DRAFT || p->draft_max == OTR_DRAFT_AUTO,
         "draft_max (0 to 16, or OTR_DRAFT_AUTO)"},
        {a->temperature >= 0 && isfinite(a->temperature), "temperature (0 or more)"},
        {!isnan(a->top_p), "top_p"},
        {!isnan(a->min_p) && a->min_p <= 1, "min_p (at most 1)"},
        {a->repeat_penalty > 0 && isfinite(a->repeat_penalty), "repeat_penalty (over 0)"},
        {a->repeat_last_n >= 0 && a->repeat_last_n <= 512, "repeat_last_n (0 to 512)"},
        {!p->n_stop_strings || p->stop_strings, "stop_strings"},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!checks[i].ok)
            return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT, "otr_generate: bad %s",
                                checks[i].what);
    for (size_t i = 0; i < p->n_stop_strings; i++)
        if (!p->stop_strings[i])
            return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                                "otr_generate: stop string %zu is NULL", i);
    if (!s->n_tokens)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_generate: the session has no tokens; append a prompt first");
    return OTR_OK;
}

void generate_write_sampling(const lane *l, const otr_sampling *a)
{
    uint32_t *words = lane_request(l) + Q_SAMPLING - S_SEED_LOW;

    words[S_SEED_LOW] = (uint32_t)a->seed;
    words[S_SEED_HIGH] = (uint32_t)(a->seed >> 32);
    memcpy(&words[S_TEMPERATURE], &a->temperature, 4);
    words[S_TOP_K] = a->top_k > 0 ? (uint32_t)a->top_k : 0;
    memcpy(&words[S_TOP_P], &a->top_p, 4);
    memcpy(&words[S_MIN_P], &a->min_p, 4);
    memcpy(&words[S_PENALTY], &a->repeat_penalty, 4);
    words[S_LAST_N] = (uint32_t)a->repeat_last_n;
}

/* What begin.comp reads in BEGIN_GENERATE. */
static void write_request(const otr_session *s, const lane *l, const otr_generate_params *p)
{
    uint32_t *q = lane_request(l), n_stops = 0;

    q[Q_LENGTH] = l->length;
    generate_write_sampling(l, &p->sampling);
    if (!p->ignore_stop_tokens)
        for (uint32_t id = 0; id < s->target_model->h.n_vocab && n_stops < X_MAX_STOPS; id++)
            if (vocab_is_stop(s->target_model->vocab, id))
                q[Q_STOPS + 1 + n_stops++] = id;
    q[Q_STOPS] = n_stops;
}

/* Makes sure that logits of the last token can be had: everything before it cached, its row at
 * hand. */
static otr_result prepare(otr_session *s)
{
    uint64_t start = clock_ns();
    otr_result result;

    if (s->target->length >= s->n_tokens) {
        if (s->last_row >= 0 && s->target->length == s->n_tokens)
            return OTR_OK;
        s->target->length = s->n_tokens - 1;
    }
    result = session_prefill(s, s->target, s->n_tokens, NULL, NULL);
    s->prefill_ms += (double)(clock_ns() - start) / 1e6;
    return result;
}

typedef struct generation {
    otr_session *s;
    const otr_generate_params *p;
    text_out text;
    stats_log log;
    controller_decision decision; /* of the block under way */
    bool finished;
    otr_finish finish;
} generation;

static void finish(generation *g, otr_finish why)
{
    g->finished = true;
    g->finish = why;
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
        if (!g->p->ignore_stop_tokens && vocab_is_stop(s->target_model->vocab, (uint32_t)token)) {
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

/* What the controller says, with `room` for so many drafted tokens. */
static uint32_t decide(generation *g, uint32_t root, uint32_t room)
{
    const otr_session *s = g->s;
    controller_context x = {.max_draft = room, .draft_lag = root - s->draft->length};
    controller_decision *d = &g->decision;

    controller_decide(&g->s->controller, &x, d);
    /* A draft can't begin in the middle of a text: it waits until all of its catching up is paid. */
    if (d->n_draft && x.draft_lag > 1 && d->catch_up_rows < x.draft_lag)
        *d = (controller_decision){.reason = REASON_BUDGET};
    return d->n_draft;
}

/* K of the next block. */
static uint32_t choose_draft(generation *g, uint32_t root, uint64_t n_blocks, uint32_t *probes_left)
{
    const otr_session *s = g->s;
    uint32_t k = s->draft ? g->p->draft_max : 0;
    uint32_t room = s->n_ctx - 1 - root; /* rows after the root that the cache can hold */

    g->decision = (controller_decision){.reason = REASON_PLAIN_TIME};
    if (k && *probes_left && n_blocks % PLAIN_PROBE_STRIDE == 1) {
        --*probes_left;
        return 0;
    }
    if (g->p->max_tokens >= 0) {
        /* A block gives at least one token of its own: no need to draft the last one. */
        uint64_t left = (uint64_t)g->p->max_tokens - g->log.stats->emitted;
        room = room < left - 1 ? room : (uint32_t)(left - 1);
    }
    if (k == OTR_DRAFT_AUTO)
        return decide(g, root, room);
    return k < room ? k : room;
}

/* What the controller learns of a block. The host's share counts as the target's. */
static void learn(generation *g, const block_result *block, double catch_up_ms)
{
    double total_ms = (double)block->total_ns / 1e6;
    controller_outcome outcome = {
        .drafted = block->drafted,
        .accepted = block->accepted,
        .probabilities = block->probabilities,
        .total_ms = total_ms,
        .catch_up_ms = catch_up_ms,
        .draft_ms = block->draft_ms,
    };

    if (!block->drafted || block->draft_ms > 0)
        outcome.verify_ms = total_ms - catch_up_ms - block->draft_ms;
    controller_record(&g->s->controller, &g->decision, &outcome);
}

/* Tokens given out in this generation are in the draft lane's history (accept.comp), so its next
 * step can take a few rows; a prompt, or a longer gap, goes through prefill passes. */
static bool draft_is_far_behind(const generation *g, uint32_t root)
{
    uint32_t length = g->s->draft->length;
    return length < g->log.stats->prompt_tokens || root - length >= MAX_CATCH_UP_ROWS;
}

/* After the tokens of a block were given out: the last gaps in the log are theirs. */
static void report_block(const generation *g, const block_result *block, uint32_t n_given)
{
    otr_block b = {
        .drafted = block->drafted,
        .accepted = block->accepted,
        .n_tokens = n_given,
        .latency_ms = g->log.gaps_ms + (g->log.n_gaps - n_given),
        .draft_ms = block->draft_ms,
        .verify_ms = block->verify_ms,
        .total_ms = (double)block->total_ns / 1e6,
    };

    if (g->p->on_block)
        g->p->on_block(&b, g->p->block_user);
}

static otr_result run_blocks(generation *g)
{
    otr_session *s = g->s;
    block_result block;
    otr_result result = verify_first(s, &block);
    bool long_enough = g->p->max_tokens < 0 || g->p->max_tokens >= MIN_TOKENS_TO_PROBE;
    uint32_t probes_left = long_enough ? g->p->plain_probes : 0;

    if (result == OTR_OK)
        result = give_out(g, &block);
    while (result == OTR_OK && !g->finished) {
        uint64_t start = clock_ns();
        uint32_t root = s->n_tokens - 1,
                 k = choose_draft(g, root, g->log.stats->blocks, &probes_left);
        if (atomic_load(&s->cancelled)) {
            finish(g, OTR_FINISH_CANCELLED);
            break;
        }
        double catch_up_ms = 0;
        if (k && draft_is_far_behind(g, root)) {
            result = session_prefill(s, s->draft, root, NULL, NULL);
            catch_up_ms = (double)(clock_ns() - start) / 1e6;
        }
        if (result == OTR_OK)
            result = verify_block(s, k, &block);
        if (result != OTR_OK)
            break;
        s->target->length = block.root;
        if (s->draft)
            s->draft->length = block.draft_length;
        block.total_ns = clock_ns() - start; /* a draft's catching up belongs to its block */
        stats_block(&g->log, &block, k);
        if (s->draft && g->p->draft_max == OTR_DRAFT_AUTO)
            learn(g, &block, catch_up_ms);
        result = give_out(g, &block);
        if (result == OTR_OK)
            report_block(g, &block, s->n_tokens - 1 - root);
    }
    return result;
}

otr_result otr_generate(otr_session *s, const otr_generate_params *params,
                        otr_text_callback on_text, void *user, otr_stats *out)
{
    otr_generate_params p = otr_generate_params_default();
    otr_stats stats = {.size = sizeof stats};
    generation g = {.s = s, .p = &p};
    otr_result result;

    if (!s)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!params_take(&p, sizeof p, params) || (out && out->size < sizeof(size_t)))
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_generate: the size of the params or statistics is not set");
    result = check_params(s, g.p);
    if (result != OTR_OK)
        return result;

    atomic_store(&s->cancelled, false);
    text_out_init(&g.text, s->target_model->vocab, g.p, on_text, user);
    stats_begin(&g.log, &stats);
    stats.prompt_tokens = s->n_tokens;
    if (g.p->max_tokens == 0 || s->n_tokens == s->n_ctx) {
        stats.discarded = 1; /* the prefill's token, which was not asked for or has no room */
        finish(&g, g.p->max_tokens == 0 ? OTR_FINISH_LENGTH : OTR_FINISH_CONTEXT);
    } else {
        result = prepare(s);
        g.log.start_ns = clock_ns(); /* preparing counted as prefill */
        write_request(s, s->target, g.p);
        if (s->draft)
            write_request(s, s->draft, g.p);
        stats.prefill_ms = s->prefill_ms;
        if (result == OTR_OK)
            result = run_blocks(&g);
    }
    s->prefill_ms = 0;
    s->last_row = -1;
    if (text_out_finish(&g.text) == TEXT_NO_MEMORY && result == OTR_OK)
        result = context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for text");
    /* Cut the caches where the tokens were cut. */
    otr_session_rewind(s, s->n_tokens);
    stats.finish = result == OTR_OK                ? g.finish
                   : result == OTR_ERROR_CANCELLED ? OTR_FINISH_CANCELLED
                                                   : OTR_FINISH_ERROR;
    stats_end(&g.log);
    if (out) {
        size_t size = out->size < sizeof stats ? out->size : sizeof stats;
        memcpy(out, &stats, size);
        out->size = size;
    }
    stats_free(&g.log);
    text_out_free(&g.text);
    return result;
}

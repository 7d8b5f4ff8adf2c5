/* otr_generate: checks what it is given, prepares the lanes, runs the block loop (block_loop.c), and
 * cuts text, cache and counters at the same token when the generation ends inside a block. */
#include <math.h>
#include <string.h>

#include "block_loop.h"
#include "params.h"

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
        {p->schedule <= OTR_SCHEDULE_PIPELINED, "schedule"},
        {(p->drafters & ~(OTR_DRAFTER_MODEL | OTR_DRAFTER_NGRAM)) == 0, "drafters"},
        {p->verify <= OTR_VERIFY_BLOCK, "verify"},
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
    lane_request(l)[Q_STREAM] = NOISE_SHARED;
}

/* What begin.comp reads in BEGIN_GENERATE. */
static void write_request(const otr_session *s, const lane *l, const otr_generate_params *p)
{
    uint32_t *q = lane_request(l), n_stops = 0;

    generate_write_sampling(l, &p->sampling);
    verify_rule_write(s, l);
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
    if (result == OTR_OK)
        result = verify_rule_begin(s, &p);
    if (result != OTR_OK)
        return result;

    atomic_store(&s->cancelled, false);
    text_out_init(&g.text, s->target_model->vocab, g.p, on_text, user);
    stats_begin(&g.log, &stats);
    stats.prompt_tokens = s->n_tokens;
    stats.verify = s->rule.verify;
    if (g.p->max_tokens == 0 || s->n_tokens == s->n_ctx) {
        stats.discarded = 1; /* the prefill's token, which was not asked for or has no room */
        g.finish = g.p->max_tokens == 0 ? OTR_FINISH_LENGTH : OTR_FINISH_CONTEXT;
    } else {
        result = prepare(s);
        g.log.start_ns = clock_ns(); /* preparing counted as prefill */
        write_request(s, s->target, g.p);
        if (s->draft) {
            write_request(s, s->draft, g.p);
            s->chain.new_parameters = true;
        }
        stats.prefill_ms = s->prefill_ms;
        if (result == OTR_OK)
            result = block_loop_run(&g);
    }
    if (s->draft)
        chain_drain(s);
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

/* `outrider eval -f`: perplexity of a text with its standard error. A text longer than the window
 * is cut into windows that overlap by half, so that every token is predicted once, and all but
 * those of the first window from at least half a window. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "eval.h"
#include "interrupt.h"
#include "output.h"
#include "progress.h"

struct scores {
    const int32_t *window; /* ids of the window in work */
    size_t n_window;
    size_t first; /* row whose prediction is the first to count */
    uint64_t n;
    double mean, squares; /* of -ln p, by Welford's update */
    bool not_finite;
    size_t n_before; /* tokens of earlier windows, for the progress */
    size_t n_total;
    progress shown;
};

static bool score_row(size_t row, const float *logits, uint32_t n_vocab, void *user)
{
    struct scores *s = user;
    double nll, delta;

    if (row + 1 >= s->n_window || row < s->first)
        return !interrupt_signal();
    nll = eval_logsumexp(logits, n_vocab) - logits[s->window[row + 1]];
    if (!isfinite(nll)) {
        s->not_finite = true;
        return false;
    }
    s->n++;
    delta = nll - s->mean;
    s->mean += delta / (double)s->n;
    s->squares += delta * (nll - s->mean);
    return progress_update(s->n, s->n_total, &s->shown);
}

static int print_perplexity(const engine *e, const struct eval_settings *settings, size_t n_tokens,
                            size_t window, const struct scores *s, double tokens_per_second)
{
    double perplexity = exp(s->mean);
    double variance = s->n > 1 ? s->squares / (double)(s->n - 1) : NAN; /* one says nothing */
    double error = perplexity * sqrt(variance / (double)s->n);
    const char *slash = strrchr(e->target_path, '/');
    const char *name = slash ? slash + 1 : e->target_path;

    if (settings->json) {
        /* A perplexity beyond double's range is no JSON number. */
        json_t *object = json_pack(
            "{s:o,s:o,s:I,s:I,s:I,s:o,s:o,s:f,s:f}", "model", json_text(name, strlen(name)),
            "device", json_text(e->device.name, strlen(e->device.name)), "tokens",
            (json_int_t)n_tokens, "scored", (json_int_t)s->n, "window", (json_int_t)window,
            "perplexity", isfinite(perplexity) ? json_real(perplexity) : json_null(),
            "standard_error", isfinite(error) ? json_real(error) : json_null(), "mean_nll", s->mean,
            "tokens_per_second", tokens_per_second);

        return output_finish(output_json(object) ? EXIT_CODE_OK : EXIT_CODE_FAILED);
    }
    output_printf("perplexity %.4f", perplexity);
    if (isfinite(error))
        output_printf(" +/- %.4f", error);
    output_printf(" (%" PRIu64 " of %zu tokens, window %zu, %.1f tokens/s)\n", s->n, n_tokens,
                  window, tokens_per_second);
    return output_finish(EXIT_CODE_OK);
}

/* Window i begins at token i * step of the text; its first `overlap` predictions were scored
 * before. A BOS takes one place of every window. */
int eval_perplexity(engine *e, const struct eval_settings *settings, const int32_t *ids,
                    size_t n_ids)
{
    otr_session_params session_params = otr_session_params_default();
    otr_evaluate_params params = eval_params(settings);
    int32_t bos = otr_token_bos(e->target);
    bool has_bos = n_ids > 0 && bos >= 0 && ids[0] == bos;
    size_t n_lead = has_bos ? 1 : 0, n_text = n_ids - n_lead, step;
    uint32_t n_train = e->target_info.n_ctx_train;
    size_t window = settings->n_ctx                            ? (size_t)settings->n_ctx
                    : n_train && n_train < EVAL_DEFAULT_WINDOW ? n_train
                                                               : EVAL_DEFAULT_WINDOW;
    struct scores s = {.shown = progress_begin("perplexity", !e->quiet && progress_wanted())};
    otr_session *session = NULL;
    int32_t *work = NULL;
    size_t n_passed = 0;
    double start, seconds;
    otr_result result;
    int code = EXIT_CODE_OK;

    if (n_ids < 2)
        return fail(EXIT_CODE_INPUT, "the text has %zu token%s; a perplexity needs two or more",
                    n_ids, n_ids == 1 ? "" : "s");
    if (window < 4)
        return fail(EXIT_CODE_USAGE, "-c must be 4 or more for a perplexity");
    s.n_total = n_ids - 1;
    step = (window - n_lead) / 2;
    session_params.n_ctx = (uint32_t)window;
    session_params.cache_type = settings->cache_type;
    work = malloc(window * sizeof(*work));
    if (!work) {
        code = fail_memory();
        goto done;
    }
    result = otr_session_create(e->target, NULL, &session_params, &session);
    if (result != OTR_OK) {
        code = fail_result(&e->log, e->context, result);
        goto done;
    }
    interrupt_watch(session);
    start = now_seconds();
    for (size_t begin = 0, scored = 0; scored < n_text; begin += step) {
        size_t n = n_text - begin < window - n_lead ? n_text - begin : window - n_lead;

        if (n_lead)
            work[0] = bos;
        memcpy(work + n_lead, ids + n_lead + begin, n * sizeof(*work));
        s.window = work;
        s.n_window = n_lead + n;
        /* Text token t is predicted by the row before it, at t - begin + n_lead - 1. */
        s.first = scored ? scored - begin + n_lead - 1 : 0;
        result = otr_session_evaluate(session, &params, work, s.n_window, score_row, &s);
        if (s.not_finite) {
            code = eval_fail_not_finite(e);
            goto done;
        }
        if (result != OTR_OK || interrupt_signal()) {
            code = fail_result(&e->log, e->context, result ? result : OTR_ERROR_CANCELLED);
            goto done;
        }
        n_passed += s.n_window;
        scored = begin + n;
    }
    seconds = now_seconds() - start;
    progress_end(&s.shown);
    code = print_perplexity(e, settings, n_ids, window, &s,
                            seconds > 0.0 ? (double)n_passed / seconds : 0.0);
done:
    progress_end(&s.shown);
    interrupt_watch(NULL);
    otr_session_destroy(&session);
    free(work);
    return code;
}

/* `outrider eval --ids`: the logits of given tokens, and of a greedy continuation, summed up row by
 * row in the shape of the golden files that the tests compare with. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval.h"
#include "interrupt.h"
#include "output.h"

#define N_TOP 16 /* highest logits of a row that are shown */

struct rows {
    const struct eval_settings *settings;
    const int32_t *ids;
    json_t *array; /* NULL: a line of text per row */
    bool failed;   /* out of memory */
    bool not_finite;
};

/* The highest logits, ties by lower id; returns how many. */
static uint32_t find_top(const float *logits, uint32_t n_vocab, uint32_t top[N_TOP])
{
    uint32_t n = 0;

    for (uint32_t id = 0; id < n_vocab; id++) {
        uint32_t place = n;

        while (place > 0 && logits[id] > logits[top[place - 1]])
            place--;
        if (place == N_TOP)
            continue;
        n = n < N_TOP ? n + 1 : N_TOP;
        for (uint32_t i = n - 1; i > place; i--)
            top[i] = top[i - 1];
        top[place] = id;
    }
    return n;
}

static bool summarize_row(size_t row, const float *logits, uint32_t n_vocab, void *user)
{
    struct rows *r = user;
    uint32_t top[N_TOP], n_top;
    double sum = 0.0, squares = 0.0, mean, rms, log_sum = eval_logsumexp(logits, n_vocab);
    json_t *ids, *values, *object;
    int bad = 0;

    if (!isfinite(log_sum)) {
        r->not_finite = true;
        return false;
    }
    n_top = find_top(logits, n_vocab, top);
    for (uint32_t i = 0; i < n_vocab; i++) {
        sum += logits[i];
        squares += (double)logits[i] * logits[i];
    }
    mean = sum / n_vocab;
    rms = sqrt(squares / n_vocab);
    if (!r->array) {
        output_printf("%6zu %8" PRId32 "  ->%8" PRIu32 " %11.5f   logsumexp %11.5f   mean %9.5f   "
                      "rms %9.5f\n",
                      row, r->ids[row], top[0], logits[top[0]], log_sum, mean, rms);
        return output_flush() && !interrupt_signal();
    }
    ids = json_array();
    values = json_array();
    for (uint32_t i = 0; i < n_top; i++) {
        bad |= json_array_append_new(ids, json_integer(top[i]));
        bad |= json_array_append_new(values, json_real(logits[top[i]]));
    }
    object = json_pack("{s:o,s:o,s:f,s:f,s:f}", "top_ids", ids, "top_logits", values, "logsumexp",
                       log_sum, "mean", mean, "rms", rms);
    bad |= json_array_append_new(r->array, object);
    r->failed = bad != 0;
    return !bad && !interrupt_signal();
}

static json_t *id_array(const int32_t *ids, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(array, json_integer(ids[i]))) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* Appends the greedy continuation to *ids (grown); the session is rewound before. */
static int continue_greedily(engine *e, otr_session *session, int64_t n_predict, int32_t **ids,
                             size_t *n_ids)
{
    otr_generate_params params = otr_generate_params_default();
    const int32_t *all;
    int32_t *grown;
    size_t n_all;
    otr_result result;

    params.sampling.temperature = 0.0f;
    params.sampling.repeat_penalty = 1.0f;
    params.max_tokens = (int32_t)n_predict;
    params.draft_max = 0;
    params.plain_probes = 0;
    params.ignore_stop_tokens = true;
    result = otr_session_append(session, *ids, *n_ids, NULL, NULL);
    if (result == OTR_OK)
        result = otr_generate(session, &params, NULL, NULL, NULL);
    if (result == OTR_OK && interrupt_signal())
        result = OTR_ERROR_CANCELLED;
    if (result != OTR_OK)
        return fail_result(&e->log, e->context, result);
    all = otr_session_tokens(session, &n_all);
    grown = realloc(*ids, n_all * sizeof(*grown));
    if (!grown)
        return fail_memory();
    memcpy(grown, all, n_all * sizeof(*grown));
    *ids = grown;
    *n_ids = n_all;
    return EXIT_CODE_OK;
}

int eval_logits(engine *e, const struct eval_settings *settings, int32_t **ids, size_t n_ids)
{
    otr_session_params session_params = otr_session_params_default();
    otr_evaluate_params params = eval_params(settings);
    int64_t n_predict = settings->n_predict > 0 ? settings->n_predict : 0;
    struct rows r = {.settings = settings};
    const char *slash = strrchr(e->target_path, '/');
    const char *name = slash ? slash + 1 : e->target_path;
    otr_session *session = NULL;
    size_t n_all = n_ids;
    otr_result result;
    int code = EXIT_CODE_OK;

    if (n_ids == 0)
        return fail(EXIT_CODE_INPUT, "the text has no tokens");
    session_params.n_ctx = (uint32_t)settings->n_ctx;
    session_params.cache_type = settings->cache_type;
    if (!settings->n_ctx && n_ids + (size_t)n_predict <= UINT32_MAX)
        session_params.n_ctx = n_ids + (size_t)n_predict < 2
                                   ? 2
                                   : (uint32_t)(n_ids + (size_t)n_predict);
    result = otr_session_create(e->target, NULL, &session_params, &session);
    if (result != OTR_OK) {
        code = fail_result(&e->log, e->context, result);
        goto done;
    }
    interrupt_watch(session);
    if (n_predict) {
        code = continue_greedily(e, session, n_predict, ids, &n_all);
        if (code)
            goto done;
    }
    r.ids = *ids;
    r.array = settings->json ? json_array() : NULL;
    if (settings->json && !r.array) {
        code = fail_memory();
        goto done;
    }
    result = otr_session_evaluate(session, &params, *ids, n_all, summarize_row, &r);
    if (r.not_finite)
        code = eval_fail_not_finite(e);
    else if (r.failed)
        code = fail_memory();
    else if (result == OTR_ERROR_CANCELLED && !interrupt_signal())
        fail_result(&e->log, e->context, result); /* writing failed: output_finish says it */
    else if (result != OTR_OK || interrupt_signal())
        code = fail_result(&e->log, e->context, result ? result : OTR_ERROR_CANCELLED);
    if (code == EXIT_CODE_OK && settings->json) {
        json_t *object = json_pack("{s:o,s:o,s:o,s:o,s:O}", "model", json_text(name, strlen(name)),
                                   "device", json_text(e->device.name, strlen(e->device.name)),
                                   "prompt_ids", id_array(*ids, n_ids), "greedy_ids",
                                   id_array(*ids + n_ids, n_all - n_ids), "rows", r.array);

        code = output_json(object) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
    }
    code = output_finish(code);
done:
    json_decref(r.array);
    interrupt_watch(NULL);
    otr_session_destroy(&session);
    return code;
}

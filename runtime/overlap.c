/* How much of the draft's work disappears behind the target's: both alone and together, on the lanes
 * of a session as they are. Called when a session begins that has no stored result
 * (overlap_file.h), and by `outrider devices --overlap`. */
#include "overlap.h"

#include <string.h>

#include "overlap_file.h"

#define N_REPEATS 3

enum { TARGET_ALONE, DRAFT_ALONE, TOGETHER, N_CASES };

static double median_of_three(const double *x)
{
    double low = x[0] < x[1] ? x[0] : x[1], high = x[0] < x[1] ? x[1] : x[0];
    return x[2] < low ? low : x[2] > high ? high : x[2];
}

static otr_result start_target(otr_session *s, const otr_sampling *sampling)
{
    lane *l = s->target;
    submission *sub = &s->submission;

    measure_write_pass(l, sampling, s->n_tokens, OVERLAP_ROWS, OVERLAP_ROWS);
    submission_clear(sub);
    if (!lane_add_begin(l, sub, BEGIN_GENERATE) || !lane_add_begin(l, sub, BEGIN_REQUEST) ||
        !lane_add_layers(l, sub, PATH_ROWS) || !lane_add_output(l, sub, PATH_ROWS) ||
        !lane_add_sample(l, sub))
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a submission");
    return submission_start(sub, &l->place, "a measurement");
}

static otr_result start_draft(otr_session *s, const otr_sampling *sampling)
{
    session_cut_draft(s, s->n_tokens - 1);
    generate_write_sampling(s->draft, sampling);
    s->chain.new_parameters = true;
    chain_set_stops(s, NULL, NULL);
    return chain_start(s, s->n_tokens - 1, OVERLAP_STEPS);
}

static otr_result run_case(otr_session *s, int which, double *seconds)
{
    otr_sampling sampling = otr_sampling_default();
    uint64_t start = clock_ns();
    chain_result drafted;
    otr_result result = OTR_OK, waited = OTR_OK;
    bool is_started = false;

    sampling.temperature = 0;
    if (which != DRAFT_ALONE) {
        result = start_target(s, &sampling);
        is_started = result == OTR_OK;
    }
    if (which != TARGET_ALONE && result == OTR_OK)
        result = start_draft(s, &sampling);
    if (is_started)
        waited = submission_wait(&s->target->place, "a measurement", NULL);
    if (which != TARGET_ALONE && result == OTR_OK)
        result = chain_wait(s, &drafted, NULL);
    *seconds = (double)(clock_ns() - start) / 1e9;
    return result == OTR_OK ? waited : result;
}

/* With at least one token, caches filled, and room. */
static otr_result measure_cases(otr_session *s, otr_overlap *out)
{
    double seconds[N_CASES][N_REPEATS], median[N_CASES];
    otr_result result = OTR_OK;

    for (int i = -1; i < N_REPEATS && result == OTR_OK; i++) /* the first is for warming up */
        for (int which = 0; which < N_CASES && result == OTR_OK; which++)
            result = run_case(s, which, &seconds[which][i < 0 ? 0 : i]);
    if (result != OTR_OK)
        return result;
    for (int which = 0; which < N_CASES; which++)
        median[which] = median_of_three(seconds[which]);
    double shorter = median[TARGET_ALONE] < median[DRAFT_ALONE] ? median[TARGET_ALONE]
                                                                : median[DRAFT_ALONE];
    double hidden = median[TARGET_ALONE] + median[DRAFT_ALONE] - median[TOGETHER];
    out->target_seconds = median[TARGET_ALONE];
    out->draft_seconds = median[DRAFT_ALONE];
    out->together_seconds = median[TOGETHER];
    out->overlap = hidden < 0 ? 0 : hidden > shorter ? 1 : hidden / shorter;
    return OTR_OK;
}

otr_result overlap_measure(otr_session *s, otr_overlap *out)
{
    bool is_empty = s->n_tokens == 0;
    otr_result result;

    if (is_empty) { /* some text to stand on */
        s->tokens[0] = 0;
        s->n_tokens = 1;
    }
    result = session_prefill(s, s->target, s->n_tokens, NULL, NULL);
    if (result == OTR_OK)
        result = session_prefill(s, s->draft, s->n_tokens, NULL, NULL);
    if (result == OTR_OK)
        result = measure_cases(s, out);
    if (result == OTR_OK)
        overlap_file_store(s, out);
    session_cut_draft(s, s->n_tokens - 1);
    s->last_row = -1; /* the target's x buffer was written */
    if (is_empty)
        otr_session_rewind(s, 0);
    return result;
}

otr_result otr_session_measure_overlap(otr_session *s, otr_overlap *out)
{
    otr_overlap m = {0};

    if (!s)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!out || out->size < sizeof(size_t))
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_measure_overlap: the size of the result is not set");
    if (!s->draft)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT, "the session has no draft");
    if (s->n_ctx - s->n_tokens < OVERLAP_ROOM)
        return context_fail(s->context, OTR_ERROR_CONTEXT_FULL,
                            "measuring needs %d positions of the context's %u, %u are in use",
                            OVERLAP_ROOM, s->n_ctx, s->n_tokens);
    atomic_store(&s->cancelled, false);
    otr_result result = overlap_measure(s, &m);
    size_t size = out->size < sizeof m ? out->size : sizeof m;
    m.size = size;
    memcpy(out, &m, size);
    return result;
}

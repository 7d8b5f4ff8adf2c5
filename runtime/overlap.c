/* How much of the draft's work disappears behind the target's: both alone and together, on the lanes
 * of a session as they are. Called when a session begins and by `outrider devices
 * --overlap`. */
#include "overlap.h"

#include <string.h>

#include "median.h"
#include "overlap_file.h"

#define N_ROUNDS 3 /* at first */

static double median_of(const overlap_rounds *r, int which)
{
    double values[OVERLAP_MAX_ROUNDS];

    for (uint32_t i = 0; i < r->n; i++)
        values[i] = r->seconds[i][which];
    return median(values, r->n);
}

void overlap_of_rounds(const overlap_rounds *r, otr_overlap *out)
{
    double target = median_of(r, OVERLAP_TARGET), draft = median_of(r, OVERLAP_DRAFT);
    double shorter = target < draft ? target : draft;

    out->target_seconds = target;
    out->draft_seconds = draft;
    out->together_seconds = median_of(r, OVERLAP_TOGETHER);
    double hidden = target + draft - out->together_seconds;
    out->overlap = hidden < 0 ? 0 : hidden > shorter ? 1 : hidden / shorter;
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
    if (which != OVERLAP_DRAFT) {
        result = start_target(s, &sampling);
        is_started = result == OTR_OK;
    }
    if (which != OVERLAP_TARGET && result == OTR_OK)
        result = start_draft(s, &sampling);
    if (is_started)
        waited = submission_wait(&s->target->place, "a measurement", NULL);
    if (which != OVERLAP_TARGET && result == OTR_OK)
        result = chain_wait(s, &drafted, NULL);
    *seconds = (double)(clock_ns() - start) / 1e9;
    return result == OTR_OK ? waited : result;
}

/* With at least one token, caches filled, and room. */
static otr_result add_round(otr_session *s, overlap_rounds *r)
{
    otr_result result = OTR_OK;

    if (r->n == OVERLAP_MAX_ROUNDS)
        memmove(r->seconds[0], r->seconds[1], --r->n * sizeof r->seconds[0]);
    for (int which = 0; which < OVERLAP_CASES && result == OTR_OK; which++)
        result = run_case(s, which, &r->seconds[r->n][which]);
    r->n += result == OTR_OK;
    return result;
}

/* After one that warms up: a device that was idle begins slowly. */
static otr_result add_rounds(otr_session *s, overlap_rounds *r, uint32_t n)
{
    overlap_rounds warm_up = {0};
    otr_result result = add_round(s, &warm_up);

    for (uint32_t i = 0; i < n && result == OTR_OK; i++)
        result = add_round(s, r);
    return result;
}

/* Without rounds N_ROUNDS, else one more. Kept is what was measured at a text's start, where sessions
 * begin. */
static otr_result measure(otr_session *s, overlap_rounds *r, otr_overlap *out)
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
        result = add_rounds(s, r, r->n ? 1 : N_ROUNDS);
    if (result == OTR_OK) {
        overlap_of_rounds(r, out);
        if (is_empty)
            overlap_file_store(s, r);
    }
    session_cut_draft(s, s->n_tokens - 1);
    s->last_row = -1; /* the target's x buffer was written */
    if (is_empty)
        otr_session_rewind(s, 0);
    return result;
}

otr_result overlap_measure(otr_session *s, otr_overlap *out)
{
    overlap_rounds rounds = {0};
    return measure(s, &rounds, out);
}

otr_result overlap_learn(otr_session *s, otr_overlap *out)
{
    overlap_rounds rounds;

    if (!overlap_file_load(s, &rounds))
        rounds.n = 0;
    return measure(s, &rounds, out);
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

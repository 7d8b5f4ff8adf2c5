/* Runs a prompt with every setting of `outrider measure` (measure.h): plain, each K and auto one after
 * the other, beginning with another one each time, so that drift and a machine's mood meet all alike.
 * Each run begins with a rewound session. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interrupt.h"
#include "measure.h"

#define WARM_UP_TOKENS 12
#define PASS_ROUNDS 3
#define MIN_TOKENS 2

static bool run_reserve(measure_run *run, size_t more)
{
    size_t capacity = run->n_tokens + more;
    float *latency;
    char *origins;
    int32_t *replaced;

    if (capacity <= run->capacity)
        return true;
    capacity = capacity > 2 * run->capacity ? capacity + 64 : 2 * run->capacity;
    latency = realloc(run->latency_ms, capacity * sizeof(*latency));
    if (latency)
        run->latency_ms = latency;
    origins = realloc(run->origins, capacity + 2);
    if (origins)
        run->origins = origins;
    replaced = realloc(run->replaced, (capacity + 1) * sizeof(*replaced));
    if (replaced)
        run->replaced = replaced;
    if (!latency || !origins || !replaced)
        return false;
    run->capacity = capacity;
    return true;
}

struct watch {
    measure_run *run;
    bool failed; /* out of memory */
};

static void on_block(const otr_block *b, void *user)
{
    struct watch *w = user;
    measure_run *run = w->run;

    if (b->is_first)
        return;
    run->blocks_ms += b->total_ms;
    if (!b->drafted)
        run->off_ms += b->total_ms;
    if (w->failed || !run_reserve(run, b->n_tokens)) {
        w->failed = true;
        return;
    }
    for (uint32_t i = 0; i < b->n_tokens; i++) {
        /* To the microsecond, as the result keeps it. */
        run->latency_ms[run->n_tokens] = roundf(1e3f * b->latency_ms[i]) / 1e3f;
        run->origins[++run->n_tokens] = i < b->accepted            ? ORIGIN_ACCEPTED
                                        : !b->drafted              ? ORIGIN_PLAIN
                                        : b->accepted < b->drafted ? ORIGIN_REJECTED
                                                                   : ORIGIN_BONUS;
        run->replaced[run->n_tokens] = i == b->accepted ? b->rejected : -1;
    }
    run->origins[run->n_tokens + 1] = '\0';
}

static void take_stats(measure_run *run, const otr_stats *stats)
{
    run->seconds = stats->tokens_per_second > 0
                       ? (double)(stats->emitted - 1) / stats->tokens_per_second
                       : 0;
    run->ttft_ms = stats->ttft_ms;
    run->emitted = stats->emitted;
    run->blocks = stats->blocks;
    run->plain_blocks = stats->plain_blocks;
    run->pipelined_blocks = stats->pipelined_blocks;
    run->drafted = stats->drafted;
    run->verified = stats->verified;
    run->accepted = stats->accepted;
    run->discarded = stats->discarded;
    memcpy(run->verified_by_position, stats->verified_by_position,
           sizeof(run->verified_by_position));
    memcpy(run->accepted_by_position, stats->accepted_by_position,
           sizeof(run->accepted_by_position));
}

static otr_result fill_session(measure *m, size_t prompt)
{
    otr_result result = otr_session_rewind(m->session, 0);

    if (result == OTR_OK)
        result = otr_session_append(m->session, m->ids[prompt], m->n_ids[prompt], NULL, NULL);
    return result;
}

static otr_result generate(measure *m, size_t prompt, const measure_setting *setting,
                           int64_t max_tokens, measure_run *run)
{
    otr_generate_params params = otr_generate_params_default();
    otr_stats stats = {.size = sizeof(stats)};
    struct watch w = {.run = run};
    otr_result result = fill_session(m, prompt);

    params.sampling = m->sampling;
    if (m->data.prompts[prompt].temperature >= 0)
        params.sampling.temperature = (float)m->data.prompts[prompt].temperature;
    params.max_tokens = (int32_t)max_tokens;
    params.draft_max = setting->draft_max;
    params.schedule = m->schedule;
    params.drafters = setting->drafters;
    params.ignore_stop_tokens = m->ignore_eos;
    params.plain_probes = 0;
    params.on_block = on_block;
    params.block_user = &w;
    w.failed = !run_reserve(run, 1);
    if (!w.failed)
        memcpy(run->origins, (char[]){ORIGIN_FIRST, '\0'}, 2);
    if (result == OTR_OK)
        result = otr_generate(m->session, &params, NULL, NULL, &stats);
    if (result == OTR_OK && (stats.finish == OTR_FINISH_CANCELLED || interrupt_signal()))
        result = OTR_ERROR_CANCELLED;
    take_stats(run, &stats);
    return result == OTR_OK && w.failed ? OTR_ERROR_OUT_OF_MEMORY : result;
}

int64_t measure_wanted_tokens(const measure *m, size_t prompt)
{
    int64_t own = m->data.prompts[prompt].max_tokens;

    return own && own < m->n_predict ? own : m->n_predict;
}

otr_result measure_warm_up(measure *m)
{
    otr_result result = OTR_OK;

    for (size_t i = 0; i < m->n_settings && result == OTR_OK; i++) {
        measure_record record = {0};

        result = generate(m, 0, &m->settings[i], WARM_UP_TOKENS, &record.runs[0]);
        measure_record_free(&record);
    }
    return result;
}

/* --------------------------------------------------------------------------- single passes */

static otr_result pass(measure *m, otr_evaluate_path path, uint32_t rows, bool use_draft,
                       double *ms)
{
    otr_measure_params params = otr_measure_params_default();
    otr_measurement measured = {.size = sizeof(measured)};
    otr_result result;

    params.path = path;
    params.rows = rows;
    params.use_draft = use_draft;
    params.sampling = m->sampling;
    result = otr_session_measure(m->session, &params, &measured);
    *ms = 1e3 * measured.seconds;
    return result == OTR_OK && interrupt_signal() ? OTR_ERROR_CANCELLED : result;
}

/* Fills the draft's cache with the prompt, as a generation's first block does: what the first pass takes
 * beyond itself. */
static otr_result measure_draft_prefill(measure *m, double *ms)
{
    double start = now_seconds(), step = 0;
    otr_result result = pass(m, OTR_EVALUATE_ROWS, 1, true, &step);
    double whole = 1e3 * (now_seconds() - start);

    *ms = whole > step ? whole - step : 0;
    return result;
}

/* Whether a setting's blocks, or a plain step, have so many rows. */
static bool is_used(const measure *m, uint32_t rows)
{
    for (size_t i = 0; i < m->n_settings; i++)
        if (m->settings[i].draft_max + 1 == rows)
            return true;
    return false;
}

/* Mean times of passes behind the prompt: those of the settings' blocks in several rounds, the rest of
 * the curve once. Means, since a generation's time is one. */
static otr_result measure_passes(measure *m, measure_record *record, size_t prompt)
{
    otr_result result = fill_session(m, prompt);
    double ms = 0;

    if (result == OTR_OK && m->e->draft)
        result = measure_draft_prefill(m, &record->draft_prefill_ms);
    for (int round = 0; round < PASS_ROUNDS; round++) {
        for (uint32_t rows = 1; rows <= MEASURE_MAX_ROWS && result == OTR_OK; rows++) {
            bool used = is_used(m, rows);

            if (!used && round)
                continue;
            result = pass(m, OTR_EVALUATE_ROWS, rows, false, &ms);
            record->row_ms[rows - 1] += ms / (used ? PASS_ROUNDS : 1);
        }
        if (result == OTR_OK && m->e->draft) {
            result = pass(m, OTR_EVALUATE_ROWS, 1, true, &ms);
            record->draft_ms += ms / PASS_ROUNDS;
        }
        if (result != OTR_OK)
            return result;
    }
    return OTR_OK;
}

/* -------------------------------------------------------------------------------- a prompt */

/* What `id` adds to the text of the token before it: some tokenisers drop the space that begins a text. A
 * character of several tokens shows as U+FFFD. False when memory runs out. */
static bool piece_of(measure *m, int32_t before, int32_t id, char **piece)
{
    const int32_t ids[] = {before, id};
    size_t n_before = 0, n = 0;
    otr_result result = otr_detokenize(m->e->target, ids, 1, NULL, 0, &n_before);

    if (result == OTR_OK)
        result = otr_detokenize(m->e->target, ids, 2, NULL, 0, &n);
    *piece = calloc(n + 1, 1);
    if (result != OTR_OK || !*piece)
        return false;
    result = otr_detokenize(m->e->target, ids, 2, *piece, n, &n);
    n_before = n_before < n ? n_before : n;
    memmove(*piece, *piece + n_before, n - n_before + 1);
    return result == OTR_OK;
}

/* Texts of the drafted tokens that the target replaced in an output, whose first token nobody drafted. */
static bool keep_rejected(measure *m, measure_run *run, const int32_t *ids)
{
    size_t n = 0;

    run->rejected = calloc(run->n_tokens + 1, sizeof(*run->rejected));
    for (size_t i = 1; run->rejected && i <= run->n_tokens; i++)
        if (run->origins[i] == ORIGIN_REJECTED &&
            !piece_of(m, ids[i - 1], run->replaced[i], &run->rejected[n++]))
            return false;
    return run->rejected != NULL;
}

static bool keep_pieces(measure *m, measure_record *record, const int32_t *ids, size_t n)
{
    int32_t before = m->ids[record->prompt][record->n_ids - 1];

    record->pieces = calloc(n + 1, sizeof(*record->pieces));
    for (size_t i = 0; record->pieces && i < n; before = ids[i++])
        if (!piece_of(m, before, ids[i], &record->pieces[i]))
            return false;
    for (size_t i = 0; i < m->n_settings; i++)
        if (!keep_rejected(m, &record->runs[i], ids))
            return false;
    return record->pieces != NULL;
}

/* Compares the session's output with the first setting's. */
static bool is_same(measure *m, size_t prompt, const measure_setting *setting, int32_t **expected,
                    size_t *n_expected)
{
    size_t n_all, n_prompt = m->n_ids[prompt], at = 0;
    const int32_t *ids = otr_session_tokens(m->session, &n_all) + n_prompt;
    char name[24];

    n_all -= n_prompt;
    if (!*expected) {
        *expected = malloc((n_all + 1) * sizeof(**expected));
        if (*expected)
            memcpy(*expected, ids, n_all * sizeof(**expected));
        *n_expected = n_all;
        return *expected != NULL;
    }
    while (at < n_all && at < *n_expected && ids[at] == (*expected)[at])
        at++;
    if (at == n_all && at == *n_expected)
        return true;
    fail(
        EXIT_CODE_FAILED,
        "%s: the text with %s differs from that of another setting at token %zu; that must not be: "
        "'outrider selftest' may tell why",
        m->data.prompts[prompt].source, measure_setting_name(setting, name), at + 1);
    return false;
}

otr_result measure_prompt_run(measure *m, size_t prompt, measure_record *record, bool *same,
                              bool *is_short)
{
    int32_t *expected = NULL;
    size_t n_expected = 0, n = m->n_settings;
    otr_result result = OTR_OK;

    /* Every second prompt in the reverse order: what one setting leaves to the next (caches, a clock that
     * rises) hits its neighbours on both sides. */
    size_t first = prompt / 2 % n, stride = prompt % 2 ? n - 1 : 1;

    *record = (measure_record){.prompt = prompt, .n_ids = m->n_ids[prompt]};
    *same = true;
    *is_short = false;
    for (size_t i = 0; i < n && result == OTR_OK && *same && !*is_short; i++) {
        size_t k = (first + i * stride) % n;

        result = generate(m, prompt, &m->settings[k], measure_wanted_tokens(m, prompt),
                          &record->runs[k]);
        if (result != OTR_OK)
            break;
        *same = is_same(m, prompt, &m->settings[k], &expected, &n_expected);
        *is_short = record->runs[k].emitted < MIN_TOKENS;
    }
    if (result == OTR_OK && *same && !*is_short) {
        result = measure_passes(m, record, prompt);
        if (result == OTR_OK && m->keeps_text && !keep_pieces(m, record, expected, n_expected))
            result = OTR_ERROR_OUT_OF_MEMORY;
    }
    free(expected);
    if (result != OTR_OK || !*same || *is_short)
        measure_record_free(record);
    return result;
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts && texts[i]; i++)
        free(texts[i]);
    free(texts);
}

void measure_record_free(measure_record *record)
{
    for (size_t i = 0; i < MEASURE_MAX_SETTINGS; i++) {
        free(record->runs[i].latency_ms);
        free(record->runs[i].origins);
        free(record->runs[i].replaced);
        free_texts(record->runs[i].rejected);
    }
    free_texts(record->pieces);
    *record = (measure_record){0};
}

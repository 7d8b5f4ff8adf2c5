/* otr_tune: chooses workgroup shapes by measuring them. Setting by setting, each choice is compared
 * with the best so far: two sessions of the model take turns with the kernels that the setting
 * shapes, recorded by themselves from the model's own passes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "median.h"
#include "params.h"
#include "record.h"
#include "session.h"
#include "tuning_file.h"

#define MIN_ROUNDS 9
#define MAX_ROUNDS 41
/* Clearly better: in the median of all rounds by this, in three of four rounds at all, and in no
 * pass much worse. */
#define BETTER 0.97
#define MUCH_WORSE 1.05
/* A measurement is repeated up to the first, and cut to fewer layers down to the second. */
#define LEAST_MS 4.0
#define MOST_MS 60.0
#define MAX_REPEATS 32
/* Rows of a prefill: enough that tiles are full; few on software devices, which take long. */
#define PREFILL_ROWS 256
#define PREFILL_ROWS_OF_CPU 32
/* The same where the setting is how many of them a pass takes. */
#define PROMPT_ROWS 512
#define PROMPT_ROWS_OF_CPU 256

enum pass { PASS_DECODE, PASS_ROWS, PASS_PREFILL, N_PASSES };
static const enum lane_path path_of[N_PASSES] = {PATH_ONE, PATH_ROWS, PATH_PREFILL};

/* A session with some shapes, and the commands of the setting's kernels. */
typedef struct trial {
    otr_session *session;
    uint32_t n_groups;                   /* embed, the layers, output, sample */
    VkCommandBuffer *commands[N_PASSES]; /* [n_groups] */
} trial;

typedef struct tuner {
    otr_model *model;
    otr_tune_params params;
    otr_tune_callback on_result;
    void *user;
    const tuning_setting *setting;
    uint32_t rows[N_PASSES];     /* 0: no part of the setting */
    uint32_t n_layers[N_PASSES]; /* that are measured */
    uint32_t repeats[N_PASSES];
    double ms[N_PASSES]; /* of a group, about */
    float *logits[2];    /* of the best so far, and of what is compared with it */
    uint64_t done, total;
} tuner;

/* What came out of a comparison. */
typedef struct comparison {
    double seconds[2][N_PASSES]; /* medians: best so far, and other */
    double ratio;
    bool is_better, is_alike;
    char problem[256]; /* why the other can't be measured, or "" */
} comparison;

otr_tune_params otr_tune_params_default(void)
{
    return (otr_tune_params){.size = sizeof(otr_tune_params), .seconds = 1};
}

static otr_result out_of_memory(const tuner *t)
{
    return context_fail(t->model->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for tuning");
}

/* --------------------------------------------------------------------------------- trials */

static void trial_destroy(trial *r)
{
    otr_session_destroy(&r->session);
    for (int pass = 0; pass < N_PASSES; pass++)
        free(r->commands[pass]);
    *r = (trial){0};
}

/* The kernels' own part of each pass, group by group. */
static otr_result record_trial(const tuner *t, trial *r)
{
    lane *l = r->session->target;
    uint32_t n_layers = t->model->h.n_layers;
    otr_result result = OTR_OK;

    r->n_groups = n_layers + 3;
    for (int pass = 0; pass < N_PASSES && result == OTR_OK; pass++) {
        VkCommandBuffer *commands = calloc(r->n_groups, sizeof(VkCommandBuffer));
        enum lane_path path = path_of[pass];

        r->commands[pass] = commands;
        if (!commands)
            return out_of_memory(t);
        if (!t->rows[pass])
            continue;
        result = record_kinds(l, &l->embed, path, t->setting->kinds, &commands[0]);
        for (uint32_t i = 0; i < n_layers && result == OTR_OK; i++)
            result = record_kinds(l, &l->layers[i], path, t->setting->kinds, &commands[1 + i]);
        if (pass == PASS_PREFILL)
            continue; /* has no logits */
        if (result == OTR_OK)
            result = record_kinds(l, &l->output, path, t->setting->kinds, &commands[n_layers + 1]);
        if (result == OTR_OK)
            result = record_kinds(l, &l->sample, PATH_ROWS, t->setting->kinds,
                                  &commands[n_layers + 2]);
    }
    return result;
}

static otr_result trial_create(const tuner *t, const tuning *shapes, trial *r)
{
    otr_session_params params = otr_session_params_default();
    otr_result result;

    *r = (trial){0};
    params.n_ctx = PROMPT_ROWS;
    /* As many as a session would take only where that is what is measured: it costs memory. */
    params.prefill_rows = t->setting->kinds == OPERATION_ALL ? shapes->prefill_rows
                                                             : t->rows[PASS_PREFILL];
    if (!params.prefill_rows)
        params.prefill_rows = MAX_ROWS;
    result = session_create(t->model, NULL, &params, shapes, &r->session);
    if (result == OTR_OK)
        result = record_trial(t, r);
    if (result != OTR_OK)
        trial_destroy(r);
    return result;
}

/* ------------------------------------------------------------------------------ same bits */

static uint32_t logits_of(const tuner *t)
{
    return N_PASSES * MAX_ROWS * t->model->h.n_vocab;
}

/* Logits of a whole pass of each path. */
static otr_result take_logits(const tuner *t, const trial *r, float *out)
{
    const otr_sampling sampling = otr_sampling_default();
    const uint32_t rows[N_PASSES] = {1, MAX_ROWS, 2 * MAX_ROWS}, n_vocab = t->model->h.n_vocab;
    otr_session *s = r->session;
    lane *l = s->target;
    submission *sub = &s->submission;
    otr_result result = OTR_OK;

    for (int pass = 0; pass < N_PASSES && result == OTR_OK; pass++) {
        uint32_t n_rows = rows[pass] < l->prefill_rows || pass != PASS_PREFILL ? rows[pass]
                                                                               : l->prefill_rows;
        uint32_t n_out = n_rows < MAX_ROWS ? n_rows : MAX_ROWS;

        measure_write_pass(l, &sampling, 0, n_rows, n_out);
        submission_clear(sub);
        if (!lane_add_begin(l, sub, BEGIN_GENERATE) || !lane_add_begin(l, sub, BEGIN_REQUEST) ||
            !lane_add_layers(l, sub, path_of[pass]) ||
            !lane_add_output(l, sub, pass == PASS_DECODE ? PATH_ONE : PATH_ROWS) ||
            !lane_add_copy_logits(l, sub))
            return out_of_memory(t);
        result = submission_run(sub, &s->target->place, "tuning", NULL);
        for (uint32_t row = 0; row < n_out && result == OTR_OK; row++)
            memcpy(out + (size_t)(pass * MAX_ROWS + row) * n_vocab,
                   (const float *)l->logits_host.mapped + (size_t)row * l->logits_stride,
                   n_vocab * sizeof *out);
    }
    return result;
}

/* ------------------------------------------------------------------------------ measuring */

/* Seconds of the setting's kernels in one pass of a trial. */
static otr_result measure(const tuner *t, const trial *r, enum pass pass, double *seconds)
{
    const otr_sampling sampling = otr_sampling_default();
    otr_session *s = r->session;
    lane *l = s->target;
    submission *sub = &s->submission;
    const uint32_t n_rows = t->rows[pass], n_skipped = t->model->h.n_layers - t->n_layers[pass];
    otr_result result = OTR_OK;
    uint64_t start = clock_ns();

    for (uint32_t done = 0; done < n_rows && result == OTR_OK;) {
        uint32_t left = n_rows - done;
        uint32_t rows = pass != PASS_PREFILL || left < l->prefill_rows ? left : l->prefill_rows;
        bool ok;

        measure_write_pass(l, &sampling, done, rows, pass == PASS_PREFILL ? 0 : rows);
        submission_clear(sub);
        ok = lane_add_begin(l, sub, BEGIN_GENERATE) && lane_add_begin(l, sub, BEGIN_REQUEST);
        for (uint32_t i = 0; i < t->repeats[pass]; i++)
            for (uint32_t k = 0; k < r->n_groups && ok; k++) /* left out: the first layers */
                if (k < 1 || k > n_skipped)
                    ok = submission_add(sub, r->commands[pass][k], t->ms[pass]);
        if (!ok)
            return out_of_memory(t);
        result = submission_run(sub, &s->target->place, "tuning", NULL);
        done += rows;
    }
    *seconds = (double)(clock_ns() - start) / 1e9 / t->repeats[pass];
    return result;
}

/* How many layers and repeats make a measurement of a fitting length. */
static otr_result choose_lengths(tuner *t, const trial *r)
{
    const uint32_t n_layers = t->model->h.n_layers;
    otr_result result = OTR_OK;

    for (int pass = 0; pass < N_PASSES && result == OTR_OK; pass++) {
        double ms = 0;

        t->n_layers[pass] = n_layers;
        t->repeats[pass] = 1;
        t->ms[pass] = SUBMISSION_UNKNOWN_MS;
        for (int i = 0; i < 2 && t->rows[pass] && result == OTR_OK; i++) { /* the first warms up */
            double seconds;

            result = measure(t, r, (enum pass)pass, &seconds);
            ms = seconds * 1e3;
        }
        if (ms > MOST_MS)
            t->n_layers[pass] = (uint32_t)fmax(1, n_layers * MOST_MS / ms);
        else
            t->repeats[pass] = (uint32_t)fmin(MAX_REPEATS, ceil(LEAST_MS / fmax(ms, 1e-3)));
        t->ms[pass] = ms / (n_layers + 1);
    }
    return result;
}

static otr_result cancelled(const tuner *t)
{
    return context_fail(t->model->context, OTR_ERROR_CANCELLED, "tuning was cancelled");
}

/* Tenths of a choice that are done. */
static bool progress(const tuner *t, uint32_t tenths)
{
    return !t->params.on_progress ||
           t->params.on_progress(t->done * 10 + tenths, t->total * 10, t->params.progress_user);
}

/* Both take turns; what goes first changes from round to round. */
static otr_result compare(tuner *t, const trial *best, const trial *other, comparison *out)
{
    double seconds[2][N_PASSES][MAX_ROUNDS], ratios[N_PASSES][MAX_ROUNDS], scores[MAX_ROUNDS];
    const trial *const trials[2] = {best, other};
    uint64_t start = clock_ns();
    otr_result result = OTR_OK;
    size_t n = 0, n_won = 0;
    double age = 0, worst = 0;

    while (n < MAX_ROUNDS && (n < MIN_ROUNDS || age < t->params.seconds)) {
        double score = 0;
        int n_passes = 0;

        for (int pass = 0; pass < N_PASSES; pass++) {
            if (!t->rows[pass])
                continue;
            for (int turn = 0; turn < 2 && result == OTR_OK; turn++) {
                int which = turn ^ (int)(n & 1);
                result = measure(t, trials[which], (enum pass)pass, &seconds[which][pass][n]);
            }
            if (result != OTR_OK)
                return result;
            ratios[pass][n] = seconds[1][pass][n] / seconds[0][pass][n];
            score += log(ratios[pass][n]);
            n_passes++;
        }
        scores[n] = exp(score / n_passes);
        n_won += scores[n] < 1;
        n++;
        age = (double)(clock_ns() - start) / 1e9;
        if (!progress(t, (uint32_t)(10 * fmin(1, fmin((double)n / MIN_ROUNDS,
                                                      age / fmax(t->params.seconds, 1e-9))))))
            return cancelled(t);
    }
    for (int pass = 0; pass < N_PASSES; pass++)
        if (t->rows[pass]) {
            worst = fmax(worst, median(ratios[pass], n));
            for (int which = 0; which < 2; which++)
                out->seconds[which][pass] = median(seconds[which][pass], n);
        }
    out->ratio = median(scores, n);
    out->is_better = out->ratio < BETTER && n_won * 4 >= n * 3 && worst < MUCH_WORSE;
    return result;
}

/* ------------------------------------------------------------------------------- settings */

/* What a driver says of a pipeline that it can't compile, or that needs too much: the end of the choice,
 * not of the device. */
static bool is_refusal(otr_result result)
{
    return result == OTR_ERROR_DEVICE || result == OTR_ERROR_UNSUPPORTED ||
           result == OTR_ERROR_OUT_OF_MEMORY;
}

/* One choice against the best so far. */
static otr_result try_choice(tuner *t, const trial *best, const tuning *shapes, comparison *out)
{
    trial other;
    otr_result result = trial_create(t, shapes, &other);

    if (is_refusal(result)) {
        otr_error_message(t->model->context, out->problem, sizeof out->problem);
        return OTR_OK;
    }
    if (result == OTR_OK)
        result = take_logits(t, &other, t->logits[1]);
    if (result == OTR_OK) {
        /* A driver that compiles another order of a sum: nothing that we choose may show. */
        out->is_alike = !memcmp(t->logits[0], t->logits[1], logits_of(t) * sizeof(float));
        result = compare(t, best, &other, out);
    }
    trial_destroy(&other);
    return result;
}

static void choose_rows(tuner *t)
{
    bool is_cpu = t->model->gpu->is_cpu, is_prompt = t->setting->kinds == OPERATION_ALL;

    t->rows[PASS_DECODE] = t->setting->in_decode ? 1 : 0;
    t->rows[PASS_ROWS] = t->setting->in_rows ? MAX_ROWS : 0;
    t->rows[PASS_PREFILL] = !t->setting->in_prefill ? 0
                            : is_prompt             ? (is_cpu ? PROMPT_ROWS_OF_CPU : PROMPT_ROWS)
                                                    : (is_cpu ? PREFILL_ROWS_OF_CPU : PREFILL_ROWS);
}

/* Why it can't be chosen, or "". */
static const char *objection(const comparison *found)
{
    if (found->problem[0])
        return found->problem;
    return found->is_alike ? "" : "gives other results on this device";
}

static void report(const tuner *t, const tuning *choices, const comparison *found, uint32_t n,
                   uint32_t chosen)
{
    double first[N_PASSES] = {0};
    uint32_t n_measured = 0;

    for (uint32_t i = 1; i < n; i++)
        n_measured += !found[i].problem[0];
    /* The first was measured beside every other one. */
    for (uint32_t i = 1; i < n; i++)
        for (int pass = 0; pass < N_PASSES && !found[i].problem[0]; pass++)
            first[pass] += found[i].seconds[0][pass] / n_measured;
    for (uint32_t i = 0; i < n && t->on_result; i++) {
        const double *seconds = i ? found[i].seconds[1] : first;
        char choice[64];

        tuning_describe(&choices[i], t->setting, choice, sizeof choice);
        t->on_result(
            &(otr_tune_result){
                .setting = t->setting->name,
                .choice = choice,
                .is_default = i == 0,
                .chosen = i == chosen,
                .decode_s = seconds[PASS_DECODE],
                .rows_s = seconds[PASS_ROWS],
                .prefill_s = seconds[PASS_PREFILL],
                .ratio = i ? found[i].ratio : 1,
                .detail = i ? objection(&found[i]) : "",
            },
            t->user);
    }
}

/* Chooses one setting; *shapes becomes what is best. */
static otr_result tune_setting(tuner *t, tuning *shapes)
{
    tuning choices[TUNING_MAX_CHOICES];
    comparison found[TUNING_MAX_CHOICES] = {0};
    uint32_t n = tuning_choices(t->model->gpu, shapes, t->setting, choices), chosen = 0;
    trial best = {0};
    otr_result result;

    if (n < 2)
        return OTR_OK;
    choose_rows(t);
    result = trial_create(t, shapes, &best);
    if (result == OTR_OK)
        result = take_logits(t, &best, t->logits[0]);
    if (result == OTR_OK)
        result = choose_lengths(t, &best);
    for (uint32_t i = 1; i < n && result == OTR_OK; i++) {
        if (!progress(t, 0))
            result = cancelled(t);
        else
            result = try_choice(t, &best, &choices[i], &found[i]);
        if (result == OTR_OK && found[i].is_alike && found[i].is_better &&
            (!chosen || found[i].ratio < found[chosen].ratio))
            chosen = i;
        t->done++;
    }
    trial_destroy(&best);
    if (result != OTR_OK)
        return result;
    *shapes = choices[chosen];
    report(t, choices, found, n, chosen);
    return OTR_OK;
}

otr_result otr_tune(otr_model *model, const otr_tune_params *params, otr_tune_callback on_result,
                    void *user)
{
    tuner t = {.model = model, .on_result = on_result, .user = user};
    tuning shapes;
    otr_result result;

    if (!model)
        return OTR_ERROR_INVALID_ARGUMENT;
    t.params = otr_tune_params_default();
    if (!params_take(&t.params, sizeof t.params, params) || !(t.params.seconds >= 0))
        return context_fail(model->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_tune: the size of the params is not set, or seconds is negative");
    shapes = *tuning_of_gpu(model->gpu);
    /* Not after minutes. */
    result = tuning_file_store(model->gpu, &shapes, true);
    if (result != OTR_OK)
        return result;
    for (size_t i = 0; i < N_TUNING_SETTINGS; i++) {
        tuning choices[TUNING_MAX_CHOICES];
        uint32_t n = tuning_choices(model->gpu, &shapes, &tuning_settings[i], choices);
        t.total += n ? n - 1 : 0;
    }
    for (int i = 0; i < 2; i++)
        if (!(t.logits[i] = calloc(logits_of(&t), sizeof(float))))
            result = out_of_memory(&t);
    for (size_t i = 0; i < N_TUNING_SETTINGS && result == OTR_OK; i++) {
        t.setting = &tuning_settings[i];
        result = tune_setting(&t, &shapes);
    }
    if (result == OTR_OK && !progress(&t, 0))
        result = cancelled(&t);
    if (result == OTR_OK)
        result = tuning_file_store(model->gpu, &shapes, false);
    if (result == OTR_OK)
        tuning_set(model->gpu, &shapes);
    for (int i = 0; i < 2; i++)
        free(t.logits[i]);
    return result;
}

otr_result otr_tune_reset(otr_context *context, uint32_t device_index, bool *existed)
{
    bool unused;
    gpu *g;
    otr_result result;

    if (!context)
        return OTR_ERROR_INVALID_ARGUMENT;
    result = gpu_open(context, device_index, false, &g);
    if (result != OTR_OK)
        return result;
    result = tuning_file_remove(g, existed ? existed : &unused);
    if (result == OTR_OK)
        tuning_set(g, tuning_of_gpu(g));
    gpu_close(&g);
    return result;
}

/* The conclusions of `outrider measure` (measure.h), a JSON object that all forms of the report show:
 * what was measured on what, and for each task and overall the verdict and the numbers behind it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "measure_stats.h"
#include "output.h"

/* ------------------------------------------------------------------------------------ sums */

/* The records of a task, or all of them. */
typedef struct group {
    const measure *m;
    const measure_record **records;
    size_t n;
    double *logs, *hits, *trials; /* [n], to work with */
} group;

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *interval_json(interval x)
{
    return json_pack("{s:o,s:o,s:o}", "estimate", number_json(x.estimate), "low",
                     number_json(x.low), "high", number_json(x.high));
}

static interval speedup_of(group *g, size_t setting, size_t base)
{
    for (size_t i = 0; i < g->n; i++)
        g->logs[i] = log(g->records[i]->runs[base].seconds / g->records[i]->runs[setting].seconds);
    return interval_of_logs(g->logs, g->n);
}

static interval acceptance_of(group *g, size_t setting)
{
    for (size_t i = 0; i < g->n; i++) {
        g->hits[i] = (double)g->records[i]->runs[setting].accepted;
        g->trials[i] = (double)g->records[i]->runs[setting].verified;
    }
    return interval_of_share(g->hits, g->trials, g->n);
}

static bool is_by_ngram(const measure_setting *setting)
{
    return strcmp(setting->drafter, "ngram") == 0;
}

/* v(n): time of all prompts' passes of n rows by that of the plain ones beside them. */
static double verify_cost_of(const group *g, size_t rows)
{
    double of_rows = 0, plain = 0;

    for (size_t i = 0; i < g->n; i++) {
        of_rows += g->records[i]->row_ms[rows - 1];
        plain += g->records[i]->row_ms[0];
    }
    return of_rows / plain;
}

/* The same of a mean of rows, between two whole numbers on a straight line. */
static double verify_cost_between(const group *g, double rows)
{
    size_t below = (size_t)rows;
    double share = rows - (double)below;

    if (below >= MEASURE_MAX_ROWS)
        return verify_cost_of(g, MEASURE_MAX_ROWS);
    return (1 - share) * verify_cost_of(g, below) + share * verify_cost_of(g, below + 1);
}

/* NaN without a draft model. */
static double cost_ratio_of(const group *g)
{
    double draft = 0, plain = 0;

    if (!g->m->e->draft)
        return NAN;
    for (size_t i = 0; i < g->n; i++) {
        draft += g->records[i]->draft_ms;
        plain += g->records[i]->row_ms[0];
    }
    return draft / plain;
}

/* Rows of the blocks that n-gram lookup proposed something for; 1: it never did. */
static double rows_by_ngram(const measure_run *run)
{
    uint64_t drafting = run->blocks - run->plain_blocks;

    return drafting ? 1 + (double)run->drafted / (double)drafting : 1;
}

/* n-gram lookup proposes nothing in some blocks and fewer than K tokens in others, so that the shares of
 * blocks and the tokens that they brought stand in for alpha and K; the lookup costs nothing. */
static double prediction_by_ngram(group *g, size_t setting)
{
    for (size_t i = 0; i < g->n; i++) {
        const measure_run *run = &g->records[i]->runs[setting];
        double plain = (double)run->plain_blocks, drafting = (double)run->blocks - plain;
        double cost = verify_cost_between(g, rows_by_ngram(run));

        g->logs[i] = log((double)(run->accepted + run->blocks) / (plain + drafting * cost));
    }
    return interval_of_logs(g->logs, g->n).estimate;
}

/* From counters and the times of single passes, without those of the generations: the geometric mean over
 * prompts, as the measured speed-up is one. */
static double prediction_by_model(group *g, size_t setting)
{
    uint32_t k = g->m->settings[setting].draft_max;
    double v = verify_cost_of(g, k + 1), c = cost_ratio_of(g);
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++) {
        const measure_record *r = g->records[i];
        const measure_run *run = &r->runs[setting];
        double share = r->draft_prefill_ms / r->row_ms[0] / (double)run->n_tokens;

        if (run->verified)
            g->logs[n++] = log(
                predicted_speedup((double)run->accepted / (double)run->verified, v, c, k, share));
    }
    return n ? interval_of_logs(g->logs, n).estimate : NAN;
}

static json_t *latency_json(group *g, size_t setting)
{
    double p[N_PERCENTILES];
    size_t n = 0, at = 0;
    float *values;

    for (size_t i = 0; i < g->n; i++)
        n += g->records[i]->runs[setting].n_tokens;
    values = calloc(n + 1, sizeof(*values));
    if (!values)
        return NULL;
    for (size_t i = 0; i < g->n; i++) {
        const measure_run *run = &g->records[i]->runs[setting];

        memcpy(values + at, run->latency_ms, run->n_tokens * sizeof(*values));
        at += run->n_tokens;
    }
    percentiles(values, n, p);
    free(values);
    return json_pack("{s:f,s:f,s:f,s:f}", "p50", p[0], "p95", p[1], "p99", p[2], "max", p[3]);
}

static measure_run sum_of(const group *g, size_t setting)
{
    measure_run sum = {0};

    for (size_t i = 0; i < g->n; i++) {
        const measure_run *run = &g->records[i]->runs[setting];

        sum.seconds += run->seconds;
        sum.blocks_ms += run->blocks_ms;
        sum.off_ms += run->off_ms;
        sum.emitted += run->emitted;
        sum.blocks += run->blocks;
        sum.plain_blocks += run->plain_blocks;
        sum.pipelined_blocks += run->pipelined_blocks;
        sum.drafted += run->drafted;
        sum.verified += run->verified;
        sum.accepted += run->accepted;
        sum.discarded += run->discarded;
        sum.n_tokens += run->n_tokens;
        for (size_t k = 0; k < OTR_MAX_DRAFT; k++) {
            sum.verified_by_position[k] += run->verified_by_position[k];
            sum.accepted_by_position[k] += run->accepted_by_position[k];
        }
    }
    return sum;
}

static json_t *positions_json(const measure_run *sum)
{
    json_t *list = json_array();

    for (size_t k = 0; k < OTR_MAX_DRAFT && sum->verified_by_position[k]; k++)
        json_array_append_new(list, json_real((double)sum->accepted_by_position[k] /
                                              (double)sum->verified_by_position[k]));
    return list;
}

static json_t *counters_json(const measure_run *sum)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "emitted", (json_int_t)sum->emitted,
                     "blocks", (json_int_t)sum->blocks, "plain_blocks",
                     (json_int_t)sum->plain_blocks, "drafted", (json_int_t)sum->drafted, "verified",
                     (json_int_t)sum->verified, "accepted", (json_int_t)sum->accepted, "discarded",
                     (json_int_t)sum->discarded, "pipelined_blocks",
                     (json_int_t)sum->pipelined_blocks);
}

static double tau_of(const measure_run *sum)
{
    uint64_t speculative = sum->blocks - sum->plain_blocks;

    return speculative ? 1 + (double)sum->accepted / (double)speculative : NAN;
}

/* v of a block's rows: K + 1, or what n-gram lookup proposed on average and one. NaN: it never did. */
static double block_cost_of(const group *g, const measure_setting *setting, const measure_run *sum)
{
    if (!is_by_ngram(setting))
        return verify_cost_of(g, setting->draft_max + 1);
    return sum->blocks > sum->plain_blocks ? verify_cost_between(g, rows_by_ngram(sum)) : NAN;
}

static json_t *setting_json(group *g, size_t setting)
{
    const measure_setting *s = &g->m->settings[setting];
    measure_run sum = sum_of(g, setting);
    bool is_auto = s->draft_max == OTR_DRAFT_AUTO, is_fixed = s->draft_max && !is_auto;
    double predicted = NAN, cost = is_fixed ? block_cost_of(g, s, &sum) : NAN, even = NAN;
    char name[24];

    /* How much of a pipelined draft's time is hidden, the times of single passes don't tell. */
    if (is_fixed && !sum.pipelined_blocks) {
        predicted = is_by_ngram(s) ? prediction_by_ngram(g, setting)
                                   : prediction_by_model(g, setting);
        even = is_by_ngram(s) ? cost : break_even_tokens(cost, cost_ratio_of(g), s->draft_max);
    }
    return json_pack("{s:s,s:s,s:I,s:o,s:o,s:f,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "name",
                     measure_setting_name(s, name), "drafter", s->drafter, "draft_max",
                     is_auto ? (json_int_t)-1 : (json_int_t)s->draft_max, "speedup",
                     interval_json(speedup_of(g, setting, 0)), "speedup_predicted",
                     number_json(predicted), "tokens_per_second",
                     (double)sum.n_tokens / sum.seconds, "alpha",
                     interval_json(acceptance_of(g, setting)), "tau", number_json(tau_of(&sum)),
                     "verify_cost", number_json(cost), "break_even_tau", number_json(even),
                     "share_off", is_auto ? json_real(sum.off_ms / sum.blocks_ms) : json_null(),
                     "latency_ms", latency_json(g, setting), "acceptance_by_position",
                     positions_json(&sum), "counters", counters_json(&sum));
}

/* ------------------------------------------------------------------------------- conclusions */

/* Fixed settings are 1 to n - 2. */
static size_t best_fixed(group *g)
{
    double most = -1;
    size_t best = 1;

    for (size_t i = 1; i + 1 < g->m->n_settings; i++) {
        double estimate = speedup_of(g, i, 0).estimate;

        if (estimate > most) {
            most = estimate;
            best = i;
        }
    }
    return best;
}

/* The draft model's largest K, which has the most positions; n-gram's where there is no draft model. */
static size_t widest_fixed(const group *g)
{
    size_t widest = 1;

    for (size_t i = 1; i + 1 < g->m->n_settings; i++)
        if (!g->m->e->draft || !is_by_ngram(&g->m->settings[i]))
            widest = i;
    return widest;
}

/* What `outrider run` is to be given. */
static json_t *options_of_answer(const measure_setting *setting, int64_t k)
{
    bool by_ngram = k > 0 && is_by_ngram(setting);

    return json_sprintf("--draft-max %lld%s", (long long)k, by_ngram ? " --drafter ngram" : "");
}

static json_t *conclude(group *g, const char *task)
{
    size_t n = g->m->n_settings, best = best_fixed(g), automatic = n - 1, widest = widest_fixed(g);
    interval fixed = speedup_of(g, best, 0), of_auto = speedup_of(g, automatic, 0);
    bool prefers_auto;
    enum verdict verdict = decide_verdict(fixed, of_auto, speedup_of(g, automatic, best),
                                          &prefers_auto);
    size_t shown = prefers_auto ? automatic : best;
    int64_t k = verdict == VERDICT_DONT ? 0
                : prefers_auto          ? -1
                                        : (int64_t)g->m->settings[best].draft_max;
    json_t *o = json_object(), *settings = json_array(), *costs = json_array(), *of_shown, *of_best;
    const json_t *latency;
    int bad = json_object_set_new(o, "task", json_text(task, strlen(task)));

    for (size_t i = 0; i < n; i++)
        bad |= json_array_append_new(settings, setting_json(g, i));
    for (size_t rows = 1; rows <= MEASURE_MAX_ROWS; rows++)
        bad |= json_array_append_new(costs, number_json(verify_cost_of(g, rows)));
    of_shown = json_array_get(settings, shown);
    of_best = json_array_get(settings, best);
    bad |= json_object_set_new(o, "prompts", json_integer((json_int_t)g->n));
    bad |= json_object_set_new(o, "verdict", json_string(verdict_name(verdict)));
    bad |= json_object_set_new(o, "k", json_integer(k));
    bad |= json_object_set(o, "setting", json_object_get(of_shown, "name"));
    bad |= json_object_set_new(o, "run_options", options_of_answer(&g->m->settings[shown], k));
    bad |= json_object_set(o, "speedup", json_object_get(of_shown, "speedup"));
    bad |= json_object_set(o, "speedup_predicted", json_object_get(of_best, "speedup_predicted"));
    bad |= json_object_set(o, "predicted_setting", json_object_get(of_best, "name"));
    bad |= json_object_set_new(o, "alpha", interval_json(acceptance_of(g, widest)));
    bad |= json_object_set(
        o, "acceptance_by_position",
        json_object_get(json_array_get(settings, widest), "acceptance_by_position"));
    bad |= json_object_set(o, "tau", json_object_get(of_best, "tau"));
    bad |= json_object_set(o, "break_even_tau", json_object_get(of_best, "break_even_tau"));
    bad |= json_object_set_new(o, "c", number_json(cost_ratio_of(g)));
    bad |= json_object_set_new(o, "verify_cost", costs);
    bad |= json_object_set(o, "share_off",
                           json_object_get(json_array_get(settings, automatic), "share_off"));
    latency = json_pack("{s:O,s:O,s:O}", "plain",
                        json_object_get(json_array_get(settings, 0), "latency_ms"), "auto",
                        json_object_get(json_array_get(settings, automatic), "latency_ms"),
                        "setting", json_object_get(of_shown, "latency_ms"));
    bad |= json_object_set_new(o, "latency_ms", (json_t *)latency);
    bad |= json_object_set_new(o, "settings", settings);
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

/* Of a task's records; NULL: of all. Null without any. */
static json_t *group_json(const measure *m, const char *task)
{
    size_t n = m->n_records + 1;
    group g = {
        .m = m,
        .records = calloc(n, sizeof(*g.records)),
        .logs = calloc(n, sizeof(*g.logs)),
        .hits = calloc(n, sizeof(*g.hits)),
        .trials = calloc(n, sizeof(*g.trials)),
    };
    json_t *o = NULL;

    if (g.records && g.logs && g.hits && g.trials) {
        for (size_t i = 0; i < m->n_records; i++)
            if (!task || strcmp(m->data.prompts[m->records[i].prompt].task, task) == 0)
                g.records[g.n++] = &m->records[i];
        o = g.n ? conclude(&g, task ? task : "overall") : json_null();
    }
    free(g.records);
    free(g.logs);
    free(g.hits);
    free(g.trials);
    return o;
}

json_t *measure_summary(const measure *m, const json_t *head)
{
    json_t *o = json_copy((json_t *)head), *tasks = json_array(), *prompts = json_array();
    int bad = json_object_set_new(o, "measured", json_integer((json_int_t)m->n_records));

    bad |= json_object_set_new(o, "too_short", json_integer((json_int_t)m->n_short));
    bad |= json_object_set_new(o, "finished",
                               json_boolean(m->n_records + m->n_short == m->data.n_prompts));
    bad |= json_object_set_new(o, "overall", group_json(m, NULL));
    for (size_t i = 0; i < m->data.n_tasks; i++) {
        json_t *task = group_json(m, m->data.tasks[i]);

        if (json_is_null(task))
            json_decref(task);
        else
            bad |= json_array_append_new(tasks, task);
    }
    for (size_t i = 0; i < m->n_records; i++)
        bad |= json_array_append_new(prompts, measure_record_json(m, &m->records[i]));
    bad |= json_object_set_new(o, "tasks", tasks);
    bad |= json_object_set_new(o, "prompts", prompts);
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

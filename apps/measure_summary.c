/* The conclusions of `outrider measure` (measure.h), a JSON object that all forms of the report show:
 * what was measured on what, and for each task and overall the verdict and the numbers behind it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "drafting.h"
#include "measure_group.h"
#include "output.h"

/* --------------------------------------------------------------------------------- settings */

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *interval_json(interval x)
{
    return json_pack("{s:o,s:o,s:o}", "estimate", number_json(x.estimate), "low",
                     number_json(x.low), "high", number_json(x.high));
}

static json_t *latency_json(measure_group *g, size_t setting)
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

/* A fixed setting's prediction and break-even, NaN for what isn't known. */
static measure_prediction predict(const measure_group *g, size_t setting, const measure_run *sum,
                                  double cost, double *even)
{
    const measure_setting *s = &g->m->settings[setting];

    *even = NAN;
    /* How much of a pipelined draft's time is hidden, the times of single passes don't tell. */
    if (sum->pipelined_blocks)
        return (measure_prediction){NAN, NAN};
    *even = measure_is_ngram(s) ? cost : break_even_tokens(cost, g->cost_ratio, s->draft_max);
    return measure_group_predict(g, setting);
}

/* Of all blocks' time. */
static double share_off(const measure_run *sum)
{
    return sum->off_ms / sum->blocks_ms;
}

static json_t *setting_json(measure_group *g, size_t setting)
{
    const measure_setting *s = &g->m->settings[setting];
    measure_run sum = measure_group_sum(g, setting);
    measure_prediction predicted = {NAN, NAN};
    bool is_auto = s->draft_max == OTR_DRAFT_AUTO;
    double cost = NAN, even = NAN;
    char name[24];

    if (s->draft_max && !is_auto) {
        cost = measure_group_block_cost(g, setting, &sum);
        predicted = predict(g, setting, &sum, cost, &even);
    }
    return json_pack(
        "{s:s,s:s,s:I,s:o,s:o,s:o,s:f,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "name",
        measure_setting_name(s, name), "drafter", drafters_name(s->drafters), "draft_max",
        is_auto ? (json_int_t)-1 : (json_int_t)s->draft_max, "speedup",
        interval_json(measure_group_speedup(g, setting, 0)), "speedup_predicted",
        number_json(predicted.speedup), "prediction_error", number_json(predicted.error),
        "tokens_per_second", (double)sum.n_tokens / sum.seconds, "alpha",
        interval_json(measure_group_acceptance(g, setting)), "tau",
        number_json(measure_group_tau(&sum)), "verify_cost", number_json(cost), "break_even_tau",
        number_json(even), "share_off", is_auto ? json_real(share_off(&sum)) : json_null(),
        "latency_ms", latency_json(g, setting), "acceptance_by_position", positions_json(&sum),
        "counters", counters_json(&sum));
}

/* ------------------------------------------------------------------------------- conclusions */

/* Fixed settings are 1 to n - 2. */
static size_t best_fixed(measure_group *g)
{
    double most = -1;
    size_t best = 1;

    for (size_t i = 1; i + 1 < g->m->n_settings; i++) {
        double estimate = measure_group_speedup(g, i, 0).estimate;

        if (estimate > most) {
            most = estimate;
            best = i;
        }
    }
    return best;
}

/* The draft model's largest K, which has the most positions; n-gram's where there is no draft model. */
static size_t widest_fixed(const measure_group *g)
{
    size_t widest = 1;

    for (size_t i = 1; i + 1 < g->m->n_settings; i++)
        if (!g->m->e->draft || !measure_is_ngram(&g->m->settings[i]))
            widest = i;
    return widest;
}

/* What `outrider run` is to be given. */
static json_t *options_of_answer(const measure_setting *setting, int64_t k)
{
    if (!k)
        return json_string("--draft-max 0");
    return json_sprintf("--draft-max %lld --drafter %s", (long long)k,
                        drafters_name(setting->drafters));
}

static json_t *conclude(measure_group *g, const char *task)
{
    size_t n = g->m->n_settings, best = best_fixed(g), automatic = n - 1, widest = widest_fixed(g);
    interval fixed = measure_group_speedup(g, best, 0),
             of_auto = measure_group_speedup(g, automatic, 0);
    measure_run auto_sum = measure_group_sum(g, automatic);
    bool prefers_auto;
    enum verdict verdict = decide_verdict(fixed, of_auto, measure_group_speedup(g, automatic, best),
                                          share_off(&auto_sum), &prefers_auto);
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
        bad |= json_array_append_new(costs, number_json(g->verify_cost[rows - 1]));
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
    bad |= json_object_set_new(o, "alpha", interval_json(measure_group_acceptance(g, widest)));
    bad |= json_object_set(
        o, "acceptance_by_position",
        json_object_get(json_array_get(settings, widest), "acceptance_by_position"));
    bad |= json_object_set(o, "tau", json_object_get(of_best, "tau"));
    bad |= json_object_set(o, "break_even_tau", json_object_get(of_best, "break_even_tau"));
    bad |= json_object_set_new(o, "c", number_json(g->cost_ratio));
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
    measure_group g;
    json_t *o = NULL;

    if (measure_group_begin(&g, m, task))
        o = g.n ? conclude(&g, task ? task : "overall") : json_null();
    measure_group_free(&g);
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

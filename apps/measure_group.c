/* The numbers of a task's prompts, or of all: see measure_group.h. */
#include "measure_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *task_of(const measure_group *g, size_t i)
{
    return g->m->data.prompts[g->records[i]->prompt].task;
}

/* Times of all prompts' passes by that of the plain ones beside them. */
static void fill_costs(measure_group *g)
{
    double rows[MEASURE_MAX_ROWS] = {0}, draft = 0;

    for (size_t i = 0; i < g->n; i++) {
        for (size_t k = 0; k < MEASURE_MAX_ROWS; k++)
            rows[k] += g->records[i]->row_ms[k];
        draft += g->records[i]->draft_ms;
    }
    for (size_t k = 0; k < MEASURE_MAX_ROWS; k++)
        g->verify_cost[k] = rows[k] / rows[0];
    g->cost_ratio = g->m->e->draft ? draft / rows[0] : NAN;
}

bool measure_group_begin(measure_group *g, const measure *m, const char *task)
{
    size_t n = m->n_records + 1;

    *g = (measure_group){
        .m = m,
        .records = calloc(n, sizeof(*g->records)),
        .a = calloc(n, sizeof(*g->a)),
        .b = calloc(n, sizeof(*g->b)),
    };
    if (!g->records || !g->a || !g->b)
        return false;
    for (size_t i = 0; i < m->n_records; i++) {
        g->records[g->n] = &m->records[i];
        g->n += !task || strcmp(task_of(g, g->n), task) == 0;
    }
    fill_costs(g);
    return true;
}

void measure_group_free(measure_group *g)
{
    free(g->records);
    free(g->a);
    free(g->b);
    *g = (measure_group){0};
}

measure_run measure_group_sum(const measure_group *g, size_t setting)
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

bool measure_is_ngram(const measure_setting *setting)
{
    return setting->drafters == OTR_DRAFTER_NGRAM;
}

/* Of a prompt, as a logarithm. */
static double log_speedup(const measure_group *g, size_t i, size_t setting, size_t base)
{
    return log(g->records[i]->runs[base].seconds / g->records[i]->runs[setting].seconds);
}

interval measure_group_speedup(const measure_group *g, size_t setting, size_t base)
{
    for (size_t i = 0; i < g->n; i++)
        g->a[i] = log_speedup(g, i, setting, base);
    return interval_of_logs(g->a, g->n);
}

interval measure_group_acceptance(const measure_group *g, size_t setting)
{
    for (size_t i = 0; i < g->n; i++) {
        g->a[i] = (double)g->records[i]->runs[setting].accepted;
        g->b[i] = (double)g->records[i]->runs[setting].verified;
    }
    return interval_of_share(g->a, g->b, g->n);
}

double measure_group_tau(const measure_run *sum)
{
    uint64_t speculative = sum->blocks - sum->plain_blocks;

    return speculative ? 1 + (double)sum->accepted / (double)speculative : NAN;
}

/* ----------------------------------------------------------------------------------- costs */

/* v of a mean of rows, between two whole numbers on a straight line. */
static double verify_cost_between(const measure_group *g, double rows)
{
    size_t below = (size_t)rows;
    double share = rows - (double)below;

    if (below >= MEASURE_MAX_ROWS)
        return g->verify_cost[MEASURE_MAX_ROWS - 1];
    return (1 - share) * g->verify_cost[below - 1] + share * g->verify_cost[below];
}

/* Rows of the blocks that n-gram lookup proposed something for; 1: it never did. */
static double rows_by_ngram(const measure_run *run)
{
    uint64_t drafting = run->blocks - run->plain_blocks;

    return drafting ? 1 + (double)run->drafted / (double)drafting : 1;
}

double measure_group_block_cost(const measure_group *g, size_t setting, const measure_run *sum)
{
    const measure_setting *s = &g->m->settings[setting];

    if (!measure_is_ngram(s))
        return g->verify_cost[s->draft_max];
    return sum->blocks > sum->plain_blocks ? verify_cost_between(g, rows_by_ngram(sum)) : NAN;
}

/* ------------------------------------------------------------------------------ predictions */

/* n-gram lookup proposes nothing in some blocks and fewer than K tokens in others, so that the shares of
 * blocks and the tokens that they brought stand in for alpha and K; the lookup costs nothing. */
static double predict_by_ngram(const measure_group *g, const measure_run *run)
{
    double plain = (double)run->plain_blocks, drafting = (double)run->blocks - plain;
    double cost = verify_cost_between(g, rows_by_ngram(run));

    return (double)(run->accepted + run->blocks) / (plain + drafting * cost);
}

static double predict_by_model(const measure_group *g, const measure_record *r,
                               const measure_run *run, uint32_t k)
{
    double share = r->draft_prefill_ms / r->row_ms[0] / (double)run->n_tokens;

    if (!run->verified)
        return NAN;
    return predicted_speedup((double)run->accepted / (double)run->verified, g->verify_cost[k],
                             g->cost_ratio, k, share);
}

/* Adds the squares of how far the prompts of a task are from what its others predict, in *n. */
static double squared_errors(const measure_group *g, size_t setting, const char *task, size_t *n)
{
    const double *predicted = g->b;
    double sum = 0, squares = 0, count = 0;

    for (size_t i = 0; i < g->n; i++)
        if (isfinite(predicted[i]) && strcmp(task_of(g, i), task) == 0) {
            sum += predicted[i];
            count++;
        }
    if (count < 2)
        return 0;
    for (size_t i = 0; i < g->n; i++)
        if (isfinite(predicted[i]) && strcmp(task_of(g, i), task) == 0) {
            double of_others = (sum - predicted[i]) / (count - 1);
            double off = log_speedup(g, i, setting, 0) - of_others;

            squares += off * off;
            *n += 1;
        }
    return squares;
}

measure_prediction measure_group_predict(const measure_group *g, size_t setting)
{
    const measure_setting *s = &g->m->settings[setting];
    double squares = 0;
    size_t n = 0, n_errors = 0;

    for (size_t i = 0; i < g->n; i++) {
        const measure_record *r = g->records[i];
        double x = measure_is_ngram(s) ? predict_by_ngram(g, &r->runs[setting])
                                       : predict_by_model(g, r, &r->runs[setting], s->draft_max);

        g->b[i] = log(x);
        if (isfinite(g->b[i]))
            g->a[n++] = g->b[i];
    }
    for (size_t i = 0; i < g->m->data.n_tasks; i++)
        squares += squared_errors(g, setting, g->m->data.tasks[i], &n_errors);
    return (measure_prediction){
        .speedup = interval_of_logs(g->a, n).estimate,
        .error = n_errors ? exp(sqrt(squares / (double)n_errors)) - 1 : NAN,
    };
}

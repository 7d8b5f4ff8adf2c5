/* The numbers of a task's prompts, or of all, that `outrider measure` draws its conclusions from: sums,
 * speed-up, acceptance, costs and predictions. measure_summary.c makes the result of them. */
#ifndef OUTRIDER_APPS_MEASURE_GROUP_H
#define OUTRIDER_APPS_MEASURE_GROUP_H

#include "measure.h"
#include "measure_stats.h"

typedef struct measure_group {
    const measure *m;
    const measure_record **records; /* [n], the measurement's */
    size_t n;
    double verify_cost[MEASURE_MAX_ROWS]; /* [n-1]: v(n) */
    double cost_ratio;                    /* c; NaN without a draft model */
    double *a, *b;                        /* [n], to work with */
} measure_group;

/* Of a task's records; NULL: of all. False when memory runs out. measure_group_free in any case. */
bool measure_group_begin(measure_group *g, const measure *m, const char *task);
void measure_group_free(measure_group *g);

/* Counters and times of all prompts; no latencies. */
measure_run measure_group_sum(const measure_group *g, size_t setting);

bool measure_is_ngram(const measure_setting *setting);
/* Speed of a setting by that of another. */
interval measure_group_speedup(const measure_group *g, size_t setting, size_t base);
interval measure_group_acceptance(const measure_group *g, size_t setting);
/* Tokens of a block for which something was drafted; NaN: there was none. */
double measure_group_tau(const measure_run *sum);
/* v of a block's rows: K + 1, or what n-gram lookup proposed on average and one. NaN: it never did. */
double measure_group_block_cost(const measure_group *g, size_t setting, const measure_run *sum);

/* What acceptance and the times of single passes make of a fixed setting, without the times of the
 * generations. NaN where nothing was checked. */
typedef struct measure_prediction {
    double speedup; /* geometric mean over prompts, as the measured one is */
    /* How far a prompt's measured speed-up is from what the acceptance of the other prompts of its task
     * predicts for it: root mean square of the logarithms' difference, as a share. NaN: no task has two. */
    double error;
} measure_prediction;
measure_prediction measure_group_predict(const measure_group *g, size_t setting);

#endif

/* Statistics of `outrider measure`, pure: intervals, percentiles, the predicted speed-up, the verdict.
 *
 * The prompt is the unit. Tokens of one prompt are not independent (an easy passage is accepted block
 * after block), so that an interval over tokens or blocks would be too narrow; prompts are. */
#ifndef OUTRIDER_APPS_MEASURE_STATS_H
#define OUTRIDER_APPS_MEASURE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An estimate with its 95 % interval. low and high are NaN where there is none (fewer than two
 * prompts); the estimate is NaN without any. */
typedef struct interval {
    double estimate, low, high;
} interval;

/* t with P(|T| <= t) = 0.95 for Student's T of so many degrees of freedom (at least 1): the finite
 * series for P in Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, solved
 * by bisection. Over 1,000 degrees the normal distribution's. */
double student_t95(size_t degrees);

/* exp of the mean of n logarithms, with the t interval of that mean: of paired log-ratios
 * ln(time plain / time with the draft), one a prompt, the speed-up. The factor of a machine's mood that
 * meets both of a pair alike drops out. */
interval interval_of_logs(const double *logs, size_t n);

/* hits / trials, both summed over n prompts, as a ratio estimator of clusters: standard error
 * sqrt(n / (n - 1) sum (hits_i - p trials_i)^2) / sum trials (Cochran, Sampling Techniques, 2.11), taken
 * to the logit scale, where a t interval can't leave 0..1. Without spread (p is 0 or 1) Wilson's score
 * interval of the sums. */
interval interval_of_share(const double *hits, const double *trials, size_t n);

/* p50, p95, p99 by nearest rank, and the largest; sorts the values. 0 without values. */
#define N_PERCENTILES 4
void percentiles(float *values, size_t n, double out[N_PERCENTILES]);

/* Expected tokens of a block of K drafted ones, each accepted with chance alpha until the first miss,
 * and the target's own: (1 - alpha^(K+1)) / (1 - alpha) (Leviathan et al. 2023). */
double expected_tokens(double alpha, uint32_t k);
/* Tokens a block that cost what they bring, in plain steps: v(K+1) + K c. */
double break_even_tokens(double verify_cost, double cost_ratio, uint32_t k);
/* Serial speed-up E / (v(K+1) + K c), the draft's prefill spread over the generation's tokens:
 * prefill_share is its time in plain steps by these tokens. */
double predicted_speedup(double alpha, double verify_cost, double cost_ratio, uint32_t k,
                         double prefill_share);

enum verdict {
    VERDICT_AUTO, /* not decided: leave it to the controller */
    VERDICT_USE,  /* it pays: draft K tokens a block, or what auto says */
    VERDICT_DONT, /* plain decoding */
};
const char *verdict_name(enum verdict verdict); /* "auto", "use", "dont" */
/* The rule, of 95 % intervals: `fixed` is the speed-up of the K that measured best, `automatic` that of
 * auto, `automatic_by_fixed` the speed of auto by that of the K, share_off the part of its time that auto
 * decoded plainly. Where that is all of it nothing is auto's gain.
 *   use:  one of the first two lies above 1: auto's if only that one does, or if auto is certainly faster
 *         than the K (*prefers_auto), else the K;
 *   dont: one of them lies below 1, and the other not above it;
 *   auto: nothing was decided, and auto loses next to nothing. */
enum verdict decide_verdict(interval fixed, interval automatic, interval automatic_by_fixed,
                            double share_off, bool *prefers_auto);

#endif

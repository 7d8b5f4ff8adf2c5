/* Statistics of `outrider measure`: see measure_stats.h. */
#include "measure_stats.h"

#include <math.h>
#include <stdlib.h>

#define MANY_DEGREES 1000
#define NORMAL_95 1.959963984540054

/* P(|T| <= t). */
static double student_share(double t, size_t degrees)
{
    double angle = atan(t / sqrt((double)degrees)), c = cos(angle), s = sin(angle);
    double term = degrees % 2 ? c : 1, sum = degrees == 1 ? 0 : term;

    for (size_t i = degrees % 2 ? 3 : 2; i + 1 < degrees; i += 2) {
        term *= (double)(i - 1) / (double)i * c * c;
        sum += term;
    }
    return degrees % 2 ? 2 / M_PI * (angle + s * sum) : s * sum;
}

double student_t95(size_t degrees)
{
    double low = 1.9, high = 13;

    if (degrees == 0)
        return NAN;
    if (degrees > MANY_DEGREES)
        return NORMAL_95;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(student_share(middle, degrees) < 0.95 ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

interval interval_of_logs(const double *logs, size_t n)
{
    double mean = 0, squares = 0, half;

    if (!n)
        return (interval){NAN, NAN, NAN};
    for (size_t i = 0; i < n; i++)
        mean += logs[i] / (double)n;
    if (n < 2)
        return (interval){exp(mean), NAN, NAN};
    for (size_t i = 0; i < n; i++)
        squares += (logs[i] - mean) * (logs[i] - mean);
    half = student_t95(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    return (interval){exp(mean), exp(mean - half), exp(mean + half)};
}

static interval wilson(double p, double trials)
{
    double z = NORMAL_95, zz = z * z / trials, middle = (p + zz / 2) / (1 + zz);
    double half = z * sqrt(p * (1 - p) / trials + zz / (4 * trials)) / (1 + zz);

    return (interval){p, fmax(0, middle - half), fmin(1, middle + half)};
}

interval interval_of_share(const double *hits, const double *trials, size_t n)
{
    double all_hits = 0, all_trials = 0, squares = 0, p, error, logit, half;

    for (size_t i = 0; i < n; i++) {
        all_hits += hits[i];
        all_trials += trials[i];
    }
    if (!(all_trials > 0))
        return (interval){NAN, NAN, NAN};
    p = all_hits / all_trials;
    if (n < 2)
        return (interval){p, NAN, NAN};
    if (p <= 0 || p >= 1)
        return wilson(p, all_trials);
    for (size_t i = 0; i < n; i++)
        squares += (hits[i] - p * trials[i]) * (hits[i] - p * trials[i]);
    error = sqrt((double)n / (double)(n - 1) * squares) / all_trials;
    logit = log(p / (1 - p));
    half = student_t95(n - 1) * error / (p * (1 - p));
    return (interval){p, 1 / (1 + exp(half - logit)), 1 / (1 + exp(-half - logit))};
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

void percentiles(float *values, size_t n, double out[N_PERCENTILES])
{
    static const double ranks[N_PERCENTILES] = {0.50, 0.95, 0.99, 1.0};

    for (int i = 0; i < N_PERCENTILES; i++)
        out[i] = 0;
    if (!n)
        return;
    qsort(values, n, sizeof(*values), compare_floats);
    for (int i = 0; i < N_PERCENTILES; i++) {
        size_t rank = (size_t)ceil(ranks[i] * (double)n);
        out[i] = (double)values[(rank ? rank : 1) - 1];
    }
}

double expected_tokens(double alpha, uint32_t k)
{
    double sum = 1, survival = 1;

    /* The sum of the series, which is exact at alpha = 1 too. */
    for (uint32_t i = 0; i < k; i++) {
        survival *= alpha;
        sum += survival;
    }
    return sum;
}

double break_even_tokens(double verify_cost, double cost_ratio, uint32_t k)
{
    return verify_cost + k * cost_ratio;
}

double predicted_speedup(double alpha, double verify_cost, double cost_ratio, uint32_t k,
                         double prefill_share)
{
    return 1 / (break_even_tokens(verify_cost, cost_ratio, k) / expected_tokens(alpha, k) +
                prefill_share);
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {
        [VERDICT_AUTO] = "auto", [VERDICT_USE] = "use", [VERDICT_DONT] = "dont"};

    return names[verdict];
}

/* Of its time: plain decoding under another name. */
#define ALWAYS_OFF 0.99

/* Comparisons with NaN, the end of an interval that isn't there, are false. */
enum verdict decide_verdict(interval fixed, interval automatic, interval automatic_by_fixed,
                            double share_off, bool *prefers_auto)
{
    bool pays = fixed.low > 1, auto_pays = automatic.low > 1 && share_off < ALWAYS_OFF;

    *prefers_auto = auto_pays && (!pays || automatic_by_fixed.low > 1);
    if (pays || auto_pays)
        return VERDICT_USE;
    *prefers_auto = !(fixed.high < 1 || automatic.high < 1);
    return *prefers_auto ? VERDICT_AUTO : VERDICT_DONT;
}

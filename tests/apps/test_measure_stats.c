/* The statistics of `outrider measure`: known values, the verdict's rule, and in simulation that the
 * intervals hold the truth as often as they say, though acceptance comes in runs. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../suite.h"
#include "measure_stats.h"

START_TEST(test_student)
{
    /* Tables of Student's t, two-sided 95 %. */
    static const struct {
        size_t degrees;
        double t;
    } known[] = {{1, 12.7062},  {2, 4.30265},  {3, 3.18245},  {4, 2.77645},  {5, 2.57058},
                 {11, 2.20099}, {23, 2.06866}, {30, 2.04227}, {120, 1.97993}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        ck_assert_double_le(fabs(student_t95(known[i].degrees) - known[i].t), 5e-5);
    ck_assert_double_le(fabs(student_t95(1000) - 1.96234), 5e-5);
    ck_assert_double_le(fabs(student_t95(5000) - 1.95996), 5e-5);
    ck_assert(isnan(student_t95(0)));
}
END_TEST

START_TEST(test_intervals)
{
    const double logs[] = {log(1.2), log(1.5), log(0.9), log(1.3)};
    const double hits[] = {8, 2, 5}, trials[] = {10, 5, 6}, all[] = {10, 5, 6}, none[] = {0, 0, 0};
    interval x = interval_of_logs(logs, 4);

    /* mean 0.186198, standard deviation 0.215175, t(3) 3.18245 (Python's statistics). */
    ck_assert_double_le(fabs(log(x.estimate) - 0.186198), 1e-5);
    ck_assert_double_le(fabs(log(x.high) - log(x.estimate) - 0.342391), 1e-5);
    ck_assert_double_le(fabs(log(x.estimate) - log(x.low) - 0.342391), 1e-5);
    x = interval_of_logs(logs, 1);
    ck_assert_double_le(fabs(x.estimate - 1.2), 1e-12);
    ck_assert(isnan(x.low) && isnan(x.high));
    ck_assert(isnan(interval_of_logs(logs, 0).estimate));
    x = interval_of_share(hits, trials, 3);
    ck_assert_double_le(fabs(x.estimate - 15.0 / 21), 1e-12);
    ck_assert(x.low > 0 && x.low < x.estimate && x.estimate < x.high && x.high < 1);
    x = interval_of_share(all, trials, 3);
    ck_assert(x.estimate == 1 && x.high == 1 && x.low > 0.8 && x.low < 0.9);
    x = interval_of_share(none, trials, 3);
    ck_assert(x.estimate == 0 && x.low == 0 && x.high > 0.1 && x.high < 0.2);
    ck_assert(isnan(interval_of_share(none, none, 3).estimate));
}
END_TEST

START_TEST(test_percentiles_and_prediction)
{
    float values[100];
    double p[N_PERCENTILES];

    for (int i = 0; i < 100; i++)
        values[i] = (float)(100 - i);
    percentiles(values, 100, p);
    ck_assert(p[0] == 50 && p[1] == 95 && p[2] == 99 && p[3] == 100);
    percentiles(values, 0, p);
    ck_assert(p[0] == 0 && p[3] == 0);

    ck_assert_double_le(fabs(expected_tokens(0.8, 4) - (1 - pow(0.8, 5)) / 0.2), 1e-12);
    ck_assert(expected_tokens(1, 4) == 5 && expected_tokens(0, 4) == 1);
    ck_assert_double_le(fabs(break_even_tokens(1.5, 0.1, 4) - 1.9), 1e-12);
    ck_assert_double_le(fabs(predicted_speedup(1, 1.5, 0.1, 4, 0) - 5 / 1.9), 1e-12);
    ck_assert_double_le(fabs(predicted_speedup(1, 1.5, 0.1, 4, 0.02) - 1 / (0.38 + 0.02)), 1e-12);
    ck_assert_double_le(fabs(predicted_speedup(0.5, 1, 0, 0, 0) - 1), 1e-12);
}
END_TEST

START_TEST(test_verdict)
{
    const interval faster = {1.3, 1.1, 1.5}, slower = {0.8, 0.7, 0.9}, open = {1.02, 0.9, 1.2};
    const interval unknown = {1.3, NAN, NAN}, even = {0.99, 0.97, 1.01}, same = {1, 0.9, 1.1};

    const struct {
        interval fixed, automatic, ratio;
        double share_off;
        enum verdict verdict;
        bool prefers_auto;
    } cases[] = {
        {faster, faster, same, 0.1, VERDICT_USE, false},
        {faster, faster, faster, 0.1, VERDICT_USE, true},
        {faster, open, slower, 0.5, VERDICT_USE, false},
        {faster, slower, slower, 0.1, VERDICT_USE, false},
        {slower, faster, faster, 0.9, VERDICT_USE, true},
        {open, faster, same, 0.1, VERDICT_USE, true},
        {slower, even, faster, 0.95, VERDICT_DONT, false},
        {open, slower, same, 0.1, VERDICT_DONT, false},
        {open, even, same, 0.5, VERDICT_AUTO, true},
        {unknown, unknown, unknown, 0.1, VERDICT_AUTO, true},
        /* A gain of plain decoding over itself. */
        {slower, faster, faster, 1, VERDICT_DONT, false},
        {open, faster, same, 1, VERDICT_AUTO, true},
        {faster, faster, faster, 1, VERDICT_USE, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool prefers_auto;

        ck_assert_int_eq(decide_verdict(cases[i].fixed, cases[i].automatic, cases[i].ratio,
                                        cases[i].share_off, &prefers_auto),
                         cases[i].verdict);
        ck_assert_int_eq(prefers_auto, cases[i].prefers_auto);
    }
    ck_assert_str_eq(verdict_name(VERDICT_DONT), "dont");
}
END_TEST

/* ---------------------------------------------------------------------------- simulation */

#define N_RUNS 1000
#define N_TOKENS 128
#define K_SIMULATED 4
#define N_CHOICES 3 /* of K: 2, 4 and 6 */

static uint64_t state;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

typedef struct sample {
    double logs[N_CHOICES], hits, trials;
} sample;

static double blocks_time(const bool *agrees, uint32_t k, double *hits, double *trials)
{
    double time = 0;

    for (int at = 0; at < N_TOKENS;) {
        uint32_t accepted = 0;

        while (accepted < k && at + (int)accepted < N_TOKENS && agrees[at + (int)accepted])
            accepted++;
        *hits += accepted;
        *trials += accepted + (accepted < k);
        at += (int)accepted + 1;
        time += 1 + 0.12 * k + 0.1 * k; /* v(K+1) + K c */
    }
    return time;
}

/* Whether the draft would agree at each position: the text changes between easy and hard passages,
 * and prompts differ in how easy they are. Times have a mood of the machine that all runs of a prompt
 * share, and noise of their own. */
static sample draw_prompt(void)
{
    static const uint32_t ks[N_CHOICES] = {2, K_SIMULATED, 6};
    bool agrees[N_TOKENS], easy = uniform() < 0.5;
    double ease = 0.6 * normal();
    sample s = {0};

    for (int i = 0; i < N_TOKENS; i++) {
        easy = uniform() < 0.08 ? !easy : easy;
        agrees[i] = uniform() < 1 / (1 + exp(-ease - (easy ? 2.0 : -0.5)));
    }
    double mood = exp(0.3 * normal()), plain = N_TOKENS * mood * exp(0.05 * normal());
    for (int i = 0; i < N_CHOICES; i++) {
        double hits = 0, trials = 0, time = blocks_time(agrees, ks[i], &hits, &trials);

        s.logs[i] = log(plain / (time * mood * exp(0.05 * normal())));
        if (ks[i] == K_SIMULATED) {
            s.hits = hits;
            s.trials = trials;
        }
    }
    return s;
}

START_TEST(test_intervals_hold_the_truth)
{
    enum { N_TRUTH = 200000, MOST = 24 };
    double truth[N_CHOICES] = {0}, hits = 0, trials = 0, share;
    int n_speedup = 0, n_chosen = 0, n_share = 0, n_naive = 0;

    state = 5;
    for (int i = 0; i < N_TRUTH; i++) {
        sample s = draw_prompt();

        for (int k = 0; k < N_CHOICES; k++)
            truth[k] += s.logs[k] / N_TRUTH;
        hits += s.hits;
        trials += s.trials;
    }
    share = hits / trials;
    for (int run = 0; run < N_RUNS; run++) {
        size_t n = 12 + (size_t)(uniform() * 13);
        double logs[N_CHOICES][MOST], h[MOST], t[MOST], all_h = 0, all_t = 0, half;
        interval x, best = {0};
        int chosen = 0;

        for (size_t i = 0; i < n; i++) {
            sample s = draw_prompt();

            for (int k = 0; k < N_CHOICES; k++)
                logs[k][i] = s.logs[k];
            h[i] = s.hits;
            t[i] = s.trials;
            all_h += s.hits;
            all_t += s.trials;
        }
        for (int k = 0; k < N_CHOICES; k++) {
            x = interval_of_logs(logs[k], n);
            if (k == 1)
                n_speedup += x.low <= exp(truth[k]) && exp(truth[k]) <= x.high;
            if (x.estimate > best.estimate) {
                best = x;
                chosen = k;
            }
        }
        n_chosen += best.low <= exp(truth[chosen]) && exp(truth[chosen]) <= best.high;
        x = interval_of_share(h, t, n);
        n_share += x.low <= share && share <= x.high;
        half = 1.96 * sqrt(x.estimate * (1 - x.estimate) / all_t);
        n_naive += fabs(all_h / all_t - share) <= half;
    }
    printf(
        "of %d intervals at 95 %% held the truth: speed-up %d, of the chosen K %d, acceptance %d; "
        "tokens taken for independent: %d\n",
        N_RUNS, n_speedup, n_chosen, n_share, n_naive);
    ck_assert(n_speedup >= 930 && n_speedup <= 970);
    ck_assert(n_chosen >= 930 && n_chosen <= 970);
    ck_assert(n_share >= 930 && n_share <= 970);
    ck_assert_int_lt(n_naive, 800);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("measure statistics");
    TCase *tcase = tcase_create("measure statistics");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_student);
    tcase_add_test(tcase, test_intervals);
    tcase_add_test(tcase, test_percentiles_and_prediction);
    tcase_add_test(tcase, test_verdict);
    tcase_add_test(tcase, test_intervals_hold_the_truth);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

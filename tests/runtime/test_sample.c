/* sample.comp against the reference in double precision, and what must hold exactly: cuts, ties,
 * penalties, and that neither the number of rows nor the workgroup size enters the result. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "sampler.h"

/* A device may decide otherwise than the reference when the reference itself was this near (and so
 * few times). Cuts of single-precision exponentials and sums of their roundings: 1e-5 is generous.
 */
#define NEAR_MARGIN 1e-5
#define NEAR_CUT 5e-6
#define MAX_EXCUSED 0.001

static const sample_settings greedy = {.top_p = 1, .penalty = 1};
static const sample_settings plain = {.temperature = 1, .top_p = 1, .penalty = 1};

typedef struct tally {
    uint32_t n, n_excused;
} tally;

static void compare(const sampled *got, const sample_outcome *expected, tally *t, const char *what)
{
    bool is_near = expected->margin < NEAR_MARGIN || expected->cut_distance < NEAR_CUT;
    t->n++;
    if (got->token != expected->token) {
        ck_assert_msg(is_near, "%s: token %u, expected %u (margin %g, cut distance %g, %u kept)",
                      what, got->token, expected->token, expected->margin, expected->cut_distance,
                      expected->n_kept);
        t->n_excused++;
        return;
    }
    double difference = fabs(got->probability - expected->probability) / expected->probability;
    if (expected->cut_distance < NEAR_CUT || expected->probability == 0) {
        ck_assert_msg(expected->probability != 0 || got->probability == 0, "%s", what);
        return;
    }
    ck_assert_msg(difference < 5e-6, "%s: probability %.9g, expected %.9g", what, got->probability,
                  expected->probability);
}

static void check_tally(const tally *t)
{
    ck_assert_uint_gt(t->n, 0);
    ck_assert_msg(t->n_excused <= MAX_EXCUSED * t->n + 1, "%u of %u tokens differ near ties",
                  t->n_excused, t->n);
}

/* Samples n_rows rows (filled before) with the device and with the reference. */
static void check_rows(sampler *s, VkPipeline pipeline, uint32_t n_vocab, uint32_t stride,
                       uint32_t out_first, uint32_t n_rows, const sample_settings *settings,
                       tally *t)
{
    sample_outcome expected[MAX_ROWS];
    sampled got[MAX_ROWS];
    uint32_t base = 600;
    for (uint32_t r = 0; r < n_rows; r++)
        sample_reference(sampler_row(s, r, stride), n_vocab, s->history, base + out_first + r,
                         settings, &expected[r], NULL);
    sampler_run(s, pipeline, n_vocab, stride, base, out_first, n_rows, settings, got);
    for (uint32_t r = 0; r < n_rows; r++) {
        char what[200];
        snprintf(what, sizeof what,
                 "n %u row %u: T %g, top-k %u, top-p %g, min-p %g, penalty %g over %u, seed %llu",
                 n_vocab, r, settings->temperature, settings->top_k, settings->top_p,
                 settings->min_p, settings->penalty, settings->last_n,
                 (unsigned long long)settings->seed);
        compare(&got[r], &expected[r], t, what);
    }
}

static void fill_history(sampler *s, uint32_t n_vocab, test_random *random)
{
    for (uint32_t i = 0; i < SAMPLER_HISTORY; i++)
        s->history[i] = random_word(random) % n_vocab;
}

static const float temperatures[] = {0, 0.7f, 1, 1.3f};
static const uint32_t top_ks[] = {0, 1, 5, 40, 700};
static const float top_ps[] = {1, 0.9f, 0.5f, 0};
static const float min_ps[] = {0, 0.05f, 0.4f};
static const float penalties[] = {1, 1.3f, 0.8f};
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define N_SETTINGS                                                                                 \
    (COUNT(temperatures) * COUNT(top_ks) * COUNT(top_ps) * COUNT(min_ps) * COUNT(penalties))

static sample_settings settings_number(uint32_t i, test_random *random)
{
    sample_settings settings = {.seed = (uint64_t)random_word(random) << 32 | random_word(random)};
    settings.temperature = temperatures[i % COUNT(temperatures)];
    i /= COUNT(temperatures);
    settings.top_k = top_ks[i % COUNT(top_ks)];
    i /= COUNT(top_ks);
    settings.top_p = top_ps[i % COUNT(top_ps)];
    i /= COUNT(top_ps);
    settings.min_p = min_ps[i % COUNT(min_ps)];
    i /= COUNT(min_ps);
    settings.penalty = penalties[i % COUNT(penalties)];
    settings.last_n = random_word(random) % 514;
    return settings;
}

static const uint32_t sizes[] = {1, 2, 3, 31, 100, 127, 128, 129, 256, 511, 512, 513, 2049, 5000};

/* Rows of all patterns. Each size takes every 7th of the settings (slow devices every 53rd),
 * beginning with another one, so that together they take all. */
START_TEST(agrees_with_the_reference)
{
    static sampler s;
    uint32_t n_vocab = sizes[_i];
    uint32_t stride = n_vocab + (uint32_t)_i % 3;
    sampler_open(&s, stride);
    VkPipeline pipeline = sampler_pipeline(&s, 128);
    test_random random = {(uint64_t)_i};
    tally t = {0};
    fill_history(&s, n_vocab, &random);
    uint32_t step = harness_is_slow(&s.h) ? 53 : 7;
    for (uint32_t i = (uint32_t)_i % step; i < N_SETTINGS; i += step) {
        sample_settings settings = settings_number(i, &random);
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            fill_row(sampler_row(&s, r, stride), n_vocab, (r + i) % N_ROW_PATTERNS, &random);
        check_rows(&s, pipeline, n_vocab, stride, i % 4, MAX_ROWS, &settings, &t);
    }
    check_tally(&t);
    sampler_close(&s);
}
END_TEST

/* Iterations as the head of sample.comp counts them. */
static uint32_t loop_iterations(uint32_t n, uint32_t lanes)
{
    uint32_t pass = (n + 4 * lanes - 1) / (4 * lanes);
    return 15 * pass + 11 * (256 / lanes + 48) + 22 + 512 / lanes * 129;
}

static const struct limit_case {
    uint32_t n_vocab, workgroup_size;
} limits[] = {{262144, 32}, {262144, 128}, {262143, 256}, {151936, 128}, {49152, 128}};

/* Loops of a device that ends them silently would miss the last tokens, which matter here. */
START_TEST(large_vocabularies_stay_in_the_loop_budget)
{
    static sampler s;
    uint32_t n_vocab = limits[_i].n_vocab;
    uint32_t n_rows = 3;
    ck_assert_uint_lt(loop_iterations(n_vocab, limits[_i].workgroup_size), 60000);
    sampler_open(&s, n_vocab);
    VkPipeline pipeline = sampler_pipeline(&s, limits[_i].workgroup_size);
    test_random random = {(uint64_t)_i + 1000};
    tally t = {0};
    fill_history(&s, n_vocab, &random);
    const sample_settings longest[] = {
        /* All passes: too many ties for the list, cut by top-p in the midst of them. */
        {.seed = 1,
         .temperature = 1,
         .top_k = n_vocab - 10,
         .top_p = 0.7f,
         .penalty = 1.2f,
         .last_n = 512},
        {.seed = 2, .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .penalty = 1},
        {.seed = 3, .temperature = 1, .top_p = 0.9f, .penalty = 1},
        {.seed = 4, .temperature = 0, .top_p = 1, .penalty = 1.5f, .last_n = 300},
    };
    static const enum row_pattern patterns[] = {ROW_TIES, ROW_NORMAL, ROW_EQUAL};
    uint32_t n_runs = harness_is_slow(&s.h) ? 2 : COUNT(longest);
    for (uint32_t i = 0; i < n_runs; i++) {
        for (uint32_t r = 0; r < n_rows; r++) {
            float *row = sampler_row(&s, r, n_vocab);
            fill_row(row, n_vocab, patterns[r], &random);
            row[n_vocab - 1] = r == 1 ? 13 : row[0];
        }
        check_rows(&s, pipeline, n_vocab, n_vocab, 0, n_rows, &longest[i], &t);
    }
    check_tally(&t);
    sampler_close(&s);
}
END_TEST

/* A row gives the same bits alone, at another place of the pass, and among 17. */
START_TEST(rows_do_not_depend_on_their_company)
{
    static sampler s;
    uint32_t n_vocab = 1000;
    sampler_open(&s, n_vocab);
    VkPipeline pipeline = sampler_pipeline(&s, 128);
    test_random random = {5};
    static float rows[MAX_ROWS][1000];
    fill_history(&s, n_vocab, &random);
    uint32_t n_settings = harness_is_slow(&s.h) ? 4 : 24;
    for (uint32_t i = 0; i < n_settings; i++) {
        sample_settings settings = settings_number(i * 7 + 1, &random);
        sampled all[MAX_ROWS];
        sampled alone[MAX_ROWS];
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            fill_row(rows[r], n_vocab, (r + i) % N_ROW_PATTERNS, &random);
        memcpy(s.logits.mapped, rows, sizeof rows);
        sampler_run(&s, pipeline, n_vocab, n_vocab, 700, 0, MAX_ROWS, &settings, all);
        for (uint32_t r = 0; r < MAX_ROWS; r++) {
            memcpy(s.logits.mapped, rows[r], sizeof rows[r]);
            sampler_run(&s, pipeline, n_vocab, n_vocab, 700 + r / 2, r - r / 2, 1, &settings,
                        alone);
            ck_assert_uint_eq(alone[0].token, all[r].token);
            ck_assert_uint_eq(alone[0].probability_bits, all[r].probability_bits);
        }
    }
    sampler_close(&s);
}
END_TEST

START_TEST(workgroup_size_does_not_matter)
{
    static sampler s;
    uint32_t n_vocab = 3000;
    sampler_open(&s, n_vocab);
    static const uint32_t workgroup_sizes[] = {128, 32, 64, 256};
    VkPipeline pipelines[COUNT(workgroup_sizes)];
    for (uint32_t p = 0; p < COUNT(workgroup_sizes); p++)
        pipelines[p] = sampler_pipeline(&s, workgroup_sizes[p]);
    test_random random = {6};
    static float rows[MAX_ROWS][3000];
    fill_history(&s, n_vocab, &random);
    uint32_t n_settings = harness_is_slow(&s.h) ? 4 : 24;
    for (uint32_t i = 0; i < n_settings; i++) {
        sample_settings settings = settings_number(i * 11 + 1, &random);
        sampled first[MAX_ROWS];
        sampled other[MAX_ROWS];
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            fill_row(rows[r], n_vocab, (r + i) % N_ROW_PATTERNS, &random);
        for (uint32_t p = 0; p < COUNT(workgroup_sizes); p++) {
            memcpy(s.logits.mapped, rows, sizeof rows);
            sampler_run(&s, pipelines[p], n_vocab, n_vocab, 700, 0, MAX_ROWS, &settings,
                        p == 0 ? first : other);
            if (p > 0)
                ck_assert_mem_eq(first, other, sizeof first);
        }
    }
    sampler_close(&s);
}
END_TEST

/* Which ids a setting lets through: a bit for each of the first 32, over many positions. */
static uint32_t seen_ids(sampler *s, VkPipeline pipeline, const float *row, uint32_t n_vocab,
                         const sample_settings *settings, uint32_t n_runs)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < n_runs; i++) {
        sampled got[MAX_ROWS];
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            memcpy(sampler_row(s, r, n_vocab), row, n_vocab * sizeof *row);
        sampler_run(s, pipeline, n_vocab, n_vocab, MAX_ROWS * i, 0, MAX_ROWS, settings, got);
        for (uint32_t r = 0; r < MAX_ROWS; r++) {
            ck_assert_uint_lt(got[r].token, 32);
            seen |= 1u << got[r].token;
        }
    }
    return seen;
}

/* Equal logits: cuts take the lowest ids, and exactly as many as they should. */
START_TEST(cuts_among_equals_take_the_lowest_ids)
{
    static sampler s;
    enum { N = 2000 };
    static float row[N];
    sampler_open(&s, N);
    VkPipeline pipeline = sampler_pipeline(&s, 64);
    static const struct {
        uint32_t n_vocab, top_k, n_high; /* n_high tokens have logit 1, the others 0 */
        float top_p, min_p;
        uint32_t n_kept;
    } cases[] = {
        {N, 7, 0, 1, 0, 7},         {N, 1, 0, 1, 0, 1},      {10, 0, 0, 0.5f, 0, 5},
        {10, 0, 0, 0.51f, 0, 6},    {10, 0, 0, 1e-9f, 0, 1}, {N, 20, 0, 0.5f, 0, 10},
        {N, 8, 0, 0.26f, 0, 3},     {N, 0, 3, 1, 0.5f, 3},   {N, 5, 3, 1, 0.1f, 5},
        {N, 5, 3, 0.3f, 0.99f, 2},  {N, 0, 4, 1, 5, 4},      {N, 0, 1, 0, 0, 1},
        {10, 10, 2, 0.999f, 0, 10}, {10, 99, 2, 1, 0, 10},   {N, 0, 0, 0.00495f, 0, 10},
    };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        sample_settings settings = plain;
        settings.seed = i;
        settings.top_k = cases[i].top_k;
        settings.top_p = cases[i].top_p;
        settings.min_p = cases[i].min_p;
        for (uint32_t v = 0; v < N; v++)
            row[v] = v < cases[i].n_high ? 1 : 0;
        uint32_t seen = seen_ids(&s, pipeline, row, cases[i].n_vocab, &settings, 10);
        ck_assert_msg(seen == (1u << cases[i].n_kept) - 1, "case %u: seen %x", i, seen);
    }
    /* Greedy too. -0 and 0 are equal. */
    sampled got[MAX_ROWS];
    float *zeros = sampler_row(&s, 0, 4);
    memcpy(zeros, (float[]){-1, -0.0f, 0, -0.0f}, 4 * sizeof *zeros);
    sampler_run(&s, pipeline, 4, 4, 0, 0, 1, &greedy, got);
    ck_assert_uint_eq(got[0].token, 1);
    sampler_close(&s);
}
END_TEST

/* As many candidates as the kernel's list in shared memory holds, one more and one less: the
 * probability shows when one gets lost. */
START_TEST(candidates_fill_the_list)
{
    static sampler s;
    enum { N = 2000, CAPACITY = 512 };
    sampler_open(&s, N);
    VkPipeline pipeline = sampler_pipeline(&s, 128);
    tally t = {0};
    for (uint32_t n_high = CAPACITY - 1; n_high <= CAPACITY + 1; n_high++) {
        sample_settings settings = plain;
        settings.seed = n_high;
        settings.top_k = n_high;
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            for (uint32_t v = 0; v < N; v++)
                sampler_row(&s, r, N)[v] = v < n_high ? 1 : 0;
        check_rows(&s, pipeline, N, N, 0, MAX_ROWS, &settings, &t);
    }
    check_tally(&t);
    sampler_close(&s);
}
END_TEST

/* NaN and -inf are never chosen; with nothing else, token 0 with probability 0. +inf is the
 * highest. */
START_TEST(numbers_that_are_none)
{
    static sampler s;
    sampler_open(&s, 300);
    VkPipeline pipeline = sampler_pipeline(&s, 128);
    for (int sampling = 0; sampling < 3; sampling++) {
        sample_settings settings = sampling > 0 ? plain : greedy;
        if (sampling == 2) {
            settings.top_k = 4;
            settings.top_p = 0.9f;
            settings.min_p = 0.1f;
        }
        settings.seed = 77;
        for (uint32_t r = 0; r < 4; r++) {
            float *row = sampler_row(&s, r, 300);
            for (uint32_t v = 0; v < 300; v++)
                row[v] = v % 2 ? NAN : -INFINITY;
        }
        sampler_row(&s, 1, 300)[211] = -3e38f;
        sampler_row(&s, 2, 300)[5] = 1e-40f;
        sampler_row(&s, 3, 300)[7] = 3e38f;
        sampler_row(&s, 3, 300)[123] = INFINITY;
        sampled got[MAX_ROWS];
        sampler_run(&s, pipeline, 300, 300, 0, 0, 4, &settings, got);
        static const uint32_t expected[] = {0, 211, 5, 123};
        for (uint32_t r = 0; r < 4; r++) {
            ck_assert_uint_eq(got[r].token, expected[r]);
            ck_assert(got[r].probability == (r == 0 || r == 3 ? 0 : 1));
        }
    }
    sampler_close(&s);
}
END_TEST

/* A token is penalised once, within the window, up to the row's own position, in both signs. */
START_TEST(penalties_act_once_within_the_window)
{
    static sampler s;
    enum { N = 16, BASE = 900 };
    sampler_open(&s, N);
    VkPipeline pipeline = sampler_pipeline(&s, 32);
    for (uint32_t i = 0; i < SAMPLER_HISTORY; i++)
        s.history[i] = N + i; /* no token at all: must do nothing */
    s.history[BASE] = 3;      /* seen by output row 0 and later */
    s.history[BASE - 1] = 3;
    s.history[BASE + 1] = 4;   /* seen by row 1 and later */
    s.history[BASE - 511] = 5; /* the last of a window of 512 of row 0 */
    s.history[BASE - 512] = 6; /* just outside */
    static const float before[N] = {0, 1, 2, 8, -4, 7, 6};
    sample_settings settings = greedy;
    settings.penalty = 2;
    static const struct {
        uint32_t last_n, n_changed;
        float row0[3], row1[3]; /* of tokens 3, 4, 5 */
    } cases[] = {
        {0, 0, {8, -4, 7}, {8, -4, 7}},         {1, 1, {4, -4, 7}, {8, -8, 7}},
        {2, 1, {4, -4, 7}, {4, -8, 7}},         {512, 2, {4, -4, 3.5f}, {4, -8, 7}},
        {100000, 2, {4, -4, 3.5f}, {4, -8, 7}}, /* at most 512 */
    };
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        sampled got[MAX_ROWS];
        for (uint32_t r = 0; r < 2; r++)
            memcpy(sampler_row(&s, r, N), before, sizeof before);
        settings.last_n = cases[i].last_n;
        sampler_run(&s, pipeline, N, N, BASE - 2, 2, 2, &settings, got);
        float *row0 = sampler_row(&s, 0, N);
        float *row1 = sampler_row(&s, 1, N);
        ck_assert_mem_eq(row0 + 3, cases[i].row0, sizeof cases[i].row0);
        ck_assert_mem_eq(row1 + 3, cases[i].row1, sizeof cases[i].row1);
        ck_assert(row0[6] == 6);
        uint32_t n_changed = 0;
        for (uint32_t v = 0; v < N; v++)
            n_changed += row0[v] != before[v];
        ck_assert_uint_eq(n_changed, cases[i].n_changed);
        ck_assert_uint_eq(got[0].token, i == 0 ? 3 : i < 3 ? 5 : 6);
    }
    /* The window ends with the history's beginning. */
    s.history[0] = 3;
    memcpy(sampler_row(&s, 0, N), before, sizeof before);
    settings.last_n = 512;
    sampled got[MAX_ROWS];
    sampler_run(&s, pipeline, N, N, 0, 0, 1, &settings, got);
    ck_assert(sampler_row(&s, 0, N)[3] == 4);
    ck_assert_uint_eq(got[0].token, 5);
    sampler_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample");
    TCase *tc = tcase_create("sample");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, agrees_with_the_reference, 0, COUNT(sizes));
    tcase_add_loop_test(tc, large_vocabularies_stay_in_the_loop_budget, 0, COUNT(limits));
    tcase_add_test(tc, rows_do_not_depend_on_their_company);
    tcase_add_test(tc, workgroup_size_does_not_matter);
    tcase_add_test(tc, cuts_among_equals_take_the_lowest_ids);
    tcase_add_test(tc, candidates_fill_the_list);
    tcase_add_test(tc, numbers_that_are_none);
    tcase_add_test(tc, penalties_act_once_within_the_window);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Rejection sampling and block verification on the device: the shaders against a reference in double
 * precision on made-up probabilities, and what comes out of whole blocks against the target's exact
 * distribution. Two planted faults must be seen: noise that draft and residual share, and noise that is
 * the same in one block and the next. `slow` as argument takes as many samples as the power demands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "chi_square.h"
#include "rule_runner.h"
#include "sampler.h"
#include "verify_reference.h"

#define TOLERANCE 2e-5 /* of a chance, and of weights relative to the probabilities */
#define NEAR 2e-3      /* two scores so near may change places in single precision */

static bool is_slow_suite;

/* ------------------------------------------------------------------ shaders and reference */

enum q_pattern {
    Q_NEAR,     /* the draft is much like the target */
    Q_FAR,      /* it has little to do with it */
    Q_THE_SAME, /* it is the target */
    Q_HOLES,    /* either gives some tokens no probability */
    N_Q_PATTERNS,
};

static void normalise(float *row, uint32_t n)
{
    double sum = 0;

    for (uint32_t v = 0; v < n; v++)
        sum += (double)row[v];
    for (uint32_t v = 0; v < n; v++)
        row[v] = (float)((double)row[v] / sum);
}

/* Rows of probabilities: those that a block has, and the draft's behind its first row. */
static void fill_block(rule_runner *r, uint32_t n, enum q_pattern pattern, test_random *random)
{
    for (uint32_t row = 0; row <= n; row++) {
        float *p = target_row(r, row), *q = row < n ? draft_row(r, row + 1) : NULL;
        double spread = 3 * random_uniform(random), off = pattern == Q_FAR ? 2 : 0.5;

        for (uint32_t v = 0; v < r->n_vocab; v++) {
            double logit = spread * random_normal(random);
            p[v] = (float)exp(logit);
            if (!q)
                continue;
            q[v] = pattern == Q_THE_SAME ? p[v] : (float)exp(logit + off * random_normal(random));
            if (pattern == Q_HOLES && v > 0) {
                p[v] = random_word(random) % 4 ? p[v] : 0;
                q[v] = random_word(random) % 4 ? q[v] : 0;
            }
        }
        normalise(p, r->n_vocab);
        if (q)
            normalise(q, r->n_vocab);
    }
}

static uint32_t draw(const float *row, uint32_t n_vocab, test_random *random)
{
    double u = random_uniform(random);
    uint32_t last = 0;

    for (uint32_t v = 0; v < n_vocab; v++) {
        if (row[v] > 0)
            last = v;
        if (row[v] > 0 && (u -= (double)row[v]) < 0)
            return v;
    }
    return last;
}

/* The token that the residual's noise chooses; *margin: how far the next one is. Weights that rounding
 * may have made count as near. */
static uint32_t choose(const drafted_block *b, const rule_outcome *o, uint32_t i, uint64_t seed,
                       uint32_t root, double *margin)
{
    double best = -INFINITY, second = -INFINITY;
    uint32_t chosen = 0;

    for (uint32_t v = 0; v < b->n_vocab; v++) {
        double score = residual_score(b, o, i, v, seed, root);
        if (score > best) {
            second = best;
            best = score;
            chosen = v;
        } else if (score > second) {
            second = score;
        }
    }
    *margin = best - second;
    if (residual_weight(b, o, i, chosen) < 1e-3 * (double)b->p[(size_t)i * b->stride + chosen])
        *margin = 0;
    return chosen;
}

typedef struct agreement {
    uint32_t n_tests, n_passes, n_residuals, n_near;
} agreement;

static void compare_block(rule_runner *r, uint32_t rule, const drafted_block *b, uint64_t seed,
                          agreement *seen)
{
    const uint32_t *x = exchange_words(r);
    uint32_t root = x[X_ROOT];
    static rule_outcome o;

    verify_reference(rule, b, &o);
    for (uint32_t i = 0; i < b->n; i++) {
        double u = acceptance_number(seed, root + i + 1, root), margin;
        bool passes = x[X_PASSES + i] != 0;

        seen->n_tests++;
        seen->n_passes += passes;
        if (fabs(u - o.chance[i]) > TOLERANCE)
            ck_assert_msg(passes == (u < o.chance[i]), "rule %u, token %u of %u: %g < %.9g: %d",
                          rule, i + 1, b->n, u, o.chance[i], passes);
        else
            seen->n_near++;
        uint32_t token = choose(b, &o, i, seed, root, &margin);
        if (o.sum[i] < TOLERANCE || margin < NEAR)
            continue;
        seen->n_residuals++;
        ck_assert_msg(x[X_RESIDUALS + i] == token,
                      "rule %u, residual behind %u of %u: token %u, not %u (sum %g, margin %g)",
                      rule, i, b->n, x[X_RESIDUALS + i], token, o.sum[i], margin);
    }
}

/* decide.comp: what accept.comp will find, by the tests of residual.comp. */
static void compare_decision(rule_runner *r, uint32_t rule, const uint32_t own[MAX_ROWS])
{
    const uint32_t *x = exchange_words(r);
    const uint32_t *chosen = target_words(r) + LANE_RESULTS + R_TOKEN;
    uint32_t n = x[X_DRAFTED], want[LANE_HISTORY];

    memcpy(want + LANE_RESULTS + R_TOKEN, own, (n + 1) * sizeof *own);
    reference_decide(want, x, rule);
    for (uint32_t i = 0; i <= n; i++)
        ck_assert_uint_eq(chosen[i], want[LANE_RESULTS + R_TOKEN + i]);
}

static void run_case(rule_runner *r, uint32_t rule, uint32_t n, enum q_pattern pattern,
                     test_random *random, agreement *seen)
{
    uint32_t *x = exchange_words(r), own[MAX_ROWS], root = 1 + random_word(random) % 900;
    uint64_t seed = (uint64_t)random_word(random) << 32 | random_word(random);

    rule_begin(r, root);
    fill_block(r, n, pattern, random);
    x[X_DRAFTED] = n;
    for (uint32_t i = 0; i < n; i++) {
        float probability;
        x[X_TOKENS + 1 + i] = draw(draft_row(r, i + 1), r->n_vocab, random);
        probability = draft_row(r, i + 1)[x[X_TOKENS + 1 + i]];
        memcpy(&x[X_PROBABILITIES + i], &probability, sizeof probability);
    }
    for (uint32_t i = 0; i <= n; i++)
        own[i] = target_words(r)[LANE_RESULTS + R_TOKEN + i] = random_word(random) % r->n_vocab;
    rule_verify(r, rule, seed);
    const drafted_block b = {.n = n,
                             .n_vocab = r->n_vocab,
                             .stride = r->stride,
                             .p = target_row(r, 0),
                             .q = draft_row(r, 1),
                             .tokens = x + X_TOKENS + 1};
    compare_block(r, rule, &b, seed, seen);
    compare_decision(r, rule, own);
}

START_TEST(blocks_are_as_in_the_reference)
{
    static const uint32_t sizes[] = {2, 13, 127, 1000, 5003};
    rule_runner r;
    agreement seen = {0};
    test_random random = {(uint64_t)_i + 11};

    rule_runner_open(&r, sizes[_i], true);
    uint32_t n_cases = harness_is_slow(&r.h) || sizes[_i] > 500 ? 2 : 8;
    for (uint32_t rule = 0; rule < N_RULES; rule++)
        for (uint32_t pattern = 0; pattern < N_Q_PATTERNS; pattern++)
            for (uint32_t n = 1; n < MAX_ROWS; n += n < 4 ? 1 : 4)
                for (uint32_t i = 0; i < n_cases; i++)
                    run_case(&r, rule, n, pattern, &random, &seen);
    printf("%u tokens: %u of %u tests passed, %u too near to tell, %u residual tokens compared\n",
           sizes[_i], seen.n_passes, seen.n_tests, seen.n_near, seen.n_residuals);
    ck_assert_uint_lt(seen.n_near, 2 + seen.n_tests / 100);
    ck_assert_uint_gt(seen.n_residuals, seen.n_tests / 3);
    ck_assert(seen.n_passes > seen.n_tests / 10 && seen.n_passes < seen.n_tests);
    rule_runner_close(&r);
}
END_TEST

/* A draft whose logits are not finite from some token on: the chain ends before it, and the target's own
 * choice follows where all before it was kept. */
START_TEST(a_draft_without_probabilities_ends_the_chain)
{
    enum { N = 6, GOOD = 3 };
    rule_runner r;
    test_random random = {5};

    rule_runner_open(&r, 40, true);
    for (uint32_t rule = 0; rule < N_RULES; rule++) {
        uint32_t *x = exchange_words(&r), n_whole = 0, n_cut = 0;
        for (uint32_t seed = 0; seed < 40; seed++) {
            rule_begin(&r, 7);
            fill_block(&r, N, Q_NEAR, &random);
            x[X_DRAFTED] = N;
            for (uint32_t i = 0; i < N; i++) {
                float probability = i < GOOD ? 0.5f : 0;
                x[X_TOKENS + 1 + i] = i < GOOD ? draw(draft_row(&r, i + 1), 40, &random) : 0;
                memcpy(&x[X_PROBABILITIES + i], &probability, sizeof probability);
                if (i >= GOOD)
                    memset(draft_row(&r, i + 1), 0, r.stride * sizeof(float));
            }
            uint32_t *chosen = target_words(&r) + LANE_RESULTS + R_TOKEN, tokens[MAX_ROWS];
            for (uint32_t i = 0; i <= N; i++)
                chosen[i] = 39;
            rule_verify(&r, rule, seed);
            uint32_t n = rule_accept(&r, tokens);
            for (uint32_t i = GOOD; i < N; i++)
                ck_assert_uint_eq(x[X_PASSES + i], 0);
            ck_assert_uint_le(n, GOOD + 1);
            n_whole += n == GOOD + 1 && tokens[GOOD] == 39;
            n_cut += n <= GOOD;
        }
        ck_assert_uint_gt(n_whole, 5);
        ck_assert_uint_gt(n_cut, 2);
    }
    rule_runner_close(&r);
}
END_TEST

/* What sample.comp leaves behind: the probabilities of exactly the kept tokens, in the row that the state
 * names; and it draws with the stream and block of the state. */
START_TEST(rows_become_probabilities)
{
    static const sample_settings list[] = {
        {.temperature = 1, .top_p = 1, .penalty = 1},
        {.temperature = 0.7f, .top_k = 12, .top_p = 1, .penalty = 1},
        {.temperature = 1.3f, .top_p = 0.8f, .penalty = 1.2f, .last_n = 20},
        {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .penalty = 1},
    };
    enum { N_VOCAB = 300, ROOT = 21 };
    rule_runner r;
    test_random random = {8};
    uint32_t n_compared = 0;

    rule_runner_open(&r, N_VOCAB, true);
    uint32_t *history = (uint32_t *)r.draft_lane.mapped + LANE_HISTORY;
    for (uint32_t i = 0; i < 64; i++)
        history[i] = random_word(&random) % N_VOCAB;
    for (uint32_t pattern = 0; pattern < N_ROW_PATTERNS; pattern++)
        for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
            float logits[N_VOCAB];
            double expected[N_VOCAB];
            sample_outcome outcome;
            sample_settings settings = list[k];

            rule_begin(&r, ROOT);
            exchange_words(&r)[X_DRAFTED] = 2;
            fill_row(logits, N_VOCAB, pattern, &random);
            memcpy(draft_row(&r, 0), logits, sizeof logits);
            settings.seed = random_word(&random);
            settings.stream = NOISE_DRAFT;
            settings.block = ROOT;
            uint32_t token = rule_draft(&r, &settings);
            sample_reference(logits, N_VOCAB, history, ROOT + 2, &settings, &outcome, expected);
            if (outcome.cut_distance < 1e-4)
                continue; /* single precision may keep another set */
            n_compared++;
            for (uint32_t v = 0; v < N_VOCAB; v++)
                ck_assert_msg(fabs((double)draft_row(&r, 3)[v] - expected[v]) <= 1e-5,
                              "pattern %u, settings %zu, token %u: %g, not %g", pattern, k, v,
                              (double)draft_row(&r, 3)[v], expected[v]);
            ck_assert(outcome.margin < 1e-4 || token == outcome.token);
        }
    ck_assert_uint_gt(n_compared, 20);
    /* No token can be chosen: no probabilities. */
    for (uint32_t v = 0; v < N_VOCAB; v++)
        draft_row(&r, 0)[v] = NAN;
    rule_begin(&r, ROOT);
    rule_draft(&r, &list[0]);
    ck_assert_uint_eq(exchange_words(&r)[X_PROBABILITIES], 0);
    for (uint32_t v = 0; v < N_VOCAB; v++)
        ck_assert_float_eq(draft_row(&r, 1)[v], 0);
    rule_runner_close(&r);
}
END_TEST

/* ------------------------------------------------------------------- strings of three tokens */

/* Two or four tokens, with chances that depend on the text so far: node 1, and with a token more
 * n_tokens * node + token. The draft is often wrong. Of four tokens strings are counted in 16 cells, by
 * the first token and whether the second and the third are odd. */
enum {
    MAX_TOKENS = 4,
    MAX_NODES = 16384, /* texts of up to six tokens */
    TEXT_ROOT = 40,
};

typedef struct pair {
    uint32_t n_tokens, first_string; /* nodes from there on are texts of three tokens */
    double p[MAX_NODES][MAX_TOKENS], q[MAX_NODES][MAX_TOKENS];
} pair;

static void fill_chances(double *chances, uint32_t n, const double *base, double spread,
                         test_random *random)
{
    double sum = 0;

    for (uint32_t v = 0; v < n; v++)
        sum += chances[v] = base[v] * exp(spread * (2 * random_uniform(random) - 1));
    for (uint32_t v = 0; v < n; v++)
        chances[v] /= sum;
}

static void fill_pair(pair *m, uint32_t n_tokens)
{
    static const double two[] = {0.5, 0.5}, p_base[] = {0.1, 0.45, 0.35, 0.1},
                        q_base[] = {0.5, 0.38, 0.06, 0.06};
    test_random random = {n_tokens == 2 ? 4 : 77}; /* where the planted faults are plain */

    m->n_tokens = n_tokens;
    m->first_string = n_tokens * n_tokens * n_tokens;
    for (uint32_t node = 0; node < m->first_string * m->first_string; node++) {
        fill_chances(m->p[node], n_tokens, n_tokens == 2 ? two : p_base, n_tokens == 2 ? 1 : 0.5,
                     &random);
        fill_chances(m->q[node], n_tokens, n_tokens == 2 ? two : q_base, n_tokens == 2 ? 1 : 0.5,
                     &random);
    }
}

static void write_logits(float *row, const double *chances, uint32_t n)
{
    for (uint32_t v = 0; v < n; v++)
        row[v] = (float)log(chances[v]);
}

static uint32_t length_of(const pair *m, uint32_t node)
{
    uint32_t length = 0;

    for (; node > 1; node /= m->n_tokens)
        length++;
    return length;
}

static uint32_t cell_of(const pair *m, uint32_t string)
{
    return m->n_tokens == 2 ? string % 8 : string / 16 % 4 * 4 + string / 4 % 2 * 2 + string % 2;
}

/* A block of k drafted tokens behind a text; returns the text with what it gave, up to a string. */
static uint32_t run_block(rule_runner *r, const pair *m, uint32_t rule, uint32_t node, uint32_t k,
                          const sample_settings *settings)
{
    uint32_t nodes[MAX_ROWS] = {node}, tokens[MAX_ROWS];

    rule_begin(r, TEXT_ROOT + length_of(m, node));
    for (uint32_t i = 0; i < k; i++) {
        write_logits(draft_row(r, 0), m->q[nodes[i]], m->n_tokens);
        nodes[i + 1] = m->n_tokens * nodes[i] + rule_draft(r, settings);
    }
    for (uint32_t i = 0; i <= k; i++)
        write_logits(target_row(r, i), m->p[nodes[i]], m->n_tokens);
    rule_target(r, settings);
    rule_verify(r, rule, settings->seed);
    uint32_t n = rule_accept(r, tokens);
    for (uint32_t i = 0; i < n && node < m->first_string; i++)
        node = m->n_tokens * node + tokens[i];
    return node;
}

/* p-value of n strings. */
static double test_strings(rule_runner *r, const pair *m, uint32_t rule, uint32_t n)
{
    uint64_t counts[CHI_SQUARE_MAX_CELLS] = {0};
    double expected[CHI_SQUARE_MAX_CELLS] = {0};

    for (uint32_t seed = 0; seed < n; seed++) {
        const sample_settings settings = {.seed = seed, .temperature = 1, .top_p = 1, .penalty = 1};
        uint32_t node = 1;
        while (node < m->first_string)
            node = run_block(r, m, rule, node, 2 + seed % 2, &settings);
        counts[cell_of(m, node)]++;
    }
    for (uint32_t string = m->first_string; string < 2 * m->first_string; string++) {
        double chance = 1;
        for (uint32_t node = string; node > 1; node /= m->n_tokens)
            chance *= m->p[node / m->n_tokens][node % m->n_tokens];
        expected[cell_of(m, string)] += chance;
    }
    return chi_square_p(counts, expected, m->n_tokens == 2 ? 8 : 16);
}

static uint32_t n_strings(const rule_runner *r)
{
    bool slow_device = harness_is_slow(&r->h);

    /* A slow device has a third of the strings: the kernels are the same, only their compiler isn't. */
    if (is_slow_suite)
        return slow_device ? CHI_SQUARE_SAMPLES / 3 : CHI_SQUARE_SAMPLES;
    return slow_device ? 1500 : 3000;
}

START_TEST(strings_are_the_targets)
{
    rule_runner r;
    static pair m;

    fill_pair(&m, _i / N_RULES ? 4 : 2);
    rule_runner_open(&r, m.n_tokens, false);
    double p = test_strings(&r, &m, (uint32_t)_i % N_RULES, n_strings(&r));
    printf("rule %d: %u strings of %u tokens, p = %.4f\n", _i % N_RULES, n_strings(&r), m.n_tokens,
           p);
    ck_assert_double_ge(p, CHI_SQUARE_SIGNIFICANCE);
    rule_runner_close(&r);
}
END_TEST

/* The residual drawn with the draft's noise: other tests of losslessness have to see this fault too. */
START_TEST(shared_noise_is_seen)
{
    rule_runner r;
    static pair m;

    rule_runner_open(&r, 4, false);
    fill_pair(&m, 4);
    r.residual_stream = NOISE_DRAFT;
    double p = test_strings(&r, &m, (uint32_t)_i, 4000);
    printf("rule %d, the residual with the draft's noise: p = %g\n", _i, p);
    ck_assert_double_lt(p, 1e-6);
    rule_runner_close(&r);
}
END_TEST

/* A draft that draws at a position what it drew there in the block before: a block's verification has
 * looked at it already. */
START_TEST(noise_of_the_block_before_is_seen)
{
    rule_runner r;
    static pair m;

    rule_runner_open(&r, 2, false);
    fill_pair(&m, 2);
    r.same_blocks = true;
    double p = test_strings(&r, &m, RULE_BLOCK, 3000);
    printf("block rule, each block with the noise of the one before: p = %g\n", p);
    ck_assert_double_lt(p, 1e-6);
    rule_runner_close(&r);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("verification rules");
    TCase *tests = tcase_create("verification rules");
    is_slow_suite = argc > 1 && !strcmp(argv[1], "slow");
    tcase_set_timeout(tests, 3000);
    if (!is_slow_suite) {
        tcase_add_loop_test(tests, blocks_are_as_in_the_reference, 0, 5);
        tcase_add_test(tests, a_draft_without_probabilities_ends_the_chain);
        tcase_add_test(tests, rows_become_probabilities);
        tcase_add_loop_test(tests, shared_noise_is_seen, 0, N_RULES);
        tcase_add_test(tests, noise_of_the_block_before_is_seen);
    }
    tcase_add_loop_test(tests, strings_are_the_targets, 0, 2 * N_RULES);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

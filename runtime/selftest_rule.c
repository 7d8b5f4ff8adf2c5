/* Self-test of verification by the ratio of probabilities: the tests of drafted tokens and the tokens of
 * the residuals, and the decision between them (whole numbers, equal to the last bit). */
#include <math.h>
#include <string.h>

#include "selftest.h"
#include "verify_reference.h"

#define N_VOCAB 203
#define STRIDE 204
#define LANE_WORDS (LANE_HISTORY + 4)
#define BLOCKS 6 /* in each run */
/* Of a chance: at most MAX_ROWS products of ratios, three roundings each, and a sum of N_VOCAB weights that
 * are each rounded twice; all are at most 1. */
#define CHANCE_TOLERANCE ((3 * MAX_ROWS + 2 * N_VOCAB) * 0x1p-24)

static const char *const rule_names[N_RULES] = {
    [RULE_REJECTION] = "rejection",
    [RULE_BLOCK] = "block",
};

/* Buffers as the device has them, and what the words must be after the kernel. */
typedef struct rule_check {
    gpu_buffer *target, *draft, *lane, *exchange; /* probabilities, words */
    uint32_t rule;
    uint64_t seed;
    uint32_t want_lane[LANE_WORDS], want_exchange[X_WORDS];
} rule_check;

/* A row of probabilities; a few tokens have none. */
static void random_distribution(selftest *t, float *row)
{
    double sum = 0;

    for (uint32_t v = 0; v < N_VOCAB; v++) {
        row[v] = random_bits(t) % 8 ? expf(random_between(t, -4, 0)) : 0;
        sum += (double)row[v];
    }
    for (uint32_t v = 0; v < N_VOCAB; v++)
        row[v] = (float)((double)row[v] / sum);
}

/* A block as sample.comp and propose.comp leave it. */
static void random_block(selftest *t, rule_check *c)
{
    uint32_t *lane = c->lane->mapped, *x = c->exchange->mapped;
    uint32_t drafted = random_bits(t) % MAX_ROWS;
    float *p = c->target->mapped, *q = c->draft->mapped;

    for (uint32_t row = 0; row < MAX_ROWS; row++) {
        random_distribution(t, p + row * STRIDE);
        random_distribution(t, q + row * STRIDE);
    }
    random_words(t, lane, LANE_WORDS);
    random_words(t, x, X_WORDS);
    c->seed = lane[S_SEED_LOW] | (uint64_t)lane[S_SEED_HIGH] << 32;
    x[X_ROOT] = random_bits(t) % 1000;
    x[X_DRAFTED] = drafted;
    for (uint32_t i = 0; i < drafted; i++) {
        const float *row = q + (i + 1) * STRIDE;
        uint32_t token;

        do
            token = random_bits(t) % N_VOCAB;
        while (!(row[token] > 0));
        x[X_TOKENS + 1 + i] = token;
        memcpy(&x[X_PROBABILITIES + i], &row[token], sizeof row[token]);
    }
    memcpy(c->want_lane, lane, sizeof c->want_lane);
    memcpy(c->want_exchange, x, sizeof c->want_exchange);
}

/* Of a token's score: wide where its weight is a difference of nearly equal numbers. */
static double score_tolerance(const drafted_block *b, const rule_outcome *o, uint32_t i,
                              uint32_t token)
{
    double weight = residual_weight(b, o, i, token);
    double p = o->scale[i] * (double)b->p[i * STRIDE + token];

    if (!(weight > 0))
        return 0;
    return CHANCE_TOLERANCE * p / weight + 100 * 8 * 0x1p-24; /* as that of sampling */
}

/* The token drawn from the residual behind i tokens has the best score, or one as near to it as rounding
 * may bring another. */
static void compare_residual(selftest *t, const rule_check *c, const drafted_block *b,
                             const rule_outcome *o, uint32_t i, uint32_t token)
{
    uint32_t root = c->want_exchange[X_ROOT], winner = 0;
    double best = -INFINITY;

    if (o->sum[i] < N_VOCAB * 0x1p-24) { /* may be rounded to nothing: the target's own choice */
        if (o->sum[i] > 0)
            return;
        expect_near(t, i, token, token, c->want_lane[LANE_RESULTS + R_TOKEN + i], 0);
        return;
    }
    for (uint32_t v = 0; v < N_VOCAB; v++) {
        double score = residual_score(b, o, i, v, c->seed, root);

        if (score > best) {
            best = score;
            winner = v;
        }
    }
    if (token >= N_VOCAB) {
        expect_near(t, i, token, NAN, 0, 1);
        return;
    }
    expect_near(t, i, token, residual_score(b, o, i, token, c->seed, root), best,
                score_tolerance(b, o, i, token) + score_tolerance(b, o, i, winner));
}

/* Test i of a block: by its random number, unless that is too near to the chance. */
static void compare_passes(selftest *t, const rule_check *c, const rule_outcome *o, uint32_t i,
                           uint32_t passes)
{
    uint32_t root = c->want_exchange[X_ROOT];
    double distance = o->chance[i] - acceptance_number(c->seed, root + i + 1, root);

    if (fabs(distance) > CHANCE_TOLERANCE)
        expect_near(t, i, 0, passes, distance > 0, 0);
    else
        expect_near(t, i, 0, passes > 1, 0, 0);
}

static void compare_rule(selftest *t, rule_check *c)
{
    const uint32_t *x = c->exchange->mapped;
    uint32_t n = c->want_exchange[X_DRAFTED], *want = c->want_exchange;
    rule_outcome o = {0};
    const drafted_block b = {.n = n,
                             .n_vocab = N_VOCAB,
                             .stride = STRIDE,
                             .p = c->target->mapped,
                             .q = (const float *)c->draft->mapped + STRIDE,
                             .tokens = want + X_TOKENS + 1};

    if (t->result != OTR_OK)
        return;
    if (n)
        verify_reference(c->rule, &b, &o);
    for (uint32_t i = 0; i < n; i++) {
        compare_passes(t, c, &o, i, x[X_PASSES + i]);
        compare_residual(t, c, &b, &o, i, x[X_RESIDUALS + i]);
        want[X_PASSES + i] = x[X_PASSES + i];
        want[X_RESIDUALS + i] = x[X_RESIDUALS + i];
    }
    want[X_RESIDUALS + n] = c->want_lane[LANE_RESULTS + R_TOKEN + n];
    expect_words(t, "lane", c->lane->mapped, c->want_lane, LANE_WORDS);
    expect_words(t, "exchange", x, want, X_WORDS);
}

static void check_residual(selftest *t, rule_check *c)
{
    const uint32_t lanes = t->tuning.sample_lanes;
    const uint32_t push[] = {c->rule, N_VOCAB, STRIDE, STRIDE, NOISE_RESIDUAL};
    const kernel_run run = {
        .pipeline = selftest_pipeline(t, "residual", &lanes, 1, false),
        .buffers = {c->target, c->draft, c->lane, c->exchange},
        .state = c->lane,
        .push = push,
        .push_bytes = sizeof push,
        .groups = {1, MAX_ROWS, 1},
    };

    selftest_begin(t, "residual %s", rule_names[c->rule]);
    for (t->run = 0; t->run < SELFTEST_RUNS; t->run++)
        for (uint32_t i = 0; i < BLOCKS && t->result == OTR_OK; i++) {
            random_block(t, c);
            selftest_dispatch(t, &run);
            compare_rule(t, c);
        }
    selftest_end(t, "");
}

static void check_decide(selftest *t, rule_check *c)
{
    const uint32_t push[] = {c->rule};
    const kernel_run run = {
        .pipeline = selftest_pipeline(t, "decide", NULL, 0, false),
        .buffers = {c->lane, c->exchange},
        .push = push,
        .push_bytes = sizeof push,
        .groups = {1, 1, 1},
    };

    selftest_begin(t, "decide %s", rule_names[c->rule]);
    for (t->run = 0; t->run < SELFTEST_RUNS; t->run++)
        for (uint32_t i = 0; i < BLOCKS && t->result == OTR_OK; i++) {
            random_block(t, c);
            uint32_t *x = c->exchange->mapped;
            for (uint32_t k = 0; k < MAX_ROWS; k++)
                c->want_exchange[X_PASSES + k] = x[X_PASSES + k] = random_bits(t) % 3;
            reference_decide(c->want_lane, c->want_exchange, c->rule);
            selftest_dispatch(t, &run);
            if (t->result != OTR_OK)
                break;
            expect_words(t, "lane", c->lane->mapped, c->want_lane, LANE_WORDS);
            expect_words(t, "exchange", x, c->want_exchange, X_WORDS);
        }
    selftest_end(t, "");
}

void selftest_rule(selftest *t)
{
    rule_check *c = selftest_memory(t, sizeof *c);
    const uint64_t rows_bytes = MAX_ROWS * STRIDE * sizeof(float);

    if (t->result != OTR_OK)
        return;
    c->target = selftest_buffer(t, rows_bytes);
    c->draft = selftest_buffer(t, rows_bytes);
    c->lane = selftest_buffer(t, sizeof c->want_lane);
    c->exchange = selftest_buffer(t, sizeof c->want_exchange);
    for (c->rule = 0; c->rule < N_RULES && t->result == OTR_OK; c->rule++) {
        check_residual(t, c);
        check_decide(t, c);
    }
    selftest_release(t);
}

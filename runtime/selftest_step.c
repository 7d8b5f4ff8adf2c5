/* Self-test of the kernels that carry a block from step to step: begin, propose, accept (whole
 * numbers, equal to the last bit) and the choice of tokens. */
#include <math.h>
#include <string.h>

#include "calibration_bands.h"
#include "kernel_reference.h"
#include "philox.h"
#include "selftest.h"
#include "step_state.h"

#define N_HISTORY 512
#define LANE_WORDS (LANE_HISTORY + N_HISTORY)
#define REQUEST_ROWS 70
#define REQUEST_WORDS (Q_TOKENS + REQUEST_ROWS)
#define SCENARIOS 12 /* in each run */

/* ------------------------------------------------------------------------ begin, propose, accept
 */

/* Buffers as the device has them, and what they must hold after the kernel. */
typedef struct step_check {
    gpu_buffer *lane, *exchange, *request, *record;
    uint32_t want_lane[LANE_WORDS], want_exchange[X_WORDS];
    uint32_t want_request[REQUEST_WORDS], want_record[B_WORDS];
} step_check;

static void random_lane(selftest *t, uint32_t *lane, uint32_t root)
{
    random_words(t, lane, LANE_WORDS);
    lane[S_BASE] = random_bits(t) % 200;
    lane[S_ROWS] = random_bits(t) % 40;
    lane[S_OUT_FIRST] = random_bits(t) % 40;
    lane[S_OUT_ROWS] = random_bits(t) % 3 * (random_bits(t) % (MAX_ROWS + 1));
    lane[S_ORIGIN] = random_bits(t) % (root + 1);
    for (uint32_t i = 0; i < MAX_GRIDS; i++) {
        static const uint32_t rows_per_y[] = {0, 1, 8, 32}, tiles[] = {TILES, 0};
        uint32_t *grid = lane + LANE_GRID + 4 * i;

        grid[G_Y_ROWS] = rows_per_y[random_bits(t) % 4];
        grid[G_Z] = 1 + random_bits(t) % 300;
        grid[G_SOURCE] = random_bits(t) % 4 | tiles[random_bits(t) % (N_TILES + 1)] << G_TILE_SHIFT;
    }
}

/* Numbers in [0, 1) where the shaders take float bits. */
static void random_shares(selftest *t, uint32_t *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = random_between(t, 0, 1);
        memcpy(&words[i], &value, sizeof value);
    }
}

/* A block under way. */
static void random_scenario(selftest *t, step_check *c)
{
    uint32_t *lane = c->lane->mapped;
    uint32_t *exchange = c->exchange->mapped, *request = c->request->mapped;
    uint32_t drafted = random_bits(t) % MAX_ROWS, root = random_bits(t) % 200, agreed;

    random_lane(t, lane, root);
    random_words(t, exchange, X_WORDS);
    random_words(t, request, REQUEST_WORDS);
    random_words(t, c->record->mapped, B_WORDS);
    exchange[X_ROOT] = root;
    exchange[X_DRAFTED] = drafted;
    exchange[X_DONE] = random_bits(t) % 4 == 0;
    random_shares(t, &exchange[X_SURVIVAL], 1);
    random_shares(t, &lane[LANE_RESULTS + R_PROBABILITY], MAX_ROWS);
    random_shares(t, &request[Q_BANDS], CALIBRATION_BANDS);
    random_shares(t, &request[Q_SURVIVAL], OTR_MAX_DRAFT);
    exchange[X_N_STOPS] = random_bits(t) % (X_MAX_STOPS + 1);
    if (random_bits(t) % 2 && exchange[X_N_STOPS])
        exchange[X_STOPS + exchange[X_N_STOPS] - 1] = lane[LANE_RESULTS + R_TOKEN];
    if (random_bits(t) % 4 == 0) /* a row without a finite logit */
        lane[LANE_RESULTS + R_PROBABILITY + random_bits(t) % MAX_ROWS] = 0;
    agreed = random_bits(t) % 4 ? random_bits(t) % (drafted + 1) : drafted;
    memcpy(exchange + X_TOKENS + 1, lane + LANE_RESULTS + R_TOKEN, agreed * sizeof *exchange);
    request[Q_BASE] = random_bits(t) % 200;
    request[Q_ROWS] = random_bits(t) % (REQUEST_ROWS + 1);
    request[Q_OUT_ROWS] = random_bits(t) % (MAX_ROWS + 1);
    request[Q_OUT_FIRST] = random_bits(t) % REQUEST_ROWS;
    request[Q_STOPS] = random_bits(t) % (X_MAX_STOPS + 3);
    request[Q_ROOT] = random_bits(t) % 200;
    request[Q_CANCEL] = random_bits(t) % 4 == 0;

    memcpy(c->want_lane, lane, sizeof c->want_lane);
    memcpy(c->want_exchange, exchange, sizeof c->want_exchange);
    memcpy(c->want_request, request, sizeof c->want_request);
    memcpy(c->want_record, c->record->mapped, sizeof c->want_record);
}

static void compare_step(selftest *t, const step_check *c)
{
    expect_words(t, "lane", c->lane->mapped, c->want_lane, LANE_WORDS);
    expect_words(t, "exchange", c->exchange->mapped, c->want_exchange, X_WORDS);
    expect_words(t, "request", c->request->mapped, c->want_request, REQUEST_WORDS);
    expect_words(t, "record", c->record->mapped, c->want_record, B_WORDS);
}

static void check_begin(selftest *t, step_check *c, uint32_t mode, const char *name)
{
    uint32_t push[2] = {mode, 0};
    const kernel_run run = {
        .pipeline = selftest_pipeline(t, "begin", NULL, 0, false),
        .buffers = {c->lane, c->exchange, c->request},
        .push = push,
        .push_bytes = sizeof push,
        .groups = {1, 1, 1},
    };

    selftest_begin(t, "begin %s", name);
    for (t->run = 0; t->run < SELFTEST_RUNS; t->run++)
        for (uint32_t i = 0; i < SCENARIOS && t->result == OTR_OK; i++) {
            push[1] = i ? random_bits(t) % (MAX_GRIDS + 1) : MAX_GRIDS;
            random_scenario(t, c);
            reference_begin(c->want_lane, c->want_exchange, c->want_request, mode, push[1]);
            selftest_dispatch(t, &run);
            compare_step(t, c);
        }
    selftest_end(t, "");
}

static void check_propose(selftest *t, step_check *c)
{
    const kernel_run run = {
        .pipeline = selftest_pipeline(t, "propose", NULL, 0, false),
        .buffers = {c->lane, c->exchange, c->request},
        .groups = {1, 1, 1},
    };

    selftest_begin(t, "propose");
    for (t->run = 0; t->run < SELFTEST_RUNS; t->run++)
        for (uint32_t i = 0; i < SCENARIOS && t->result == OTR_OK; i++) {
            uint32_t *exchange = c->exchange->mapped;

            random_scenario(t, c);
            exchange[X_DRAFTED] %= OTR_MAX_DRAFT; /* begin stops a chain before it is too long */
            c->want_exchange[X_DRAFTED] = exchange[X_DRAFTED];
            reference_propose(c->want_lane, c->want_exchange, c->want_request);
            selftest_dispatch(t, &run);
            compare_step(t, c);
        }
    selftest_end(t, "");
}

static void check_accept(selftest *t, step_check *c, uint32_t mode)
{
    uint32_t push[1] = {mode};
    const kernel_run run = {
        .pipeline = selftest_pipeline(t, "accept", NULL, 0, false),
        .buffers = {c->lane, c->exchange, c->record},
        .push = push,
        .push_bytes = sizeof push,
        .groups = {1, 1, 1},
    };

    selftest_begin(t, "accept %s", mode == ACCEPT_FIRST ? "first token" : "block");
    for (t->run = 0; t->run < SELFTEST_RUNS; t->run++)
        for (uint32_t i = 0; i < SCENARIOS && t->result == OTR_OK; i++) {
            random_scenario(t, c);
            reference_accept(c->want_lane, c->want_exchange, c->want_record, mode);
            selftest_dispatch(t, &run);
            compare_step(t, c);
        }
    selftest_end(t, "");
}

/* --------------------------------------------------------------------------------------- sample */

#define N_VOCAB 1003
#define STRIDE 1004
#define FIRST_ROW 5
#define BASE 30
#define ORIGIN 11

typedef struct sample_check {
    float temperature; /* 0: greedy */
    uint32_t top_k;
    const char *name;
} sample_check;

/* How far the choice of a row is from the best one, and its probability; in double. */
static void compare_choice(selftest *t, const sample_check *c, const float *row, uint32_t r,
                           uint64_t seed, const uint32_t *results)
{
    double temperature = c->temperature > 0 ? (double)c->temperature : 1, best = -INFINITY, sum = 0;
    uint32_t token = results[R_TOKEN + r], winner = 0, n_better = 0;
    float peak = -INFINITY, probability;

    if (token >= N_VOCAB) {
        expect_near(t, r, token, NAN, 0, 1);
        return;
    }
    for (uint32_t i = 0; i < N_VOCAB; i++)
        peak = row[i] > peak ? row[i] : peak;
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        uint32_t rank = 0; /* higher logit first, then lower id */
        double score = (double)(row[i] - peak) / temperature;

        if (!(row[i] > -INFINITY)) /* or NaN: never chosen */
            continue;
        for (uint32_t j = 0; j < N_VOCAB && c->top_k; j++)
            rank += row[j] > row[i] || (row[j] == row[i] && j < i);
        if (c->top_k && rank >= c->top_k)
            continue;
        sum += exp(score);
        if (c->temperature > 0)
            score += noise_gumbel(noise_word(seed, ORIGIN + BASE + FIRST_ROW + r + 1, i));
        if (score > best) {
            best = score;
            winner = i;
        }
        if (i == token)
            n_better = 1; /* found among the kept ones */
    }
    double score = (double)(row[token] - peak) / temperature, chance = exp(score) / sum;
    if (c->temperature > 0) /* Scores are below 100 and take part with a few roundings each. */
        expect_near(t, r, token,
                    score +
                        noise_gumbel(noise_word(seed, ORIGIN + BASE + FIRST_ROW + r + 1, token)),
                    best, 100 * 8 * 0x1p-24);
    else
        expect_near(t, r, token, token, winner, 0);
    expect_near(t, r, token, n_better, 1, 0);
    memcpy(&probability, &results[R_PROBABILITY + r], 4);
    /* exp's error, of 3 + 2 |x| units with |x| under 100, above and below the line. */
    expect_near(t, r, token, (double)probability, chance, chance * 2 * (3 + 2 * 100) * 0x1p-23);
}

static void random_row(selftest *t, float *row, uint32_t kind)
{
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        float value = random_between(t, -8, 8);

        if (kind == 1)
            value = rintf(value / 4); /* ties: the lowest id counts */
        else if (kind == 2 && random_bits(t) % 2)
            value = random_bits(t) % 2 ? NAN : -INFINITY;
        else if (kind == 3)
            value = -3;
        row[i] = value;
    }
}

static void check_sample(selftest *t, const sample_check *c, gpu_buffer *lane, gpu_buffer *logits)
{
    const uint32_t lanes = t->tuning.sample_lanes, push[2] = {N_VOCAB, STRIDE};
    const kernel_run run = {
        .pipeline = selftest_pipeline(t, "sample", &lanes, 1, false),
        .buffers = {logits, lane},
        .state = lane,
        .push = push,
        .push_bytes = sizeof push,
        .groups = {1, MAX_ROWS, 1},
    };
    const uint32_t rows = MAX_ROWS - 1;
    uint32_t *words = lane->mapped, *results = words + LANE_RESULTS;
    const float off = 1;
    const uint64_t seed = UINT64_C(0x0123456789abcdef);

    memset(words, 0, STATE_WORDS * 4);
    words[S_BASE] = BASE;
    words[S_ORIGIN] = ORIGIN;
    words[S_ROWS] = FIRST_ROW + rows;
    words[S_OUT_FIRST] = FIRST_ROW;
    words[S_OUT_ROWS] = rows;
    words[S_SEED_LOW] = (uint32_t)seed;
    words[S_SEED_HIGH] = (uint32_t)(seed >> 32);
    memcpy(&words[S_TEMPERATURE], &c->temperature, 4);
    memcpy(&words[S_TOP_P], &off, 4);
    memcpy(&words[S_PENALTY], &off, 4);
    words[S_TOP_K] = c->top_k;
    selftest_begin(t, "sample %s", c->name);
    for (t->run = 0; t->run < SELFTEST_RUNS && t->result == OTR_OK; t->run++) {
        float *row = logits->mapped;

        for (uint32_t r = 0; r < MAX_ROWS; r++)
            random_row(t, row + r * STRIDE, r % 4);
        results[R_TOKEN + rows] = results[R_PROBABILITY + rows] = SELFTEST_POISON;
        selftest_dispatch(t, &run);
        for (uint32_t r = 0; r < rows && t->result == OTR_OK; r++)
            compare_choice(t, c, row + r * STRIDE, r, seed, results);
        expect_near(t, rows, 0, results[R_TOKEN + rows], SELFTEST_POISON, 0);
        expect_near(t, rows, 0, results[R_PROBABILITY + rows], SELFTEST_POISON, 0);
    }
    selftest_end(t, "");
}

/* --------------------------------------------------------------------------------- the self-test
 */

static const char *const begin_modes[N_BEGIN_MODES] = {
    [BEGIN_REQUEST] = "request",   [BEGIN_OUTPUT] = "output", [BEGIN_CHAIN] = "chain",
    [BEGIN_DRAFT] = "draft",       [BEGIN_VERIFY] = "verify", [BEGIN_PROPOSED] = "proposed",
    [BEGIN_GENERATE] = "generate",
};

static const sample_check samples[] = {
    {0, 0, "greedy"},
    {0.8f, 0, "with noise"},
    {1.3f, 40, "top-k with noise"},
};

void selftest_step(selftest *t)
{
    step_check *c = selftest_memory(t, sizeof *c);
    gpu_buffer *logits = selftest_buffer(t, MAX_ROWS * STRIDE * 4);

    if (t->result != OTR_OK)
        return;
    c->lane = selftest_buffer(t, sizeof c->want_lane);
    c->exchange = selftest_buffer(t, sizeof c->want_exchange);
    c->request = selftest_buffer(t, sizeof c->want_request);
    c->record = selftest_buffer(t, sizeof c->want_record);
    for (uint32_t mode = 0; mode < N_BEGIN_MODES && t->result == OTR_OK; mode++)
        check_begin(t, c, mode, begin_modes[mode]);
    if (t->result == OTR_OK)
        check_propose(t, c);
    for (uint32_t mode = 0; mode < N_ACCEPT_MODES && t->result == OTR_OK; mode++)
        check_accept(t, c, mode);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0] && t->result == OTR_OK; i++)
        check_sample(t, &samples[i], c->lane, logits);
    selftest_release(t);
}

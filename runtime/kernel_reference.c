/* CPU references of the kernels (kernel_reference.h), written from what a kernel is for, not from
 * how its shader goes about it. */
#include "kernel_reference.h"

#include <math.h>
#include <string.h>

#include "calibration_bands.h"
#include "format.h"
#include "step_state.h"

#define U 0x1p-24

/* Vulkan: exp(x) is within 3 + 2 |x| units in the last place, which are 2 u each. */
static double exp_error(double x)
{
    return (3 + 2 * fabs(x)) * 2 * U;
}

/* ------------------------------------------------------------------------------------ layers */

void reference_rmsnorm(const float *x, const float *weight, uint32_t n, double eps, double *out)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        out[i] = (double)x[i] / sqrt(sum / n + eps) * (double)weight[i];
}

double rmsnorm_tolerance(uint32_t n, uint32_t lanes)
{
    /* Squares have no signs that cancel: each addition costs u of the whole sum, and the root
     * halves it. Then a division and an addition before the root; the root as 1 / inversesqrt (2
     * and 2.5 units), a division (2.5 units), two products. */
    double sum = (double)n / lanes + lanes + 5 + 1;

    return (sum / 2 + (2 + 2.5 + 2.5) * 2 + 2) * U;
}

double reference_swiglu(double gate, double up)
{
    return gate / (1 + exp(-gate)) * up;
}

double swiglu_tolerance(double gate, double up)
{
    /* exp's error counts by its share of the divisor; an addition, a division (2.5 units), a
     * product. Beyond 2^126 the divisor is out of the division's range: the result is next to
     * nothing then. */
    double share = 1 / (1 + exp(gate));

    return fabs(reference_swiglu(gate, up)) * (share * exp_error(gate) + (1 + 2.5 * 2 + 1) * U) +
           fabs(up) * 0x1p-118;
}

void reference_rotation(const float pair[2], const float angle[2], double out[2])
{
    double x = (double)pair[0], y = (double)pair[1], c = (double)angle[0], s = (double)angle[1];

    out[0] = x * c - y * s;
    out[1] = x * s + y * c;
}

double rotation_tolerance(const float pair[2], const float angle[2])
{
    /* Three roundings where a device has no fused multiply-add, of no more than this sum. */
    double largest = fmax(fabs((double)angle[0]), fabs((double)angle[1]));

    return 3 * U * largest * (fabs((double)pair[0]) + fabs((double)pair[1]));
}

double half_tolerance(double value)
{
    return fabs(value) * 0x1p-10 + 0x1p-14;
}

void reference_attention(const reference_head *h, double *weights, double *out, double *tolerance)
{
    double highest = -INFINITY, lowest = INFINITY, score_size = 0, total = 0;

    for (uint32_t p = 0; p < h->n_positions; p++) {
        double score = 0, size = 0;
        for (uint32_t i = 0; i < h->head_size; i++) {
            double term = (double)h->q[i] * (double)h->k[p * h->stride + i] * h->scale;
            score += term;
            size += fabs(term);
        }
        weights[p] = score;
        highest = fmax(highest, score);
        lowest = fmin(lowest, score);
        score_size = fmax(score_size, size);
    }
    for (uint32_t p = 0; p < h->n_positions; p++)
        total += weights[p] = exp(weights[p] - highest);

    /* The relative error of a weight: of its score (a product and head_size additions), of exp, of
     * each page's factor (an exp too; together they span the scores' range once, 3 units a page),
     * and of the additions. It counts twice, above and below the line; the division has 2.5 units.
     * Pages have at least 8 positions. */
    double range = highest - lowest, pages = h->n_positions / 8.0 + 1;
    double weight_error = 2 * (h->head_size + 2) * U * score_size + exp_error(range) +
                          exp_error(range) + pages * 8 * U + h->n_positions * U;

    for (uint32_t i = 0; i < h->head_size; i++) {
        double sum = 0, size = 0;
        for (uint32_t p = 0; p < h->n_positions; p++) {
            double term = weights[p] * (double)h->v[p * h->stride + i];
            sum += term;
            size += fabs(term);
        }
        out[i] = sum / total;
        tolerance[i] = size / total * (2 * weight_error + 5 * U);
    }
}

/* -------------------------------------------------------------------------------------- steps */

/* A new generation: sampling parameters and stop tokens; nothing drafted. */
static void begin_generate(uint32_t *lane, uint32_t *exchange, const uint32_t *request)
{
    uint32_t n_stops = request[Q_STOPS];

    memcpy(lane + S_SEED_LOW, request + Q_SAMPLING, 8 * sizeof *lane);
    lane[S_STREAM] = request[Q_STREAM];
    exchange[X_N_STOPS] = n_stops < X_MAX_STOPS ? n_stops : X_MAX_STOPS;
    memcpy(exchange + X_STOPS, request + Q_STOPS + 1, X_MAX_STOPS * sizeof *exchange);
    exchange[X_DRAFTED] = 0;
    exchange[X_DONE] = 0;
}

/* One row, the newest token of the chain. */
static void begin_draft(uint32_t *lane, const uint32_t *exchange, const uint32_t *request)
{
    uint32_t drafted = exchange[X_DRAFTED], newest = exchange[X_ROOT] + drafted - lane[S_ORIGIN];
    bool stops = exchange[X_DONE] || request[Q_CANCEL] || drafted == MAX_ROWS - 1;

    lane[LANE_HISTORY + newest] = exchange[X_TOKENS + drafted];
    lane[S_BLOCK] = exchange[X_ROOT];
    lane[S_KEEP] = 1 + drafted;
    lane[S_BASE] = newest;
    lane[S_ROWS] = lane[S_OUT_ROWS] = stops ? 0 : 1;
    lane[S_OUT_FIRST] = 0;
}

static void begin_verify(uint32_t *lane, const uint32_t *exchange)
{
    uint32_t base = exchange[X_ROOT] - lane[S_ORIGIN], rows = exchange[X_DRAFTED] + 1;

    lane[S_BASE] = base;
    lane[S_ROWS] = lane[S_OUT_ROWS] = rows;
    lane[S_OUT_FIRST] = 0;
    lane[S_BLOCK] = exchange[X_ROOT];
    memcpy(lane + LANE_HISTORY + base, exchange + X_TOKENS, rows * sizeof *lane);
}

static void begin_chain(uint32_t *exchange, const uint32_t *request)
{
    const float one = 1;
    uint32_t rows = request[Q_ROWS];

    exchange[X_ROOT] = request[Q_ROOT];
    exchange[X_TOKENS] = request[Q_TOKENS + (rows ? rows - 1 : 0)];
    exchange[X_DRAFTED] = exchange[X_DONE] = 0;
    memcpy(exchange + X_SURVIVAL, &one, sizeof one);
}

/* Workgroups of a dispatch for the rows that it counts. */
static void begin_arguments(const uint32_t *lane, const uint32_t *grid, uint32_t *args)
{
    uint32_t n = lane[grid[G_SOURCE] & 1 ? S_OUT_ROWS : S_ROWS],
             tile = grid[G_SOURCE] >> G_TILE_SHIFT;
    static const uint32_t tiles[N_TILES + 1] = {TILES, 0};
    uint32_t mains = n / TILE_MAIN, left = n % TILE_MAIN,
             y = grid[G_Y_ROWS] ? (n + grid[G_Y_ROWS] - 1) / grid[G_Y_ROWS] : 1;

    if (tile) {
        uint32_t smaller = 0; /* the next one */
        if (mains && (left == 1 || left == 2 || left == 3 || left == 4)) {
            mains--;
            left += TILE_MAIN;
        }
        for (int i = 0; i < N_TILES; i++)
            if (tiles[i] == tile)
                smaller = tiles[i + 1];
        y = left <= tile && left > smaller;
        if (tile == TILE_MAIN)
            y += mains;
    }
    args[0] = n && y ? grid[G_X] : 0;
    args[1] = y;
    args[2] = grid[G_Z];
    if (grid[G_SOURCE] & 2)
        args[2] = (lane[S_BASE] + lane[S_ROWS] + grid[G_Z] - 1) / grid[G_Z];
}

void reference_begin(uint32_t *lane, uint32_t *exchange, const uint32_t *request, uint32_t mode,
                     uint32_t n_grids)
{
    uint32_t rows;

    if (mode != BEGIN_GENERATE)
        lane[S_BLOCK] = lane[S_KEEP] = 0;
    switch (mode) {
    case BEGIN_GENERATE:
        begin_generate(lane, exchange, request);
        return; /* no pass */
    case BEGIN_CHAIN:
        begin_chain(exchange, request);
        lane[S_BLOCK] = request[Q_ROOT];
        lane[S_KEEP] = 1; /* fallthrough */
    case BEGIN_REQUEST:
        rows = request[Q_ROWS];
        memcpy(lane, request, 5 * sizeof *lane); /* base, rows, out_first, out_rows, origin */
        memcpy(lane + LANE_HISTORY + request[Q_BASE], request + Q_TOKENS, rows * sizeof *lane);
        break;
    case BEGIN_OUTPUT:
        lane[S_OUT_FIRST] = request[Q_OUT_FIRST];
        lane[S_OUT_ROWS] = request[Q_OUT_ROWS];
        break;
    case BEGIN_DRAFT:
        begin_draft(lane, exchange, request);
        break;
    case BEGIN_PROPOSED:
        rows = request[Q_ROWS] < MAX_ROWS ? request[Q_ROWS] : MAX_ROWS - 1;
        exchange[X_DRAFTED] = rows;
        memcpy(exchange + X_TOKENS + 1, request + Q_TOKENS, rows * sizeof *exchange);
        begin_verify(lane, exchange);
        break;
    default: /* BEGIN_VERIFY */
        begin_verify(lane, exchange);
    }
    for (uint32_t i = 0; i < n_grids; i++)
        begin_arguments(lane, lane + LANE_GRID + 4 * i, lane + LANE_ARGS + 4 * i);
}

void reference_propose(const uint32_t *lane, uint32_t *exchange, const uint32_t *request)
{
    static const float limits[] = {CALIBRATION_LIMITS};
    uint32_t token = lane[LANE_RESULTS + R_TOKEN], n = exchange[X_DRAFTED], band = 0;
    float probability, survival, chance, least;

    if (!lane[S_OUT_ROWS])
        return;
    memcpy(&probability, lane + LANE_RESULTS + R_PROBABILITY, sizeof probability);
    while (band < CALIBRATION_BANDS - 1 && probability >= limits[band])
        band++;
    memcpy(&survival, exchange + X_SURVIVAL, sizeof survival);
    memcpy(&chance, request + Q_BANDS + band, sizeof chance);
    memcpy(&least, request + Q_SURVIVAL + n, sizeof least);
    survival *= chance;
    memcpy(exchange + X_SURVIVAL, &survival, sizeof survival);
    if (survival < least)
        exchange[X_DONE] = 1;
    exchange[X_DRAFTED] = n + 1;
    exchange[X_TOKENS + 1 + n] = token;
    exchange[X_PROBABILITIES + n] = lane[LANE_RESULTS + R_PROBABILITY];
    for (uint32_t i = 0; i < exchange[X_N_STOPS]; i++)
        if (exchange[X_STOPS + i] == token)
            exchange[X_DONE] = 1;
}

void reference_accept(uint32_t *target, uint32_t *exchange, uint32_t *record, uint32_t mode)
{
    const uint32_t *chosen = target + LANE_RESULTS + R_TOKEN;
    bool first = mode == ACCEPT_FIRST;
    uint32_t origin = target[S_ORIGIN];
    uint32_t root = first ? target[S_BASE] + target[S_OUT_FIRST] + origin : exchange[X_ROOT];
    uint32_t drafted = first ? 0 : exchange[X_DRAFTED], accepted;

    for (accepted = 0; accepted < drafted; accepted++)
        if (exchange[X_TOKENS + 1 + accepted] != chosen[accepted])
            break;
    record[B_REJECTED] = accepted < drafted ? exchange[X_TOKENS + 1 + accepted] : UINT32_MAX;
    memcpy(record + B_TOKENS, chosen, (accepted + 1) * sizeof *record);
    memcpy(record + B_PROBABILITIES, exchange + X_PROBABILITIES, drafted * sizeof *record);
    memcpy(target + LANE_HISTORY + root + 1 - origin, chosen, (accepted + 1) * sizeof *target);
    exchange[X_ROOT] = root + 1 + accepted;
    exchange[X_TOKENS] = chosen[accepted];
    exchange[X_DRAFTED] = 0;
    exchange[X_DONE] = 0;
    record[B_DRAFTED] = drafted;
    record[B_ACCEPTED] = accepted;
    record[B_EMITTED] = accepted + 1;
    record[B_ROOT] = root + 1 + accepted;
    record[B_NOT_FINITE] = 0;
    for (uint32_t i = 0; i <= accepted; i++)
        record[B_NOT_FINITE] += target[LANE_RESULTS + R_PROBABILITY + i] == 0;
}

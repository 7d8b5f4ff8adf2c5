/* The kernels that decide what happens next, as begin.comp, propose.comp and accept.comp have them, and a
 * model in sample.comp's place (mock_vulkan.h). */
#include "mock_vulkan.h"

#include <string.h>

#include "calibration_bands.h"
#include "step_state.h"

#define SEEN 8 /* last tokens that the next one depends on */
#define FIRST_TOKEN 3
#define N_TOKENS 500 /* of the smallest vocabulary that tests have, 512 */
#define DRAFT_MISSES_OF_16 5

static uint32_t *words(const mock_command *d, uint32_t binding)
{
    const mock_buffer *b = d->set->bindings[binding].buffer;
    return (uint32_t *)(void *)(b->memory->bytes + b->offset + d->set->bindings[binding].offset);
}

static float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9e3779b1u;
    return hash ^ hash >> 15;
}

/* The host may cancel while this runs. */
static bool is_cancelled(const uint32_t *request)
{
    return __atomic_load_n(request + Q_CANCEL, __ATOMIC_RELAXED) != 0;
}

static void begin_generate(uint32_t *lane, uint32_t *exchange, const uint32_t *request)
{
    memcpy(lane + S_SEED_LOW, request + Q_SAMPLING, 8 * sizeof *lane);
    lane[S_STREAM] = request[Q_STREAM];
    exchange[X_N_STOPS] = least(request[Q_STOPS], X_MAX_STOPS);
    memcpy(exchange + X_STOPS, request + Q_STOPS + 1, X_MAX_STOPS * sizeof *exchange);
    exchange[X_DRAFTED] = exchange[X_DONE] = 0;
}

static void begin(const mock_command *d)
{
    const uint32_t mode = d->push[0], *request = words(d, 2);
    uint32_t *lane = words(d, 0), *exchange = words(d, 1), *history = lane + LANE_HISTORY;
    uint32_t base = lane[S_BASE], rows = lane[S_ROWS], drafted = exchange[X_DRAFTED];
    uint32_t out_first = 0, out_rows = 0;

    switch (mode) {
    case BEGIN_GENERATE:
        begin_generate(lane, exchange, request);
        return;
    case BEGIN_REQUEST:
    case BEGIN_CHAIN:
        base = request[Q_BASE];
        rows = request[Q_ROWS];
        lane[S_ORIGIN] = request[Q_ORIGIN];
        out_first = request[Q_OUT_FIRST];
        out_rows = request[Q_OUT_ROWS];
        memcpy(history + base, request + Q_TOKENS, rows * sizeof *history);
        if (mode == BEGIN_CHAIN) {
            exchange[X_ROOT] = request[Q_ROOT];
            exchange[X_TOKENS] = request[Q_TOKENS + (rows ? rows : 1) - 1];
            exchange[X_DRAFTED] = exchange[X_DONE] = 0;
            exchange[X_SURVIVAL] = as_bits(1);
        }
        break;
    case BEGIN_OUTPUT:
        out_first = request[Q_OUT_FIRST];
        out_rows = request[Q_OUT_ROWS];
        break;
    case BEGIN_DRAFT:
        base = exchange[X_ROOT] + drafted - lane[S_ORIGIN];
        history[base] = exchange[X_TOKENS + drafted];
        rows = exchange[X_DONE] || is_cancelled(request) || drafted + 1 >= MAX_ROWS ? 0 : 1;
        out_rows = rows;
        break;
    default: /* BEGIN_VERIFY, BEGIN_PROPOSED */
        if (mode == BEGIN_PROPOSED) {
            drafted = exchange[X_DRAFTED] = least(request[Q_ROWS], MAX_ROWS - 1);
            memcpy(exchange + X_TOKENS + 1, request + Q_TOKENS, drafted * sizeof *exchange);
        }
        base = exchange[X_ROOT] - lane[S_ORIGIN];
        out_rows = rows = drafted + 1;
        memcpy(history + base, exchange + X_TOKENS, rows * sizeof *history);
    }
    lane[S_BASE] = base;
    lane[S_ROWS] = rows;
    lane[S_OUT_FIRST] = out_first;
    lane[S_OUT_ROWS] = out_rows;
}

/* Of the end of what the lane has been given; a lane that begins late sees less, as a draft does. */
static void sample(const mock_command *d)
{
    uint32_t *lane = words(d, 1);
    const uint32_t *history = lane + LANE_HISTORY;

    for (uint32_t i = 0; i < lane[S_OUT_ROWS]; i++) {
        uint32_t end = lane[S_BASE] + lane[S_OUT_FIRST] + i + 1;
        uint32_t hash = mix(lane[S_SEED_LOW], end + lane[S_ORIGIN]);
        for (uint32_t k = end > SEEN ? end - SEEN : 0; k < end; k++)
            hash = mix(hash, history[k]);
        lane[LANE_RESULTS + R_TOKEN + i] = FIRST_TOKEN + hash % N_TOKENS;
        lane[LANE_RESULTS + R_PROBABILITY + i] = as_bits((float)(1 + hash / 7 % 16) / 17);
    }
}

static uint32_t band_of(float probability)
{
    static const float limits[CALIBRATION_BANDS - 1] = {CALIBRATION_LIMITS};
    uint32_t band = 0;

    while (band < CALIBRATION_BANDS - 1 && probability >= limits[band])
        band++;
    return band;
}

/* As propose.comp, but for some tokens, which the draft gets wrong. */
static void propose(const mock_command *d)
{
    uint32_t *lane = words(d, 0), *exchange = words(d, 1);
    const uint32_t *request = words(d, 2);

    if (lane[S_OUT_ROWS] == 0)
        return;
    uint32_t drafted = exchange[X_DRAFTED], token = lane[LANE_RESULTS + R_TOKEN];
    uint32_t probability = lane[LANE_RESULTS + R_PROBABILITY];
    if (mix(token, exchange[X_ROOT] + drafted) % 16 < DRAFT_MISSES_OF_16)
        token = FIRST_TOKEN + (token - FIRST_TOKEN + 1) % N_TOKENS;
    float survival = as_float(exchange[X_SURVIVAL]) *
                     as_float(request[Q_BANDS + band_of(as_float(probability))]);
    exchange[X_TOKENS + 1 + drafted] = token;
    exchange[X_PROBABILITIES + drafted] = probability;
    exchange[X_DRAFTED] = drafted + 1;
    exchange[X_SURVIVAL] = as_bits(survival);
    if (survival < as_float(request[Q_SURVIVAL + drafted]))
        exchange[X_DONE] = 1;
    for (uint32_t i = 0; i < exchange[X_N_STOPS]; i++)
        if (exchange[X_STOPS + i] == token)
            exchange[X_DONE] = 1;
}

static void accept(const mock_command *d)
{
    uint32_t *lane = words(d, 0), *exchange = words(d, 1), *record = words(d, 2);
    const uint32_t *chosen = lane + LANE_RESULTS + R_TOKEN, origin = lane[S_ORIGIN];
    const bool first = d->push[0] == ACCEPT_FIRST;
    uint32_t drafted = first ? 0 : exchange[X_DRAFTED], accepted = 0;
    uint32_t root = first ? lane[S_BASE] + lane[S_OUT_FIRST] + origin : exchange[X_ROOT];

    while (accepted < drafted && exchange[X_TOKENS + 1 + accepted] == chosen[accepted])
        accepted++;
    memcpy(record + B_TOKENS, chosen, (accepted + 1) * sizeof *record);
    memcpy(lane + LANE_HISTORY + root + 1 - origin, chosen, (accepted + 1) * sizeof *record);
    memcpy(record + B_PROBABILITIES, exchange + X_PROBABILITIES, drafted * sizeof *record);
    record[B_REJECTED] = accepted < drafted ? exchange[X_TOKENS + 1 + accepted] : ~0u;
    record[B_DRAFTED] = drafted;
    record[B_ACCEPTED] = accepted;
    record[B_EMITTED] = accepted + 1;
    record[B_ROOT] = exchange[X_ROOT] = root + accepted + 1;
    record[B_NOT_FINITE] = 0;
    exchange[X_TOKENS] = chosen[accepted];
    exchange[X_DRAFTED] = exchange[X_DONE] = 0;
}

void mock_run_kernel(const mock_command *d)
{
    static const struct {
        const char *name;
        void (*run)(const mock_command *d);
    } kernels[] = {
        {"begin", begin},
        {"propose", propose},
        {"accept", accept},
        {"sample", sample},
    };

    /* The constants follow the name. */
    size_t length = strcspn(d->pipeline->name, " ");

    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strlen(kernels[i].name) == length &&
            !strncmp(d->pipeline->name, kernels[i].name, length))
            kernels[i].run(d);
}

/* Runs the shaders of verification for tests (rule_runner.h). */
#include "rule_runner.h"

#include <string.h>

#include <check.h>

void rule_runner_open(rule_runner *r, uint32_t n_vocab, bool validates)
{
    uint32_t lanes = 32;

    memset(r, 0, sizeof *r);
    if (validates)
        harness_open(&r->h);
    else
        harness_open_fast(&r->h);
    r->n_vocab = n_vocab;
    r->stride = (n_vocab + 3) / 4 * 4;
    r->residual_stream = NOISE_RESIDUAL;
    r->sample = harness_pipeline(&r->h, "sample", &lanes, 1, false);
    r->residual = harness_pipeline(&r->h, "residual", &lanes, 1, false);
    r->decide = harness_pipeline(&r->h, "decide", NULL, 0, false);
    size_t n_bytes = (size_t)MAX_ROWS * r->stride * sizeof(float);
    r->target_logits = harness_buffer(&r->h, n_bytes, NULL);
    r->draft_logits = harness_buffer(&r->h, n_bytes, NULL);
    n_bytes = (LANE_HISTORY + RULE_HISTORY) * sizeof(uint32_t);
    r->target_lane = harness_buffer(&r->h, n_bytes, NULL);
    r->draft_lane = harness_buffer(&r->h, n_bytes, NULL);
    r->exchange = harness_buffer(&r->h, X_WORDS * sizeof(uint32_t), NULL);
}

void rule_runner_close(rule_runner *r)
{
    harness_close(&r->h);
}

float *target_row(rule_runner *r, uint32_t row)
{
    return (float *)r->target_logits.mapped + (size_t)row * r->stride;
}

float *draft_row(rule_runner *r, uint32_t row)
{
    return (float *)r->draft_logits.mapped + (size_t)row * r->stride;
}

uint32_t *target_words(rule_runner *r)
{
    return r->target_lane.mapped;
}

uint32_t *exchange_words(rule_runner *r)
{
    return r->exchange.mapped;
}

/* What begin.comp sets before a pass with `rows` output rows, the first behind position base. */
static void set_state(uint32_t *words, uint32_t base, uint32_t rows, const sample_settings *s)
{
    memset(words, 0, STATE_WORDS * sizeof *words);
    words[S_BASE] = base;
    words[S_ROWS] = words[S_OUT_ROWS] = rows;
    words[S_SEED_LOW] = (uint32_t)s->seed;
    words[S_SEED_HIGH] = (uint32_t)(s->seed >> 32);
    memcpy(&words[S_TEMPERATURE], &s->temperature, sizeof s->temperature);
    words[S_TOP_K] = s->top_k;
    memcpy(&words[S_TOP_P], &s->top_p, sizeof s->top_p);
    memcpy(&words[S_MIN_P], &s->min_p, sizeof s->min_p);
    memcpy(&words[S_PENALTY], &s->penalty, sizeof s->penalty);
    words[S_LAST_N] = s->last_n;
}

static void sample(rule_runner *r, const gpu_buffer *logits, const gpu_buffer *lane, uint32_t rows)
{
    const uint32_t push[] = {r->n_vocab, r->stride};
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS] = {logits, lane};

    harness_run(&r->h, r->sample, buffers, lane, push, sizeof push, 1, rows, 1);
}

void rule_begin(rule_runner *r, uint32_t root)
{
    uint32_t *x = r->exchange.mapped;

    memset(x, 0, X_WORDS * sizeof *x);
    x[X_ROOT] = root;
}

uint32_t rule_draft(rule_runner *r, const sample_settings *settings)
{
    uint32_t *x = r->exchange.mapped, *words = r->draft_lane.mapped, i = x[X_DRAFTED];

    set_state(words, x[X_ROOT] + i, 1, settings);
    words[S_STREAM] = NOISE_DRAFT;
    words[S_BLOCK] = r->same_blocks ? 0 : x[X_ROOT];
    words[S_KEEP] = 1 + i;
    sample(r, &r->draft_logits, &r->draft_lane, 1);
    x[X_TOKENS + 1 + i] = words[LANE_RESULTS + R_TOKEN];
    x[X_PROBABILITIES + i] = words[LANE_RESULTS + R_PROBABILITY];
    x[X_DRAFTED] = i + 1;
    return x[X_TOKENS + 1 + i];
}

void rule_target(rule_runner *r, const sample_settings *settings)
{
    const uint32_t *x = r->exchange.mapped;
    uint32_t *words = r->target_lane.mapped;

    set_state(words, x[X_ROOT], x[X_DRAFTED] + 1, settings);
    words[S_STREAM] = NOISE_TARGET;
    words[S_BLOCK] = x[X_ROOT];
    sample(r, &r->target_logits, &r->target_lane, x[X_DRAFTED] + 1);
}

void rule_verify(rule_runner *r, uint32_t rule, uint64_t seed)
{
    const uint32_t push[] = {rule, r->n_vocab, r->stride, r->stride, r->residual_stream};
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS] = {&r->target_logits, &r->draft_logits,
                                                         &r->target_lane, &r->exchange};
    uint32_t *words = r->target_lane.mapped;

    words[S_SEED_LOW] = (uint32_t)seed;
    words[S_SEED_HIGH] = (uint32_t)(seed >> 32);
    harness_run(&r->h, r->residual, buffers, &r->target_lane, push, sizeof push, 1,
                exchange_words(r)[X_DRAFTED] + 1, 1);
    const gpu_buffer *both[KERNEL_STORAGE_BUFFERS] = {&r->target_lane, &r->exchange};
    harness_run(&r->h, r->decide, both, &r->target_lane, &rule, sizeof rule, 1, 1, 1);
}

uint32_t rule_accept(rule_runner *r, uint32_t tokens[MAX_ROWS])
{
    const uint32_t *x = r->exchange.mapped, *words = r->target_lane.mapped;
    const uint32_t *chosen = words + LANE_RESULTS + R_TOKEN;
    uint32_t n = 0;

    for (; n < x[X_DRAFTED] && chosen[n] == x[X_TOKENS + 1 + n]; n++)
        tokens[n] = chosen[n];
    tokens[n] = chosen[n];
    return n + 1;
}

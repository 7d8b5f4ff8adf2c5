/* Statistics: counters per block, times, percentiles, and their JSON. */
#include "stats.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewer one-row passes than this say nothing about plain decoding. */
#define MIN_PLAIN_PASSES 4

void stats_begin(stats_log *log, otr_stats *stats)
{
    size_t size = stats->size;
    memset(stats, 0, sizeof *stats);
    stats->size = size;
    *log = (stats_log){.stats = stats, .start_ns = clock_ns()};
}

void stats_free(stats_log *log)
{
    free(log->gaps_ms);
    free(log->plain_gaps_ms);
    log->gaps_ms = log->plain_gaps_ms = NULL;
}

void stats_block(stats_log *log, const block_result *block, const controller_decision *decision,
                 bool was_ready)
{
    uint32_t n_requested = decision->n_draft;
    otr_stats *s = log->stats;
    uint32_t verified = block->accepted + (block->accepted < block->drafted);

    s->blocks++;
    s->plain_blocks += n_requested == 0;
    s->ngram_blocks += decision->drafter == DRAFTER_NGRAM;
    s->ready_blocks += was_ready;
    if (decision->drafter == DRAFTER_MODEL && decision->schedule == SCHEDULE_PIPELINED)
        s->pipelined_blocks++;
    s->drafted += block->drafted;
    s->verified += verified;
    s->accepted += block->accepted;
    for (uint32_t i = 0; i < verified; i++)
        s->verified_by_position[i]++;
    for (uint32_t i = 0; i < block->accepted; i++)
        s->accepted_by_position[i]++;
    log->host_ns += block->total_ns - block->wait_ns;
    log->block_is_plain = n_requested == 0;
    if (n_requested) {
        log->speculative_ns += block->total_ns;
        log->speculative_tokens += block->n_tokens;
    } else {
        log->plain_ns += block->total_ns;
        log->plain_tokens += block->n_tokens;
    }
    /* Without timestamps a plain block's whole time is its target pass. */
    double verify_ms = block->verify_ms > 0 ? block->verify_ms
                       : n_requested        ? 0
                                            : (double)block->total_ns / 1e6;
    if (verify_ms > 0) {
        log->row_ms[block->drafted] += verify_ms;
        s->verify_row_passes[block->drafted]++;
    }
    s->verify_ms += verify_ms;
    if (block->draft_ms > 0) {
        log->draft_steps += block->drafted;
        log->draft_ms += block->draft_ms;
        s->draft_ms += block->draft_ms;
    }
}

static bool push_gap(float **gaps, size_t *n, size_t *capacity, float value)
{
    if (*n == *capacity) {
        size_t more = *capacity ? 2 * *capacity : 256;
        float *grown = realloc(*gaps, more * sizeof *grown);
        if (!grown)
            return false;
        *gaps = grown;
        *capacity = more;
    }
    (*gaps)[(*n)++] = value;
    return true;
}

bool stats_token(stats_log *log)
{
    uint64_t now = clock_ns();
    bool ok = true;

    log->stats->emitted++;
    if (!log->first_ns) {
        log->first_ns = now;
    } else {
        float gap = (float)((double)(now - log->last_ns) / 1e6);
        ok = push_gap(&log->gaps_ms, &log->n_gaps, &log->gaps_capacity, gap);
        if (log->block_is_plain)
            ok = push_gap(&log->plain_gaps_ms, &log->n_plain_gaps, &log->plain_gaps_capacity,
                          gap) &&
                 ok;
    }
    log->last_ns = now;
    return ok;
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* p50, p95, p99 (nearest rank) and the largest. */
static void percentiles(float *values, size_t n, double out[OTR_LATENCY_PERCENTILES])
{
    static const double ranks[OTR_LATENCY_PERCENTILES] = {0.50, 0.95, 0.99, 1.0};
    if (!n)
        return;
    qsort(values, n, sizeof *values, compare_floats);
    for (int i = 0; i < OTR_LATENCY_PERCENTILES; i++) {
        size_t rank = (size_t)ceil(ranks[i] * (double)n);
        out[i] = (double)values[(rank ? rank : 1) - 1];
    }
}

/* Wilson's score interval at 95 % for a proportion. */
static void wilson(uint64_t hits, uint64_t n, double *low, double *high)
{
    const double z = 1.959964;
    double p = (double)hits / (double)n, zz = z * z / (double)n;
    double middle = (p + zz / 2) / (1 + zz);
    double half = z * sqrt(p * (1 - p) / (double)n + zz / (4 * (double)n)) / (1 + zz);
    *low = middle - half > 0 ? middle - half : 0;
    *high = middle + half < 1 ? middle + half : 1;
}

void stats_end(stats_log *log)
{
    otr_stats *s = log->stats;
    uint64_t now = clock_ns();

    s->generate_ms = (double)(now - log->start_ns) / 1e6;
    if (log->first_ns)
        s->ttft_ms = s->prefill_ms + (double)(log->first_ns - log->start_ns) / 1e6;
    if (s->emitted >= 2)
        s->tokens_per_second = (double)(s->emitted - 1) /
                               ((double)(log->last_ns - log->first_ns) / 1e9);
    if (s->verified) {
        s->acceptance = (double)s->accepted / (double)s->verified;
        wilson(s->accepted, s->verified, &s->acceptance_low, &s->acceptance_high);
    }
    uint64_t speculative_blocks = s->blocks - log->plain_tokens; /* a plain block gives one token */
    if (speculative_blocks)
        s->tokens_per_block = (double)log->speculative_tokens / (double)speculative_blocks;
    s->host_ms = (double)log->host_ns / 1e6;
    if (s->blocks)
        s->host_us_per_block = (double)log->host_ns / 1e3 / (double)s->blocks;
    for (int i = 0; i <= OTR_MAX_DRAFT; i++)
        if (s->verify_row_passes[i])
            s->verify_row_ms[i] = log->row_ms[i] / (double)s->verify_row_passes[i];
    if (log->draft_steps)
        s->draft_step_ms = log->draft_ms / (double)log->draft_steps;
    if (s->draft_step_ms > 0 && s->verify_row_ms[0] > 0)
        s->cost_ratio = s->draft_step_ms / s->verify_row_ms[0];
    if (log->plain_tokens >= MIN_PLAIN_PASSES) {
        s->plain_tokens_per_second = (double)log->plain_tokens / ((double)log->plain_ns / 1e9);
        if (log->speculative_tokens)
            s->speedup = (double)log->speculative_tokens / ((double)log->speculative_ns / 1e9) /
                         s->plain_tokens_per_second;
    }
    percentiles(log->gaps_ms, log->n_gaps, s->latency_ms);
    percentiles(log->plain_gaps_ms, log->n_plain_gaps, s->plain_latency_ms);
}

const char *otr_finish_string(otr_finish finish)
{
    static const char *const names[] = {"stop", "length", "context", "cancelled", "error"};
    return (unsigned)finish < sizeof names / sizeof names[0] ? names[finish] : "error";
}

/* --------------------------------------------------------------------------------- JSON */

typedef struct json {
    char *text;
    size_t n, capacity;
    bool failed;
} json;

__attribute__((format(printf, 2, 3))) static void put(json *j, const char *format, ...)
{
    va_list arguments;
    for (;;) {
        va_start(arguments, format);
        int n = vsnprintf(j->text + j->n, j->capacity - j->n, format, arguments);
        va_end(arguments);
        if (n < 0 || j->failed) {
            j->failed = true;
            return;
        }
        if ((size_t)n < j->capacity - j->n) {
            j->n += (size_t)n;
            return;
        }
        size_t capacity = 2 * j->capacity + (size_t)n;
        char *grown = realloc(j->text, capacity);
        if (!grown) {
            j->failed = true;
            return;
        }
        j->text = grown;
        j->capacity = capacity;
    }
}

static void put_counts(json *j, const char *name, const uint64_t *values, int n)
{
    put(j, ", \"%s\": [", name);
    for (int i = 0; i < n; i++)
        put(j, "%s%llu", i ? ", " : "", (unsigned long long)values[i]);
    put(j, "]");
}

static void put_numbers(json *j, const char *name, const double *values, int n)
{
    put(j, ", \"%s\": [", name);
    for (int i = 0; i < n; i++)
        put(j, "%s%.6g", i ? ", " : "", values[i]);
    put(j, "]");
}

static void put_latency(json *j, const char *name, const double values[OTR_LATENCY_PERCENTILES])
{
    put(j, ", \"%s\": {\"p50\": %.6g, \"p95\": %.6g, \"p99\": %.6g, \"max\": %.6g}", name,
        values[0], values[1], values[2], values[3]);
}

otr_result otr_stats_to_json(const otr_stats *stats, char **out)
{
    json j = {.capacity = 4096};
    otr_stats own = {0};
    const otr_stats *s = &own;

    if (!stats || !out || stats->size < sizeof stats->size)
        return OTR_ERROR_INVALID_ARGUMENT;
    *out = NULL;
    memcpy(&own, stats, stats->size < sizeof own ? stats->size : sizeof own);
    j.text = malloc(j.capacity);
    if (!j.text)
        return OTR_ERROR_OUT_OF_MEMORY;
    const struct {
        const char *name;
        uint64_t value;
    } counters[] = {
        {"prompt_tokens", s->prompt_tokens},
        {"emitted", s->emitted},
        {"blocks", s->blocks},
        {"plain_blocks", s->plain_blocks},
        {"ngram_blocks", s->ngram_blocks},
        {"pipelined_blocks", s->pipelined_blocks},
        {"ready_blocks", s->ready_blocks},
        {"drafted", s->drafted},
        {"verified", s->verified},
        {"accepted", s->accepted},
        {"discarded", s->discarded},
        {"dropped", s->dropped},
    };
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"acceptance", s->acceptance},
        {"acceptance_low", s->acceptance_low},
        {"acceptance_high", s->acceptance_high},
        {"tokens_per_block", s->tokens_per_block},
        {"prefill_ms", s->prefill_ms},
        {"ttft_ms", s->ttft_ms},
        {"generate_ms", s->generate_ms},
        {"tokens_per_second", s->tokens_per_second},
        {"draft_ms", s->draft_ms},
        {"verify_ms", s->verify_ms},
        {"host_ms", s->host_ms},
        {"host_us_per_block", s->host_us_per_block},
        {"draft_step_ms", s->draft_step_ms},
        {"cost_ratio", s->cost_ratio},
        {"plain_tokens_per_second", s->plain_tokens_per_second},
        {"speedup", s->speedup},
    };
    put(&j, "{\"finish_reason\": \"%s\", \"verify\": \"%s\"", otr_finish_string(s->finish),
        otr_verify_string(s->verify));
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        put(&j, ", \"%s\": %llu", counters[i].name, (unsigned long long)counters[i].value);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put(&j, ", \"%s\": %.9g", numbers[i].name, numbers[i].value);
    put_counts(&j, "verified_by_position", s->verified_by_position, OTR_MAX_DRAFT);
    put_counts(&j, "accepted_by_position", s->accepted_by_position, OTR_MAX_DRAFT);
    put_counts(&j, "verify_row_passes", s->verify_row_passes, OTR_MAX_DRAFT + 1);
    put_numbers(&j, "verify_row_ms", s->verify_row_ms, OTR_MAX_DRAFT + 1);
    put_latency(&j, "latency_ms", s->latency_ms);
    put_latency(&j, "plain_latency_ms", s->plain_latency_ms);
    put(&j, "}");
    if (j.failed) {
        free(j.text);
        return OTR_ERROR_OUT_OF_MEMORY;
    }
    *out = j.text;
    return OTR_OK;
}

void otr_free(void *memory)
{
    free(memory);
}

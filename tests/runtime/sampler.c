/* Runs sample.comp for tests (sampler.h). */
#include "sampler.h"

#include <math.h>
#include <string.h>

#include <check.h>

void sampler_open(sampler *s, uint32_t max_vocab)
{
    harness_open(&s->h);
    s->max_vocab = max_vocab;
    s->logits = harness_buffer(&s->h, (size_t)MAX_ROWS * max_vocab * sizeof(float), NULL);
    s->lane = harness_buffer(&s->h, (LANE_HISTORY + SAMPLER_HISTORY) * sizeof(uint32_t), NULL);
    s->history = (uint32_t *)s->lane.mapped + LANE_HISTORY;
}

void sampler_close(sampler *s)
{
    harness_close(&s->h);
}

VkPipeline sampler_pipeline(sampler *s, uint32_t workgroup_size)
{
    return harness_pipeline(&s->h, "sample", &workgroup_size, 1, false);
}

float *sampler_row(sampler *s, uint32_t row, uint32_t stride)
{
    return (float *)s->logits.mapped + (size_t)row * stride;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void sampler_run(sampler *s, VkPipeline pipeline, uint32_t n_vocab, uint32_t stride, uint32_t base,
                 uint32_t out_first, uint32_t n_rows, const sample_settings *settings,
                 sampled out[MAX_ROWS])
{
    ck_assert_uint_le(n_vocab, stride);
    ck_assert_uint_le(stride, s->max_vocab);
    ck_assert_uint_lt(base + out_first + MAX_ROWS, SAMPLER_HISTORY);
    uint32_t *words = s->lane.mapped;
    memset(words, 0, STATE_WORDS * sizeof *words);
    words[S_BASE] = base;
    words[S_ROWS] = out_first + n_rows;
    words[S_OUT_FIRST] = out_first;
    words[S_OUT_ROWS] = n_rows;
    words[S_SEED_LOW] = (uint32_t)settings->seed;
    words[S_SEED_HIGH] = (uint32_t)(settings->seed >> 32);
    words[S_TEMPERATURE] = float_bits(settings->temperature);
    words[S_TOP_K] = settings->top_k;
    words[S_TOP_P] = float_bits(settings->top_p);
    words[S_MIN_P] = float_bits(settings->min_p);
    words[S_PENALTY] = float_bits(settings->penalty);
    words[S_LAST_N] = settings->last_n;
    words[S_STREAM] = settings->stream;
    words[S_BLOCK] = settings->block;
    uint32_t *tokens = words + LANE_RESULTS + R_TOKEN;
    uint32_t *probabilities = words + LANE_RESULTS + R_PROBABILITY;
    for (uint32_t r = 0; r < MAX_ROWS; r++)
        tokens[r] = probabilities[r] = SAMPLER_UNTOUCHED;

    uint32_t push[2] = {n_vocab, stride};
    harness_run(&s->h, pipeline, (const gpu_buffer *[KERNEL_STORAGE_BUFFERS]){&s->logits, &s->lane},
                &s->lane, push, sizeof push, 1, MAX_ROWS, 1);
    for (uint32_t r = 0; r < MAX_ROWS; r++) {
        out[r].token = tokens[r];
        out[r].probability_bits = probabilities[r];
        memcpy(&out[r].probability, &probabilities[r], sizeof out[r].probability);
        ck_assert(r >= n_rows || out[r].token < n_vocab);
        ck_assert(r < n_rows || tokens[r] == SAMPLER_UNTOUCHED);
        ck_assert(r < n_rows || probabilities[r] == SAMPLER_UNTOUCHED);
    }
}

/* SplitMix64. */
uint32_t random_word(test_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(z >> 32);
}

double random_uniform(test_random *random)
{
    return random_word(random) * 0x1p-32;
}

double random_normal(test_random *random)
{
    double radius = sqrt(-2 * log(random_uniform(random) + 0x1p-33));
    return radius * cos(2 * acos(-1) * random_uniform(random));
}

void fill_row(float *row, uint32_t n_vocab, enum row_pattern pattern, test_random *random)
{
    for (uint32_t i = 0; i < n_vocab; i++) {
        double value = 3 * random_normal(random);
        switch (pattern) {
        case ROW_FLAT:
            value *= 0.003;
            break;
        case ROW_TIES:
            value = rint(value);
            break;
        case ROW_EQUAL:
            value = -2.5;
            break;
        case ROW_HOLES:
            if (random_word(random) % 4 == 0)
                value = NAN;
            else if (random_word(random) % 2 == 0)
                value = -INFINITY;
            break;
        case ROW_DEEP:
            value *= 30;
            break;
        case ROW_HUGE:
            value = random_word(random) % 64 == 0 ? INFINITY : value * 3e37;
            break;
        default:
            break;
        }
        row[i] = (float)value;
    }
    if (pattern == ROW_PEAKED)
        row[random_word(random) % n_vocab] += 12;
}

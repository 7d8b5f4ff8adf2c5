/* Runs sample.comp for tests: logits, history and settings in, tokens out. Also the rows that the
 * tests sample from. */
#ifndef OUTRIDER_TEST_SAMPLER_H
#define OUTRIDER_TEST_SAMPLER_H

#include "harness.h"
#include "sample_reference.h"
#include "step_state.h"

#define SAMPLER_HISTORY 4096
#define SAMPLER_UNTOUCHED 0xdeadbeefu /* what a result holds before the kernel writes it */

typedef struct sampler {
    harness h;
    uint32_t max_vocab;
    gpu_buffer logits; /* [MAX_ROWS][max_vocab] */
    gpu_buffer lane;
    uint32_t *history; /* [SAMPLER_HISTORY], in the lane buffer */
} sampler;

typedef struct sampled {
    uint32_t token;
    uint32_t probability_bits;
    float probability;
} sampled;

void sampler_open(sampler *s, uint32_t max_vocab);
void sampler_close(sampler *s);
VkPipeline sampler_pipeline(sampler *s, uint32_t workgroup_size);

/* The logits of a row before the kernel ran; with rows `stride` floats apart, stride >= n_vocab. */
float *sampler_row(sampler *s, uint32_t row, uint32_t stride);
/* Dispatches MAX_ROWS workgroups, n_rows of which have something to do. The position of output row
 * 0's context is base + out_first. Penalties change the logits in the buffer. */
void sampler_run(sampler *s, VkPipeline pipeline, uint32_t n_vocab, uint32_t stride, uint32_t base,
                 uint32_t out_first, uint32_t n_rows, const sample_settings *settings,
                 sampled out[MAX_ROWS]);

/* A generator of test data, not of the noise. */
typedef struct test_random {
    uint64_t state;
} test_random;
uint32_t random_word(test_random *random);
double random_uniform(test_random *random); /* in [0, 1) */
double random_normal(test_random *random);

enum row_pattern {
    ROW_NORMAL,
    ROW_FLAT,
    ROW_PEAKED,
    ROW_TIES,  /* few distinct values */
    ROW_EQUAL, /* one value */
    ROW_HOLES, /* many tokens are -inf or NaN */
    ROW_DEEP,  /* most of the masses underflow */
    ROW_HUGE,  /* values near the ends of float, infinity too */
    N_ROW_PATTERNS,
};
void fill_row(float *row, uint32_t n_vocab, enum row_pattern pattern, test_random *random);

#endif

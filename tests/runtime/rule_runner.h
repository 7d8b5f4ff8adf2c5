/* Runs the shaders of verification by the ratio of probabilities for tests: sampling of draft and
 * target from made-up logits, and the rule's step. */
#ifndef OUTRIDER_TEST_RULE_RUNNER_H
#define OUTRIDER_TEST_RULE_RUNNER_H

#include "harness.h"
#include "sample_reference.h"
#include "step_state.h"

#define RULE_HISTORY 1024

typedef struct rule_runner {
    harness h;
    VkPipeline sample, residual, decide;
    uint32_t n_vocab, stride;
    gpu_buffer target_logits, draft_logits; /* [MAX_ROWS][stride] */
    gpu_buffer target_lane, draft_lane, exchange;
    /* The faults that tests plant. */
    uint32_t residual_stream; /* NOISE_RESIDUAL */
    bool same_blocks;         /* the draft's noise doesn't know one block from another */
} rule_runner;

/* validates: run under the validation layers. */
void rule_runner_open(rule_runner *r, uint32_t n_vocab, bool validates);
void rule_runner_close(rule_runner *r);

float *target_row(rule_runner *r, uint32_t row);
float *draft_row(rule_runner *r, uint32_t row);
uint32_t *target_words(rule_runner *r);
uint32_t *exchange_words(rule_runner *r);

/* Begins a block at a root: nothing is drafted. */
void rule_begin(rule_runner *r, uint32_t root);
/* One draft step from the logits in draft_row(r, 0); its token. */
uint32_t rule_draft(rule_runner *r, const sample_settings *settings);
/* The target's choices from the logits in its rows. */
void rule_target(rule_runner *r, const sample_settings *settings);
/* residual.comp and decide.comp. */
void rule_verify(rule_runner *r, uint32_t rule, uint64_t seed);
/* The tokens that accept.comp would give out; their number. */
uint32_t rule_accept(rule_runner *r, uint32_t tokens[MAX_ROWS]);

#endif

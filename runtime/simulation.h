/* Speculation without models: the controller, or a fixed K, on a trace of what a drafter would have
 * got right, with given times. Used by `outrider simulate` and by the controller's tests.
 *
 * The text of coupled verification doesn't depend on the drafter, so a trace holds all that a run
 * needs: at each position whether the draft, given the text before it, proposes the right token. */
#ifndef OUTRIDER_SIMULATION_H
#define OUTRIDER_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller.h"

typedef struct trace_position {
    int32_t token;
    float probability; /* the draft's, of its token */
    bool hit;          /* its token is the target's */
} trace_position;

typedef struct trace {
    trace_position *positions; /* of the output */
    size_t n;
    int32_t *prompt;   /* NULL: the n-gram drafter sees the output only */
    uint32_t n_prompt; /* tokens that are prefilled */
} trace;

/* A synthetic trace. */
typedef struct trace_process {
    size_t n;
    uint32_t n_prompt;
    double alpha;        /* chance of a hit */
    double second_alpha; /* in the second half; below 0: the same */
    double correlation;  /* chance that a position repeats the last one's fate, beyond alpha */
    double information;  /* 0: the probability is alpha, 1: it tells the fate */
    double repetition;   /* share of the text that repeats earlier text, for the n-gram drafter */
    uint64_t seed;
} trace_process;

bool trace_generate(const trace_process *process, trace *out); /* false: no memory */
void trace_free(trace *t);

typedef struct simulation_costs {
    double target_ms[CONTROLLER_MAX_ROWS]; /* [rows - 1] */
    double draft_ms;                       /* a step */
    double prefill_ratio;                  /* a row of a prefill / a step, of either model */
    double overlap;                        /* 0..1, as in controller_params */
    double transfer_ms;                    /* a block, between two devices */
    double noise;                          /* relative standard deviation of each time */
    uint64_t seed;                         /* of the noise */
} simulation_costs;

typedef struct simulation_policy {
    bool automatic;
    controller_params params; /* of the controller */
    /* Else: */
    enum drafter drafter;
    enum schedule schedule;
    uint32_t n_draft;
} simulation_policy;

typedef struct simulation_result {
    double total_ms, plain_ms; /* prefills included */
    double largest_block_ms;   /* of the blocks with a drafter */
    uint64_t blocks, drafted, verified, accepted, plain_blocks;
    uint64_t drafter_blocks[N_DRAFTERS], schedule_blocks[N_SCHEDULES];
    uint64_t draft_histogram[CONTROLLER_MAX_ROWS]; /* blocks by K */
    controller controller;
} simulation_result;

/* False: no memory. */
bool simulation_run(const trace *t, const simulation_costs *costs, const simulation_policy *policy,
                    simulation_result *out);

/* Block time and tokens of the formulas, for independent acceptances. */
double simulation_expected_tokens(double alpha, uint32_t n_draft);
double simulation_block_ms(const simulation_costs *costs, enum schedule schedule, double alpha,
                           uint32_t n_draft);

#endif

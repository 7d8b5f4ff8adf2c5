/* The draft lane by itself: chains of draft steps on a queue or device of their own, or ahead of the
 * target. Tokens and probabilities cross through the host, so that lanes need not share anything: the
 * same code serves a second queue, a second device, and one queue for all. A chain that the target's pass
 * is to follow needs no host in between where both are of one device: it is added to the target's
 * submission in one queue family, and a timeline semaphore orders the two in different ones.
 *
 * A chain begins behind the root, the last token of the text so far (or of what is drafted so far),
 * with the rows that the draft's cache lacks, and samples each token on the device. */
#ifndef OUTRIDER_CHAIN_H
#define OUTRIDER_CHAIN_H

#include "lane.h"

typedef struct chain {
    gpu_buffer exchange; /* X_WORDS, device-local */
    gpu_buffer report;   /* the same, read by the host */
    lane_link link;      /* of the draft lane to it */
    VkCommandBuffer copy;
    submission submission;
    timeline_point last; /* of the chains that a target's pass follows; none in one queue family */
    bool new_parameters; /* the draft's device doesn't have this generation's sampling yet */
    bool running;
    uint32_t root; /* of what is running */
    uint64_t start_ns;
} chain;

typedef struct chain_result {
    uint32_t n; /* drafted */
    int32_t tokens[OTR_MAX_DRAFT];
    float probabilities[OTR_MAX_DRAFT]; /* the draft's own */
    double ms;                          /* from the start to the end of the wait */
} chain_result;

/* Creates the session's draft lane and its chain. */
otr_result chain_create(otr_session *s, const lane_params *params);
void chain_destroy(otr_session *s);

/* Writes the request of a chain behind s->tokens[root]: the rows from the draft's length to the root;
 * returns the path that its first step takes. */
enum lane_path chain_write_root(otr_session *s, uint32_t root);
/* Adds a chain of n_steps behind s->tokens[root] to a submission: the sampling parameters when they are
 * new, and the steps, with the commands of `link`. */
bool chain_add_steps(otr_session *s, const lane_link *link, submission *sub, uint32_t root,
                     uint32_t n_steps);

/* Starts a chain of n_steps (1..OTR_MAX_DRAFT) behind s->tokens[root]; what lies behind s->n_tokens
 * there is what is drafted so far. None may be running. */
otr_result chain_start(otr_session *s, uint32_t root, uint32_t n_steps);
/* Starts a chain on the draft's queue for a target's pass, which is to wait for s->chain.last. What was
 * drafted is in the exchange buffer that the session's lanes share. Ended by chain_end. */
otr_result chain_start_before_target(otr_session *s, uint32_t root, uint32_t n_steps);
/* Lets steps that didn't begin yet do nothing. */
void chain_cancel(otr_session *s);
/* Waits for the chain's end; the draft's length is then behind the last token that was an input. Adds
 * the time spent to *wait_ns. */
otr_result chain_wait(otr_session *s, chain_result *out, uint64_t *wait_ns);
/* Waits for the end of what is running, if anything is; nothing is taken from it. */
otr_result chain_end(otr_session *s, uint64_t *wait_ns);
/* Ends what may be running at once, with no interest in its result. */
void chain_drain(otr_session *s);
/* Level of the early stop for the chains to come: see controller_decision; NULL: never. */
void chain_set_stops(otr_session *s, const float *band_acceptance, const float *stop);

#endif

/* otr_session: a target lane, an optional draft lane, what they exchange, and the tokens so far.
 * session.c owns it (append, rewind, evaluate), generate.c runs the block loop, verify.c the
 * acceptance. */
#ifndef OUTRIDER_SESSION_H
#define OUTRIDER_SESSION_H

#include <stdatomic.h>

#include "chain.h"
#include "controller.h"
#include "lane.h"
#include "ngram.h"
#include "verify_rule.h"

/* Between the lanes of one submission, and to the host. */
typedef struct exchange_buffers {
    gpu_buffer block;  /* X_WORDS, device-local */
    gpu_buffer record; /* B_WORDS, read by the host */
} exchange_buffers;

/* What a block verifies: nothing (plain decoding), or one of the two. */
typedef struct block_work {
    uint32_t n_chain;        /* steps of the draft before it; only where joined */
    const int32_t *proposed; /* [n_proposed]: drafted before, by whoever */
    uint32_t n_proposed;
} block_work;

struct otr_session {
    otr_context *context;
    gpu *gpu;                              /* the target's */
    otr_model *target_model, *draft_model; /* the draft's is NULL without a draft */
    lane *target, *draft;
    /* What the draft drafted needs no host to get to the target: lanes of one VkDevice, in one queue family
     * or ordered by a timeline semaphore (chain.h). */
    bool joined;
    chain chain; /* the draft by itself */
    exchange_buffers exchange;
    VkCommandPool pool;
    VkPipeline accept_pipeline; /* verify.c */
    VkDescriptorSet accept_set;
    VkCommandBuffer accept[N_ACCEPT_MODES];
    verify_rule rule;
    VkQueryPool stamps;       /* VK_NULL_HANDLE: no timestamps on this queue */
    VkCommandBuffer stamp[3]; /* start of the block, start of verification, end */
    submission submission;
    block_work verifying; /* of the block under way */
    uint64_t verify_start_ns;
    uint32_t n_ctx;
    int32_t *tokens; /* [n_ctx]: prompt and output, and behind them what is drafted ahead */
    uint32_t n_tokens;
    /* The target's x buffer still holds the last token's row, at this row: logits can be had
     * without another pass. -1: no. */
    int32_t last_row;
    double prefill_ms;     /* since the last generation */
    controller controller; /* what it learnt stays from one generation to the next */
    ngram ngram;           /* tokens is NULL until it is first used */
    atomic_bool cancelled;
};

/* otr_session_create with kernels of the given shapes. */
otr_result session_create(otr_model *target, otr_model *draft, const otr_session_params *params,
                          const tuning *t, otr_session **session);

/* Brings a lane's cache from its length up to position `end` (exclusive) by prefill passes. */
otr_result session_prefill(otr_session *s, lane *l, uint32_t end, otr_progress_callback on_progress,
                           void *user);

/* True when the draft has a queue or device of its own. */
bool session_lanes_are_apart(const otr_session *s);
/* The draft's cache is valid up to `length` at most. */
void session_cut_draft(otr_session *s, uint32_t length);

/* The sampling parameters in a lane's request, for BEGIN_GENERATE (generate.c). */
void generate_write_sampling(const lane *l, const otr_sampling *sampling);

/* The request of a pass over `rows` rows of some tokens at position `base`, the last out_rows of
 * them with logits (measure.c). */
void measure_write_pass(const lane *l, const otr_sampling *sampling, uint32_t base, uint32_t rows,
                        uint32_t out_rows);

#endif

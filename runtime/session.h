/* otr_session: a target lane, an optional draft lane, what they exchange, and the tokens so far.
 * session.c owns it (append, rewind, evaluate), generate.c runs the block loop, verify.c the
 * acceptance. */
#ifndef OUTRIDER_SESSION_H
#define OUTRIDER_SESSION_H

#include <stdatomic.h>

#include "controller.h"
#include "lane.h"

struct otr_session {
    otr_context *context;
    gpu *gpu;
    otr_model *target_model, *draft_model; /* the draft's is NULL without a draft */
    lane *target, *draft;
    exchange_buffers exchange;
    VkCommandPool pool;
    VkPipeline accept_pipeline; /* verify.c */
    VkDescriptorSet accept_set;
    VkCommandBuffer accept[N_ACCEPT_MODES];
    VkQueryPool stamps;       /* VK_NULL_HANDLE: no timestamps on this queue */
    VkCommandBuffer stamp[3]; /* start of the block, start of verification, end */
    VkFence fence;
    submission submission;
    uint32_t n_ctx;
    int32_t *tokens; /* [n_ctx]: prompt and output */
    uint32_t n_tokens;
    /* The target's x buffer still holds the last token's row, at this row: logits can be had
     * without another pass. -1: no. */
    int32_t last_row;
    double prefill_ms;     /* since the last generation */
    controller controller; /* what it learnt stays from one generation to the next */
    atomic_bool cancelled;
};

/* otr_session_create with kernels of the given shapes. */
otr_result session_create(otr_model *target, otr_model *draft, const otr_session_params *params,
                          const tuning *t, otr_session **session);

/* Brings a lane's cache from its length up to position `end` (exclusive) by prefill passes. */
otr_result session_prefill(otr_session *s, lane *l, uint32_t end, otr_progress_callback on_progress,
                           void *user);

/* The sampling parameters in a lane's request, for BEGIN_GENERATE (generate.c). */
void generate_write_sampling(const lane *l, const otr_sampling *sampling);

/* The request of a pass over `rows` rows of some tokens at position `base`, the last out_rows of
 * them with logits (measure.c). */
void measure_write_pass(const lane *l, const otr_sampling *sampling, uint32_t base, uint32_t rows,
                        uint32_t out_rows);

#endif

/* Verification: the target's pass over a block's rows, the acceptance rule (shaders/accept.comp),
 * and the block record as the host sees it. */
#ifndef OUTRIDER_VERIFY_H
#define OUTRIDER_VERIFY_H

#include "session.h"

/* What came out of one block. */
typedef struct block_result {
    uint32_t drafted, accepted;
    float probabilities[OTR_MAX_DRAFT]; /* [drafted]: the draft's own; of a chain's tokens only */
    int32_t rejected;                   /* the drafted token behind the accepted ones, or -1 */
    uint32_t n_tokens;                  /* accepted + 1 */
    int32_t tokens[MAX_ROWS];
    uint32_t root;              /* position of the last of them: first input of the next block */
    uint64_t wait_ns, total_ns; /* host: waiting, and the whole block */
    double draft_ms, verify_ms; /* device; 0 without timestamps */
} block_result;

/* Records the acceptance and timestamp commands of a session. */
otr_result verify_create(otr_session *s);
void verify_destroy(otr_session *s);
/* The acceptance, for record.h's users. */
void verify_emit_accept(const otr_session *s, VkCommandBuffer commands, uint32_t mode);
/* The token after the prefilled prompt: logits of the target's row s->last_row, sampled. */
otr_result verify_first(otr_session *s, block_result *out);
/* One block: the target's pass over the last token and what was drafted for it. One submission, one
 * wait. */
otr_result verify_start(otr_session *s, const block_work *work);
otr_result verify_wait(otr_session *s, block_result *out);

#endif

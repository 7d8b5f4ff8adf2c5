/* The block loop of otr_generate: decides, runs a block, gives its tokens out, learns; until the
 * generation ends. */
#ifndef OUTRIDER_BLOCK_LOOP_H
#define OUTRIDER_BLOCK_LOOP_H

#include "stats.h"
#include "text_out.h"
#include "verify.h"

typedef struct generation {
    otr_session *s;
    const otr_generate_params *p;
    text_out text;
    stats_log log;
    bool finished;
    otr_finish finish;

    /* Of the block under way. */
    controller_decision decision;
    int32_t proposed[OTR_MAX_DRAFT];
    uint32_t n_proposed; /* by the n-gram drafter */

    /* Drafted ahead for the next block: the draft's guess of the bonus token was right. */
    chain_result ahead;
    uint32_t n_ahead;      /* 0: nothing */
    uint32_t n_plain_left; /* plain blocks that fixed K gives for measuring */
} generation;

/* The prefill's token, then blocks. The lanes' requests hold the sampling parameters. */
otr_result block_loop_run(generation *g);

#endif

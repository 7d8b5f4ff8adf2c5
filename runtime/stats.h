/* Statistics of a generation: what generate.c reports block by block, and the sums made of it. */
#ifndef OUTRIDER_STATS_H
#define OUTRIDER_STATS_H

#include "verify.h"

typedef struct stats_log {
    otr_stats *stats;
    uint64_t start_ns;   /* of otr_generate */
    uint64_t first_ns;   /* when the first token was given out; 0: not yet */
    uint64_t last_ns;    /* when the last one was */
    bool block_is_plain; /* of the block whose tokens are being given out */
    uint64_t speculative_ns, speculative_tokens; /* blocks with K > 0 */
    uint64_t plain_ns, plain_tokens;
    uint64_t host_ns; /* outside waits */
    uint64_t draft_steps;
    double draft_ms;
    double row_ms[MAX_ROWS];
    float *gaps_ms; /* between tokens given out */
    size_t n_gaps, gaps_capacity;
    float *plain_gaps_ms;
    size_t n_plain_gaps, plain_gaps_capacity;
} stats_log;

void stats_begin(stats_log *log, otr_stats *stats);
void stats_free(stats_log *log);
/* After each block. was_ready: it was drafted while the one before it was verified. */
void stats_block(stats_log *log, const block_result *block, const controller_decision *decision,
                 bool was_ready);
/* After each token given out. False when memory runs out. */
bool stats_token(stats_log *log);
/* Fills in everything that follows from the counts. */
void stats_end(stats_log *log);

#endif

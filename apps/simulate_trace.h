/* Recorded traces for the simulator: lines of JSON.
 *
 * The first line has what belongs to the whole run:
 *   {"trace": 1, "prompt_tokens": 12, "prompt": [ids], "target_ms": [17 numbers or null],
 *    "draft_ms": 0.8, "prefill_ratio": 0.1}
 * of which only "trace" is needed. Each other line is a token of the output:
 *   {"id": 513, "p": 0.93, "hit": true}
 * "p" is the draft's probability of the token that it proposed there, "hit" says whether that was the
 * target's. Both are absent where nothing was proposed. Used by simulate.c. */
#ifndef OUTRIDER_APPS_SIMULATE_TRACE_H
#define OUTRIDER_APPS_SIMULATE_TRACE_H

#include "simulation.h"

typedef struct recorded_trace {
    trace trace;
    size_t n_known; /* positions with "hit"; the others are drawn with the rate of these */
    bool has_costs; /* target_ms and draft_ms */
    bool has_ids;   /* of every token: the n-gram drafter can run */
    double target_ms[CONTROLLER_MAX_ROWS];
    double draft_ms, prefill_ratio; /* 0: not in the file */
} recorded_trace;

/* Returns an exit code, after a message that names the line at fault. */
int simulate_read_trace(const char *path, recorded_trace *out);

#endif

/* A generation as a trace for `outrider simulate`: what the draft proposed at each token, whether it
 * was right, and what the passes took. Used by run. */
#ifndef OUTRIDER_APPS_TRACE_H
#define OUTRIDER_APPS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outrider/outrider.h>

typedef struct trace_position_seen {
    int32_t id;
    bool is_known; /* something was proposed and checked */
    bool hit;
    float probability;
} trace_position_seen;

typedef struct trace_log {
    trace_position_seen *positions;
    size_t n, capacity;
    bool failed; /* memory ran out */
} trace_log;

/* An otr_block_callback; user is a trace_log that began as zeros. */
void trace_add_block(const otr_block *block, void *user);
/* Writes the file; returns an exit code, with a message unless it is EXIT_CODE_OK. */
int trace_write(const trace_log *log, const char *path, const int32_t *prompt, size_t n_prompt,
                const otr_stats *stats);
void trace_log_free(trace_log *log);

#endif

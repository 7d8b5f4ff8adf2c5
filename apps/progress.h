/* One line of progress on stderr, for people only: shown on a terminal and taken away at the end.
 *
 * Used by run, eval, bench, measure, tune and devices while they load, prefill and measure. */
#ifndef OUTRIDER_APPS_PROGRESS_H
#define OUTRIDER_APPS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    const char *label;
    bool enabled;
    int percent; /* shown last; -1: nothing is shown */
} progress;

/* Not enabled: nothing is ever shown, but Ctrl-C still cancels. */
progress progress_begin(const char *label, bool enabled);
/* An otr_progress_callback; user is the progress. False after Ctrl-C. */
bool progress_update(uint64_t done, uint64_t total, void *user);
void progress_end(progress *p);
/* True when stderr is a terminal. */
bool progress_wanted(void);

#endif

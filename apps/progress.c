/* One line of progress on stderr: see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "interrupt.h"

#define WIDTH 60

progress progress_begin(const char *label, bool enabled)
{
    return (progress){.label = label, .enabled = enabled, .percent = -1};
}

bool progress_update(uint64_t done, uint64_t total, void *user)
{
    progress *p = user;
    int percent = total ? (int)(100.0 * (double)done / (double)total) : 100;

    if (p->enabled && percent != p->percent) {
        fprintf(stderr, "\r%-*.*s %3d %%", WIDTH, WIDTH, p->label, percent);
        fflush(stderr);
        p->percent = percent;
    }
    return !interrupt_signal();
}

void progress_end(progress *p)
{
    if (p->percent >= 0) {
        fprintf(stderr, "\r%-*s\r", WIDTH + 6, "");
        fflush(stderr);
    }
    p->percent = -1;
}

bool progress_wanted(void)
{
    return isatty(STDERR_FILENO);
}

/* Time for measuring. Used by eval and measure. */
#ifndef OUTRIDER_APPS_CLOCK_H
#define OUTRIDER_APPS_CLOCK_H

#include <time.h>

/* Seconds of the monotonic clock. */
static inline double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif

/* Times of a benchmark: by the clock, and of the process's CPU time, which on software devices is the
 * steadier figure when other programs run. */
#ifndef OUTRIDER_TESTS_CLOCKS_H
#define OUTRIDER_TESTS_CLOCKS_H

#include <sys/resource.h>
#include <time.h>

static inline double wall_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Of one run. */
typedef struct run_times {
    double wall, cpu;
} run_times;

/* The least of five times of at least 20 ms each, after a run that may compile. */
static inline run_times least_times(void (*run)(void *what), void *what)
{
    run_times best = {1e9, 1e9};

    run(what);
    for (int i = 0; i < 5; i++) {
        double wall = wall_seconds(), cpu = cpu_seconds(), passed = 0;
        int n_runs = 0;

        while (passed < 0.02) {
            run(what);
            n_runs++;
            passed = wall_seconds() - wall;
        }
        cpu = (cpu_seconds() - cpu) / n_runs;
        if (passed / n_runs < best.wall)
            best.wall = passed / n_runs;
        if (cpu < best.cpu)
            best.cpu = cpu;
    }
    return best;
}

#endif

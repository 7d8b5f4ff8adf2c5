/* The plots of `outrider measure`'s page, each a figure drawn from the summary (measure.h). */
#ifndef OUTRIDER_APPS_MEASURE_PLOTS_H
#define OUTRIDER_APPS_MEASURE_PLOTS_H

#include <jansson.h>

#include "text.h"

/* Speed-up with its interval for each task and setting. */
void plot_speedups(text *t, const json_t *summary);
/* Chance that the i-th token of a block is accepted if those before it were, by task. */
void plot_acceptance(text *t, const json_t *summary);
/* What a block costs in plain steps, and what it brings: tau of each task. */
void plot_costs(text *t, const json_t *summary);
/* Share of tokens that came later than a time after the one before: plain, auto and the best K. */
void plot_latencies(text *t, const json_t *summary);

#endif

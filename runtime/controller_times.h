/* What the controller believes that passes take. Part of the controller (controller.h). */
#ifndef OUTRIDER_CONTROLLER_TIMES_H
#define OUTRIDER_CONTROLLER_TIMES_H

#include "controller.h"

#define TIMES_LEAST_GAIN 0.06 /* weight of a new time */

/* A new time in ms; what isn't positive and finite is left out. */
void times_measure(measured_time *t, double ms);
/* Relative standard error. */
double times_uncertainty(const measured_time *t);
/* Of a plain step. */
double times_plain_ms(const controller *c);
/* Of a target pass. Between measured row counts a line; beyond them the slope so far, or less for an
 * optimist. */
double times_target_ms(const controller *c, uint32_t rows, bool optimistic);
/* Of a row of the draft's prefill. */
double times_catch_up_row_ms(const controller *c);

double times_clamp(double x, double low, double high);

#endif

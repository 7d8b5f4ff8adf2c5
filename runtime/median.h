/* The middle of measured values. */
#ifndef OUTRIDER_MEDIAN_H
#define OUTRIDER_MEDIAN_H

#include <stddef.h>

/* Sorts them. n is not 0. */
double median(double *values, size_t n);

#endif

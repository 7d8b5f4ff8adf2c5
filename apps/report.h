/* Numbers for people, and the block of statistics at the end of a run.
 *
 * Used by run, eval, devices and inspect. */
#ifndef OUTRIDER_APPS_REPORT_H
#define OUTRIDER_APPS_REPORT_H

#include <stdint.h>

#include <outrider/outrider.h>

#include "engine.h"

typedef struct number_text {
    char s[32];
} number_text;

number_text count_text(uint64_t n);                 /* "7.3 M" */
number_text bytes_text(uint64_t bytes);             /* "7.6 MiB" */
number_text time_text(double ms);                   /* "3.2 s", "120 ms" */
const char *device_type_name(otr_device_type type); /* "discrete GPU", "CPU" */

/* Prints the end block to stderr. */
void report_run(const engine *e, const otr_stats *stats, uint64_t seed);

#endif

/* Names of who drafts and when: those that options take and results hold.
 *
 * Used by measure and simulate. */
#ifndef OUTRIDER_APPS_DRAFTING_H
#define OUTRIDER_APPS_DRAFTING_H

#include <stdint.h>

#include <outrider/outrider.h>

/* Of OTR_DRAFTER_* flags: "none", "model", "ngram" or "both". */
const char *drafters_name(uint32_t drafters);
/* "auto", "serial" or "pipelined" */
const char *schedule_name(otr_schedule schedule);

#endif

/* What a failed self-test leaves on disk: up to which tier a device gave right results. A file beside
 * the pipeline cache for each device and driver, read when devices are listed (device.c), written and
 * removed by otr_selftest. One that is damaged, or of another driver or build, says nothing of what
 * runs today and is ignored. */
#ifndef OUTRIDER_TIER_LIMIT_H
#define OUTRIDER_TIER_LIMIT_H

#include "outrider/outrider.h"

typedef struct tier_limit {
    int32_t tier;        /* the highest that passed; -1: none did */
    int32_t failed_tier; /* that was tested first */
    char kernel[96];     /* the first check that failed there; "": there is no limit */
} tier_limit;

/* No limit where there is no file that counts. */
tier_limit tier_limit_load(otr_context *context, const otr_device_info *info);
/* False when it could not be written; a warning in the log says why. */
bool tier_limit_store(otr_context *context, const otr_device_info *info, const tier_limit *limit);
void tier_limit_remove(otr_context *context, const otr_device_info *info);

/* Loads a listed device's limit, lowers its tier to it and adds a note. Where no tier passed, tier 0 is
 * what there is. */
void tier_limit_apply(otr_context *context, uint32_t index);
/* Whether a limit says something against the device as it is used. */
bool tier_limit_applies(const otr_context *context, uint32_t index);

#endif

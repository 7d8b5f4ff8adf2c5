/* What target and draft do at once on a device, measured with the demo pair. Used by devices. */
#ifndef OUTRIDER_APPS_DEVICE_OVERLAP_H
#define OUTRIDER_APPS_DEVICE_OVERLAP_H

#include <jansson.h>

#include <outrider/outrider.h>

#include "message.h"
#include "text.h"

typedef struct device_overlap {
    otr_overlap shared; /* the draft in the target's VkDevice, on a second queue if there is one */
    otr_overlap separate; /* in a VkDevice of its own, as --draft-device does */
} device_overlap;

/* Returns an exit code; unless it is EXIT_CODE_OK a message was printed. */
int device_overlap_measure(log_sink *log, otr_context *context, uint32_t index,
                           device_overlap *out);
/* Lines for people. */
void device_overlap_append(text *t, const device_overlap *o);
json_t *device_overlap_json(const device_overlap *o);

#endif

/* A device as a JSON object: the same for `outrider devices` and `outrider bench`. */
#ifndef OUTRIDER_APPS_DEVICES_H
#define OUTRIDER_APPS_DEVICES_H

#include <jansson.h>

#include <outrider/outrider.h>

/* NULL when memory runs out. */
json_t *device_json(const otr_device_info *info);
/* Its "tuning". */
json_t *tuning_json(const otr_tuning_info *tuning);

#endif

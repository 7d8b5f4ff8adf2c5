/* What a result was measured on, for its JSON: version, device, driver and the models with hashes of
 * their files.
 *
 * Used by bench and measure; compare reads it back. */
#ifndef OUTRIDER_APPS_IDENTITY_H
#define OUTRIDER_APPS_IDENTITY_H

#include <jansson.h>
#include <stdbool.h>

#include "engine.h"

/* Sets version, device, driver, model and draft (null without one). False when memory runs out, or a
 * model file can't be read again for its hash. */
bool identity_add(json_t *object, const engine *e);

#endif

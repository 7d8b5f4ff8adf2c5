/* Params structs of the public API: a caller built against another version of the header has fewer
 * or more fields than this library. */
#ifndef OUTRIDER_PARAMS_H
#define OUTRIDER_PARAMS_H

#include <stdbool.h>
#include <string.h>

/* Copies over the defaults in `full` what the caller's struct has; NULL leaves the defaults. False
 * when the caller's `size` was never set. Both structs begin with size_t size. */
static inline bool params_take(void *full, size_t full_size, const void *given)
{
    size_t size = full_size;

    if (given)
        memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return false;
    if (given)
        memcpy(full, given, size < full_size ? size : full_size);
    memcpy(full, &full_size, sizeof full_size);
    return true;
}

#endif

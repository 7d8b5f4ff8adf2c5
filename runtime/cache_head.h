/* The head that sealed files of a device have in the cache folder: tuning_file.c, tier_limit.c. */
#ifndef OUTRIDER_CACHE_HEAD_H
#define OUTRIDER_CACHE_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "outrider/outrider.h"

/* In the byte order of this machine, as the pipeline cache. */
typedef struct cache_head {
    char magic[8];
    uint32_t version;
    uint32_t driver_version;
    uint64_t shaders; /* shaders_hash */
    uint8_t uuid[16]; /* of the device */
} cache_head;

cache_head cache_head_make(const char magic[8], uint32_t version, const otr_device_info *info);
/* Why `bytes` can't be used as a sealed file of file_bytes with this head, or NULL. */
const char *cache_head_problem(const void *bytes, size_t n_bytes, const cache_head *expected,
                               size_t file_bytes);

#endif

/* FNV-1a: tells contents apart, no protection against forgery. Used for model files and prompts. */
#ifndef OUTRIDER_APPS_FNV_H
#define OUTRIDER_APPS_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_START 0xcbf29ce484222325u
static inline uint64_t fnv_hash(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

#endif

/* Little-endian loads from unaligned bytes, independent of the host's byte order.
 *
 * Used by the container reader and by the dequantisers. */
#ifndef OUTRIDER_GGUF_LITTLE_ENDIAN_H
#define OUTRIDER_GGUF_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

static inline uint64_t load_u64(const uint8_t *p)
{
    return load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

#endif

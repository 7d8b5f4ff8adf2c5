/* Repacking of weights at upload: from GGUF's blocks into aligned planes of the same total size, so
 * that every load of a kernel is wide and needs 32-bit storage only. Dequantised values stay
 * bit-identical. Called by model.c; the planes' layout is known to shaders/weights_*.glsl and
 * nowhere else. */
#ifndef OUTRIDER_REPACK_H
#define OUTRIDER_REPACK_H

#include "format.h"

#define REPACK_MAX_PLANES 4

typedef struct repack_info {
    enum tensor_format format;
    const char *shader; /* variant suffix of the kernels that read it: "Q8_0" */
    uint32_t chunk;     /* weights that a kernel's lane loads at once: WEIGHTS_CHUNK */
    uint32_t n_planes;
    uint32_t plane_bytes[REPACK_MAX_PLANES]; /* of plane_unit weights in each plane */
    /* Weights that plane_bytes stands for: a format's block, or its row unit. */
    uint32_t plane_unit;
    /* Writes the planes of one row of k weights; planes[p] is where the row begins in plane p. */
    void (*row)(const uint8_t *blocks, uint64_t k, uint8_t *const planes[REPACK_MAX_PLANES]);
    bool has_dot8; /* a kernel of tier 2 reads it too: matvec_dot */
} repack_info;

/* NULL when no kernel reads the format. */
const repack_info *repack_find(enum tensor_format format);
/* k rounded up to what a row takes in the planes (only float formats are ever padded). */
uint64_t repack_padded_k(const repack_info *info, uint64_t k);
/* Bytes of a part of n_rows rows, a multiple of 16; offsets in 32-bit words of each plane in it. */
uint64_t repack_bytes(const repack_info *info, uint64_t n_rows, uint64_t k,
                      uint32_t plane_words[REPACK_MAX_PLANES]);
/* Repacks n_rows rows into dst (repack_bytes long, zeroed by the caller). */
void repack_rows(const repack_info *info, const uint8_t *src, uint64_t n_rows, uint64_t k,
                 uint8_t *dst);

#endif

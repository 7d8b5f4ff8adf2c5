/* otr_model: weights on one device, and the vocabulary. Made by otr_model_load; read by lanes.
 * Immutable once loaded. */
#ifndef OUTRIDER_MODEL_H
#define OUTRIDER_MODEL_H

#include "arch.h"
#include "memory.h"
#include "repack.h"
#include "vocab.h"

/* Rows [first_row, first_row + n_rows) of a matrix: what one storage binding can hold. */
typedef struct weight_part {
    const gpu_buffer *buffer;
    uint64_t offset, n_bytes;
    uint32_t first_row, n_rows;
    uint32_t plane_words[REPACK_MAX_PLANES];
    float scale; /* cooperative_scale of its weights, on tier 3 */
} weight_part;

typedef struct weight {
    const repack_info *repack; /* NULL: the file has no such tensor */
    uint32_t m, k;             /* rows and their length */
    uint32_t n_chunks;         /* of a row */
    uint32_t n_joined; /* tensors in it, this weight's and those of the next ids, which have no
                          parts then; 0: the file has no such tensor, or another weight has it */
    uint32_t n_parts;
    weight_part *parts;
} weight;

#define MODEL_MAX_BUFFERS 256

struct otr_model {
    otr_context *context;
    gpu *gpu;
    hparams h;
    vocab *vocab;
    weight global[WEIGHT_FIRST_PER_LAYER];
    weight (*layers)[N_WEIGHTS - WEIGHT_FIRST_PER_LAYER];
    float *rope_factors; /* [rope_size / 2], what rope_freqs.weight divides each frequency by; or
                            NULL */
    uint32_t n_buffers;
    gpu_buffer buffers[MODEL_MAX_BUFFERS];
    uint64_t weight_bytes, n_parameters;
    char name[128], formats[128];
};

const weight *model_weight(const otr_model *model, enum weight_id id, uint32_t layer);
static inline bool weight_exists(const weight *w)
{
    return w->n_joined != 0;
}

/* Maps a reader's error to a result and keeps its message. */
otr_result model_fail(otr_context *context, const gguf_error *error);

#endif

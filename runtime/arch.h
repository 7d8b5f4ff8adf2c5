/* Model architectures: hyperparameters read and checked from GGUF metadata, and the table of
 * tensors that an architecture has. One table row per architecture in arch.c; called by model.c. */
#ifndef OUTRIDER_ARCH_H
#define OUTRIDER_ARCH_H

#include "gguf.h"

typedef struct hparams {
    char architecture[32];
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads;
    uint32_t head_size; /* even, at most ARCH_MAX_HEAD_SIZE */
    uint32_t rope_size; /* rotated elements of a head */
    uint32_t n_ctx_train;
    uint32_t n_vocab; /* set by model.c from the vocabulary */
    float rms_eps;
    float rope_base;
    float rope_scale; /* positions are multiplied by it: 1 / factor of linear scaling */
    float attention_scale;
} hparams;

#define ARCH_MAX_HEAD_SIZE 512
#define ARCH_MAX_LAYERS 1024

enum weight_id {
    WEIGHT_TOKEN_EMBD, /* whole-model weights first */
    WEIGHT_OUTPUT_NORM,
    WEIGHT_OUTPUT,
    WEIGHT_ROPE_FREQS,
    WEIGHT_ATTN_NORM, /* per layer from here */
    WEIGHT_Q,
    WEIGHT_K,
    WEIGHT_V,
    WEIGHT_Q_BIAS,
    WEIGHT_K_BIAS,
    WEIGHT_V_BIAS,
    WEIGHT_ATTN_OUT,
    WEIGHT_ATTN_OUT_BIAS,
    WEIGHT_FFN_NORM,
    WEIGHT_GATE,
    WEIGHT_UP,
    WEIGHT_DOWN,
    N_WEIGHTS,
};
#define WEIGHT_FIRST_PER_LAYER WEIGHT_ATTN_NORM

enum weight_kind {
    WEIGHT_MATRIX, /* m rows of k weights, in any format that kernels read */
    WEIGHT_VECTOR, /* k numbers, kept as F32 on the device */
    WEIGHT_ANGLES, /* k numbers, used by the host for the table of angles */
};

enum arch_size { SIZE_ONE, SIZE_EMBD, SIZE_FF, SIZE_Q, SIZE_KV, SIZE_VOCAB, SIZE_ROPE_PAIRS };

typedef struct arch_weight {
    enum weight_id id;
    const char *name; /* per layer: what follows "blk.N." */
    enum weight_kind kind;
    bool optional;
    enum arch_size k, m;
} arch_weight;

/* Reads general.architecture and its keys. An unknown architecture, or a feature of a known one
 * that the kernels don't have, is refused by name. */
bool hparams_read(const gguf_file *file, hparams *out, gguf_error *error);
/* Table of the architecture's weights (N_WEIGHTS entries). */
const arch_weight *arch_weights(void);
uint64_t arch_size_of(const hparams *h, enum arch_size size);
/* Checks every tensor of the file against the table: shapes of those that are there, absent ones
 * that must not be, and names that the architecture doesn't have. */
bool arch_check_tensors(const gguf_file *file, const hparams *h, gguf_error *error);
/* The file's tensor of a weight, NULL when it is absent. layer is ignored for whole-model weights.
 */
const gguf_tensor *arch_find(const gguf_file *file, enum weight_id id, uint32_t layer);

#endif

/* Architectures: hyperparameters and tensor tables. Everything here comes from an untrusted file,
 * so each number is bounded before anything is computed from it. */
#include "arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One row per architecture. */
static const struct architecture {
    const char *name;
} architectures[] = {
    {"llama"},
};

static const arch_weight weight_table[N_WEIGHTS] = {
    {WEIGHT_TOKEN_EMBD, "token_embd.weight", WEIGHT_MATRIX, false, SIZE_EMBD, SIZE_VOCAB},
    {WEIGHT_OUTPUT_NORM, "output_norm.weight", WEIGHT_VECTOR, false, SIZE_EMBD, SIZE_ONE},
    {WEIGHT_OUTPUT, "output.weight", WEIGHT_MATRIX, true, SIZE_EMBD, SIZE_VOCAB},
    {WEIGHT_ROPE_FREQS, "rope_freqs.weight", WEIGHT_ANGLES, true, SIZE_ROPE_PAIRS, SIZE_ONE},
    {WEIGHT_ATTN_NORM, "attn_norm.weight", WEIGHT_VECTOR, false, SIZE_EMBD, SIZE_ONE},
    {WEIGHT_Q, "attn_q.weight", WEIGHT_MATRIX, false, SIZE_EMBD, SIZE_Q},
    {WEIGHT_K, "attn_k.weight", WEIGHT_MATRIX, false, SIZE_EMBD, SIZE_KV},
    {WEIGHT_V, "attn_v.weight", WEIGHT_MATRIX, false, SIZE_EMBD, SIZE_KV},
    {WEIGHT_Q_BIAS, "attn_q.bias", WEIGHT_VECTOR, true, SIZE_Q, SIZE_ONE},
    {WEIGHT_K_BIAS, "attn_k.bias", WEIGHT_VECTOR, true, SIZE_KV, SIZE_ONE},
    {WEIGHT_V_BIAS, "attn_v.bias", WEIGHT_VECTOR, true, SIZE_KV, SIZE_ONE},
    {WEIGHT_ATTN_OUT, "attn_output.weight", WEIGHT_MATRIX, false, SIZE_Q, SIZE_EMBD},
    {WEIGHT_ATTN_OUT_BIAS, "attn_output.bias", WEIGHT_VECTOR, true, SIZE_EMBD, SIZE_ONE},
    {WEIGHT_FFN_NORM, "ffn_norm.weight", WEIGHT_VECTOR, false, SIZE_EMBD, SIZE_ONE},
    {WEIGHT_GATE, "ffn_gate.weight", WEIGHT_MATRIX, false, SIZE_EMBD, SIZE_FF},
    {WEIGHT_UP, "ffn_up.weight", WEIGHT_MATRIX, false, SIZE_EMBD, SIZE_FF},
    {WEIGHT_DOWN, "ffn_down.weight", WEIGHT_MATRIX, false, SIZE_FF, SIZE_EMBD},
};

const arch_weight *arch_weights(void)
{
    return weight_table;
}

uint64_t arch_size_of(const hparams *h, enum arch_size size)
{
    switch (size) {
    case SIZE_ONE:
        return 1;
    case SIZE_EMBD:
        return h->n_embd;
    case SIZE_FF:
        return h->n_ff;
    case SIZE_Q:
        return (uint64_t)h->n_heads * h->head_size;
    case SIZE_KV:
        return (uint64_t)h->n_kv_heads * h->head_size;
    case SIZE_VOCAB:
        return h->n_vocab;
    case SIZE_ROPE_PAIRS:
        return h->rope_size / 2;
    }
    return 0;
}

/* Reads "<architecture>.<name>" and checks it against a range. */
static bool read_u32(const gguf_file *file, const hparams *h, const char *name, bool required,
                     uint32_t fallback, uint32_t least, uint32_t most, uint32_t *out,
                     gguf_error *error)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", h->architecture, name);
    if (required && !gguf_find(file, key))
        return gguf_fail(error, "%s: key '%s' is missing", gguf_path(file), key);
    if (!gguf_get_u32(file, key, fallback, out, error))
        return false;
    if (*out < least || *out > most)
        return gguf_fail(error, "%s: '%s' is %u, expected %u to %u", gguf_path(file), key, *out,
                         least, most);
    return true;
}

static bool read_f32(const gguf_file *file, const hparams *h, const char *name, float fallback,
                     float least, float most, float *out, gguf_error *error)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", h->architecture, name);
    if (!gguf_get_f32(file, key, fallback, out, error))
        return false;
    if (!(*out >= least && *out <= most)) /* NaN fails too */
        return gguf_fail(error, "%s: '%s' is %g, expected %g to %g", gguf_path(file), key,
                         (double)*out, (double)least, (double)most);
    return true;
}

static bool read_rope_scaling(const gguf_file *file, hparams *h, gguf_error *error)
{
    char key[128];
    gguf_string type = {0};
    bool present = false;
    h->rope_scale = 1.0f;
    snprintf(key, sizeof key, "%s.rope.scaling.type", h->architecture);
    if (!gguf_get_string(file, key, &type, &present, error))
        return false;
    if (present && type.length == 4 && !memcmp(type.data, "none", 4))
        return true;
    if (present && !(type.length == 6 && !memcmp(type.data, "linear", 6)))
        return gguf_refuse(error, "%s: '%s' is '%.*s'; only 'none' and 'linear' are supported",
                           gguf_path(file), key, (int)(type.length < 32 ? type.length : 32),
                           type.data);
    float factor = 1.0f;
    if (!read_f32(file, h, "rope.scaling.factor", 1.0f, 1e-3f, 1e4f, &factor, error))
        return false;
    if (factor == 1.0f &&
        !read_f32(file, h, "rope.scale_linear", 1.0f, 1e-3f, 1e4f, &factor, error))
        return false;
    h->rope_scale = 1.0f / factor;
    return true;
}

bool hparams_read(const gguf_file *file, hparams *out, gguf_error *error)
{
    gguf_string name = {0};
    bool present = false;
    hparams *h = out;

    memset(h, 0, sizeof *h);
    if (!gguf_get_string(file, "general.architecture", &name, &present, error))
        return false;
    if (!present)
        return gguf_fail(error, "%s: key 'general.architecture' is missing", gguf_path(file));
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (name.length == strlen(architectures[i].name) &&
            !memcmp(name.data, architectures[i].name, name.length))
            snprintf(h->architecture, sizeof h->architecture, "%s", architectures[i].name);
    if (!h->architecture[0]) {
        char shown[32] = "";
        for (size_t i = 0; i < name.length && i < sizeof shown - 1; i++)
            shown[i] = name.data[i] > 32 && name.data[i] < 127 ? name.data[i] : '?';
        return gguf_refuse(error, "%s: architecture '%s' is not supported (supported: llama)",
                           gguf_path(file), shown);
    }

    uint32_t n_experts;
    if (!read_u32(file, h, "block_count", true, 0, 1, ARCH_MAX_LAYERS, &h->n_layers, error) ||
        !read_u32(file, h, "embedding_length", true, 0, 2, 1 << 17, &h->n_embd, error) ||
        !read_u32(file, h, "feed_forward_length", true, 0, 1, 1 << 20, &h->n_ff, error) ||
        !read_u32(file, h, "attention.head_count", true, 0, 1, 4096, &h->n_heads, error) ||
        !read_u32(file, h, "attention.head_count_kv", false, h->n_heads, 1, 4096, &h->n_kv_heads,
                  error) ||
        !read_u32(file, h, "context_length", true, 0, 1, 1 << 24, &h->n_ctx_train, error) ||
        !read_u32(file, h, "expert_count", false, 0, 0, 1 << 16, &n_experts, error))
        return false;
    if (n_experts)
        return gguf_refuse(error, "%s: a mixture of %u experts is not supported", gguf_path(file),
                           n_experts);
    if (h->n_heads % h->n_kv_heads)
        return gguf_fail(error, "%s: %u attention heads can't be divided among %u key-value heads",
                         gguf_path(file), h->n_heads, h->n_kv_heads);
    char key[64];
    snprintf(key, sizeof key, "%s.attention.key_length", h->architecture);
    if (!gguf_find(file, key) && h->n_embd % h->n_heads)
        return gguf_fail(error, "%s: embedding length %u is not a multiple of %u heads",
                         gguf_path(file), h->n_embd, h->n_heads);
    uint32_t value_size;
    if (!read_u32(file, h, "attention.key_length", false, h->n_embd / h->n_heads, 2,
                  ARCH_MAX_HEAD_SIZE, &h->head_size, error) ||
        !read_u32(file, h, "attention.value_length", false, h->head_size, 2, ARCH_MAX_HEAD_SIZE,
                  &value_size, error) ||
        !read_u32(file, h, "rope.dimension_count", false, h->head_size, 2, h->head_size,
                  &h->rope_size, error) ||
        !read_f32(file, h, "attention.layer_norm_rms_epsilon", 1e-5f, 0.0f, 1.0f, &h->rms_eps,
                  error) ||
        !read_f32(file, h, "rope.freq_base", 10000.0f, 1.0f, 1e12f, &h->rope_base, error) ||
        !read_f32(file, h, "attention.scale", 1.0f / sqrtf((float)h->head_size), 1e-6f, 1e3f,
                  &h->attention_scale, error) ||
        !read_rope_scaling(file, h, error))
        return false;
    if (h->head_size % 2 || h->rope_size % 2)
        return gguf_refuse(error, "%s: odd head size %u or rotary size %u", gguf_path(file),
                           h->head_size, h->rope_size);
    if (value_size != h->head_size)
        return gguf_refuse(error,
                           "%s: key size %u and value size %u differ, which is not supported",
                           gguf_path(file), h->head_size, value_size);
    return true;
}

static void weight_name(enum weight_id id, uint32_t layer, char *name, size_t size)
{
    if (id < WEIGHT_FIRST_PER_LAYER)
        snprintf(name, size, "%s", weight_table[id].name);
    else
        snprintf(name, size, "blk.%u.%s", layer, weight_table[id].name);
}

const gguf_tensor *arch_find(const gguf_file *file, enum weight_id id, uint32_t layer)
{
    char name[64];
    weight_name(id, layer, name, sizeof name);
    return gguf_find_tensor(file, name);
}

static bool check_weight(const gguf_file *file, const hparams *h, enum weight_id id, uint32_t layer,
                         uint64_t *n_found, gguf_error *error)
{
    const arch_weight *w = &weight_table[id];
    const gguf_tensor *t = arch_find(file, id, layer);
    uint64_t k = arch_size_of(h, w->k), m = arch_size_of(h, w->m);
    char name[64];

    weight_name(id, layer, name, sizeof name);
    if (!t)
        return w->optional || gguf_fail(error, "%s: tensor '%s' is missing", gguf_path(file), name);
    ++*n_found;
    if (t->dims[0] != k || t->dims[1] != m || t->dims[2] != 1 || t->dims[3] != 1)
        return gguf_fail(
            error, "%s: tensor '%s' has shape %llu x %llu x %llu x %llu, expected %llu x %llu",
            gguf_path(file), name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
            (unsigned long long)t->dims[2], (unsigned long long)t->dims[3], (unsigned long long)k,
            (unsigned long long)m);
    if (w->kind != WEIGHT_MATRIX && t->format != FORMAT_F32 && t->format != FORMAT_F16 &&
        t->format != FORMAT_BF16)
        return gguf_refuse(error, "%s: tensor '%s' has format %s, expected F32, F16 or BF16",
                           gguf_path(file), name, format_name((uint32_t)t->format));
    return true;
}

bool arch_check_tensors(const gguf_file *file, const hparams *h, gguf_error *error)
{
    uint64_t n_found = 0;

    for (int id = 0; id < WEIGHT_FIRST_PER_LAYER; id++)
        if (!check_weight(file, h, (enum weight_id)id, 0, &n_found, error))
            return false;
    for (uint32_t layer = 0; layer < h->n_layers; layer++)
        for (int id = WEIGHT_FIRST_PER_LAYER; id < N_WEIGHTS; id++)
            if (!check_weight(file, h, (enum weight_id)id, layer, &n_found, error))
                return false;
    if (n_found == gguf_n_tensors(file))
        return true;

    /* A tensor that the graph doesn't use would silently change what the model computes. */
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        unsigned layer = 0;
        bool known = false;
        if (sscanf(t->name, "blk.%4u.", &layer) == 1 && layer < h->n_layers)
            for (int id = WEIGHT_FIRST_PER_LAYER; id < N_WEIGHTS; id++)
                known = known || t == arch_find(file, (enum weight_id)id, layer);
        else
            for (int id = 0; id < WEIGHT_FIRST_PER_LAYER; id++)
                known = known || t == arch_find(file, (enum weight_id)id, 0);
        if (!known)
            return gguf_refuse(error, "%s: architecture '%s' has no tensor '%s'", gguf_path(file),
                               h->architecture, t->name);
    }
    return true;
}

/* The reference transformer (transformer_reference.h). */
#include "transformer_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

typedef struct reference {
    const gguf_file *file;
    const char *without;
    uint32_t n, n_embd, n_ff, n_heads, n_kv_heads, head_size, rope_size;
    double eps, rope_base;
} reference;

static double *zeros(uint64_t n)
{
    double *out = calloc(n, sizeof *out);

    ck_assert_ptr_nonnull(out);
    return out;
}

/* A tensor's values, to be freed; NULL where it is absent and may be. */
static double *read_tensor(const reference *r, uint32_t layer, const char *name, bool optional)
{
    gguf_error error;
    char full[96];

    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    if (strncmp(name, "token_", 6) == 0 || strncmp(name, "output", 6) == 0)
        snprintf(full, sizeof full, "%s", name);
    const gguf_tensor *tensor = gguf_find_tensor(r->file, full);
    if (tensor && r->without && strstr(full, r->without))
        return NULL;
    ck_assert_msg(tensor || optional, "no tensor %s", full);
    if (!tensor)
        return NULL;
    uint8_t *data = malloc(tensor->size_bytes);
    double *out = zeros(tensor->n_elements);

    ck_assert(data && gguf_tensor_read(r->file, tensor, 0, data, tensor->size_bytes, &error));
    format_dequantize(format_find(tensor->format), data, tensor->n_elements, out);
    free(data);
    return out;
}

/* out[t][o] (+)= W x[t] + bias, for all rows; W is [m][k]. */
static void multiply(const reference *r, uint32_t layer, const char *name, const char *bias_name,
                     uint32_t k, uint32_t m, const double *x, bool adds, double *out)
{
    double *w = read_tensor(r, layer, name, false);
    double *bias = bias_name ? read_tensor(r, layer, bias_name, true) : NULL;

    for (uint32_t t = 0; t < r->n; t++)
        for (uint32_t o = 0; o < m; o++) {
            double sum = bias ? bias[o] : 0;
            for (uint32_t i = 0; i < k; i++)
                sum += w[(uint64_t)o * k + i] * x[(uint64_t)t * k + i];
            out[(uint64_t)t * m + o] = adds ? out[(uint64_t)t * m + o] + sum : sum;
        }
    free(bias);
    free(w);
}

static void normalise(const reference *r, uint32_t layer, const char *name, const double *x,
                      double *out)
{
    double *w = read_tensor(r, layer, name, false);

    for (uint32_t t = 0; t < r->n; t++) {
        const double *row = x + (uint64_t)t * r->n_embd;
        double squares = 0;

        for (uint32_t i = 0; i < r->n_embd; i++)
            squares += row[i] * row[i];
        for (uint32_t i = 0; i < r->n_embd; i++)
            out[(uint64_t)t * r->n_embd + i] = row[i] * w[i] / sqrt(squares / r->n_embd + r->eps);
    }
    free(w);
}

/* Neighbours (2i, 2i + 1) of each head turn by position * base^(-2i / size). */
static void rotate(const reference *r, uint32_t n_heads, double *x)
{
    for (uint32_t t = 0; t < r->n; t++)
        for (uint32_t head = 0; head < n_heads; head++)
            for (uint32_t i = 0; i < r->rope_size; i += 2) {
                double *pair = x + ((uint64_t)t * n_heads + head) * r->head_size + i;
                double angle = t * pow(r->rope_base, -(double)i / r->rope_size);
                double first = pair[0] * cos(angle) - pair[1] * sin(angle);

                pair[1] = pair[0] * sin(angle) + pair[1] * cos(angle);
                pair[0] = first;
            }
}

static void attend_head(const reference *r, uint32_t t, uint32_t head, const double *q,
                        const double *k, const double *v, double *out)
{
    uint32_t kv_head = head / (r->n_heads / r->n_kv_heads), size = r->head_size;
    const double *query = q + ((uint64_t)t * r->n_heads + head) * size;
    double *mixed = out + ((uint64_t)t * r->n_heads + head) * size, highest = -INFINITY, sum = 0;
    double *scores = zeros(t + 1);

    for (uint32_t p = 0; p <= t; p++) {
        const double *key = k + ((uint64_t)p * r->n_kv_heads + kv_head) * size;
        for (uint32_t i = 0; i < size; i++)
            scores[p] += query[i] * key[i] / sqrt(size);
        highest = fmax(highest, scores[p]);
    }
    for (uint32_t p = 0; p <= t; p++)
        sum += scores[p] = exp(scores[p] - highest);
    for (uint32_t i = 0; i < size; i++)
        mixed[i] = 0;
    for (uint32_t p = 0; p <= t; p++)
        for (uint32_t i = 0; i < size; i++)
            mixed[i] += scores[p] / sum * v[((uint64_t)p * r->n_kv_heads + kv_head) * size + i];
    free(scores);
}

static void attention(const reference *r, uint32_t layer, const double *normed, double *x)
{
    uint32_t n_q = r->n_heads * r->head_size, n_kv = r->n_kv_heads * r->head_size;
    double *q = zeros((uint64_t)r->n * n_q), *attended = zeros((uint64_t)r->n * n_q);
    double *k = zeros((uint64_t)r->n * n_kv), *v = zeros((uint64_t)r->n * n_kv);

    multiply(r, layer, "attn_q.weight", "attn_q.bias", r->n_embd, n_q, normed, false, q);
    multiply(r, layer, "attn_k.weight", "attn_k.bias", r->n_embd, n_kv, normed, false, k);
    multiply(r, layer, "attn_v.weight", "attn_v.bias", r->n_embd, n_kv, normed, false, v);
    rotate(r, r->n_heads, q);
    rotate(r, r->n_kv_heads, k);
    for (uint32_t t = 0; t < r->n; t++)
        for (uint32_t head = 0; head < r->n_heads; head++)
            attend_head(r, t, head, q, k, v, attended);
    multiply(r, layer, "attn_output.weight", "attn_output.bias", n_q, r->n_embd, attended, true, x);
    free(v);
    free(k);
    free(attended);
    free(q);
}

static void feed_forward(const reference *r, uint32_t layer, const double *normed, double *x)
{
    uint64_t n = (uint64_t)r->n * r->n_ff;
    double *gate = zeros(n), *up = zeros(n);

    multiply(r, layer, "ffn_gate.weight", NULL, r->n_embd, r->n_ff, normed, false, gate);
    multiply(r, layer, "ffn_up.weight", NULL, r->n_embd, r->n_ff, normed, false, up);
    for (uint64_t i = 0; i < n; i++)
        gate[i] *= up[i] / (1 + exp(-gate[i]));
    multiply(r, layer, "ffn_down.weight", NULL, r->n_ff, r->n_embd, gate, true, x);
    free(up);
    free(gate);
}

static uint32_t number(const gguf_file *file, const char *name, uint32_t fallback)
{
    gguf_error error;
    uint32_t value;

    ck_assert(gguf_get_u32(file, name, fallback, &value, &error));
    return value;
}

double *reference_logits(const gguf_file *file, const int32_t *ids, uint32_t n_ids,
                         const char *without)
{
    reference r = {.file = file, .without = without, .n = n_ids};
    uint32_t n_layers = number(file, "llama.block_count", 0);
    gguf_error error;
    float eps, base;

    r.n_embd = number(file, "llama.embedding_length", 0);
    r.n_ff = number(file, "llama.feed_forward_length", 0);
    r.n_heads = number(file, "llama.attention.head_count", 0);
    r.n_kv_heads = number(file, "llama.attention.head_count_kv", r.n_heads);
    ck_assert(r.n_heads > 0 && r.n_kv_heads > 0 && n_layers > 0);
    r.head_size = r.n_embd / r.n_heads;
    r.rope_size = number(file, "llama.rope.dimension_count", r.head_size);
    ck_assert(gguf_get_f32(file, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &eps, &error) &&
              gguf_get_f32(file, "llama.rope.freq_base", 10000, &base, &error));
    r.eps = (double)eps;
    r.rope_base = (double)base;

    uint64_t n = (uint64_t)n_ids * r.n_embd;
    uint32_t n_vocab = (uint32_t)gguf_find_tensor(file, "token_embd.weight")->dims[1];
    double *embedding = read_tensor(&r, 0, "token_embd.weight", false);
    double *x = zeros(n), *normed = zeros(n), *logits = zeros((uint64_t)n_ids * n_vocab);
    bool is_tied = !gguf_find_tensor(file, "output.weight");

    for (uint64_t i = 0; i < n; i++)
        x[i] = embedding[(uint64_t)ids[i / r.n_embd] * r.n_embd + i % r.n_embd];
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        normalise(&r, layer, "attn_norm.weight", x, normed);
        attention(&r, layer, normed, x);
        normalise(&r, layer, "ffn_norm.weight", x, normed);
        feed_forward(&r, layer, normed, x);
    }
    normalise(&r, 0, "output_norm.weight", x, normed);
    multiply(&r, 0, is_tied ? "token_embd.weight" : "output.weight", NULL, r.n_embd, n_vocab,
             normed, false, logits);
    free(normed);
    free(x);
    free(embedding);
    return logits;
}

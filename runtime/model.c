/* Model loading: checks the file against its architecture, plans where each tensor goes on the
 * device, repacks and uploads. Nothing is allocated on the device before the whole file has been
 * checked. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cooperative.h"
#include "params.h"

/* Tensors are gathered in buffers of at most this size; a part never crosses buffers. */
#define MAX_BUFFER_BYTES (256ull << 20)
#define STAGING_BYTES (8u << 20)

otr_result model_fail(otr_context *context, const gguf_error *error)
{
    otr_result result = error->is_out_of_memory ? OTR_ERROR_OUT_OF_MEMORY
                        : error->is_io          ? OTR_ERROR_IO
                        : error->is_unsupported ? OTR_ERROR_UNSUPPORTED
                                                : OTR_ERROR_FORMAT;
    return context_fail(context, result, "%s", error->text);
}

const weight *model_weight(const otr_model *model, enum weight_id id, uint32_t layer)
{
    return id < WEIGHT_FIRST_PER_LAYER ? &model->global[id]
                                       : &model->layers[layer][id - WEIGHT_FIRST_PER_LAYER];
}

otr_model_params otr_model_params_default(void)
{
    return (otr_model_params){.size = sizeof(otr_model_params)};
}

/* ---------------------------------------------------------------------------- planning */

typedef struct placement {
    uint64_t buffer_bytes[MODEL_MAX_BUFFERS];
    uint32_t n_buffers;
} placement;

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

/* Gives a part its place, opening a new buffer when the last one is full. */
static bool place(otr_model *model, placement *p, weight_part *part)
{
    uint64_t alignment = model->gpu->limits.minStorageBufferOffsetAlignment;
    if (alignment < 16)
        alignment = 16;
    uint64_t offset = p->n_buffers ? align_up(p->buffer_bytes[p->n_buffers - 1], alignment) : 0;
    if (!p->n_buffers || (offset && offset + part->n_bytes > MAX_BUFFER_BYTES)) {
        if (p->n_buffers == MODEL_MAX_BUFFERS)
            return false;
        p->n_buffers++;
        offset = 0;
    }
    part->buffer = &model->buffers[p->n_buffers - 1];
    part->offset = offset;
    p->buffer_bytes[p->n_buffers - 1] = offset + part->n_bytes;
    model->weight_bytes += part->n_bytes;
    return true;
}

/* How tensors of consecutive ids make one weight, so that one dispatch multiplies by all of them. */
enum join {
    JOIN_ROWS,    /* one below the other, where their formats are equal */
    JOIN_PAIRS,   /* row by row in turns, where their formats are equal */
    JOIN_VECTORS, /* one after the other; absent ones are zeros */
};

#define MAX_JOINED 3

static const struct {
    enum weight_id first;
    uint32_t n;
    enum join how;
} joins[] = {
    {WEIGHT_Q, 3, JOIN_ROWS},         /* Q, K, V */
    {WEIGHT_Q_BIAS, 3, JOIN_VECTORS}, /* with the rows of Q, K, V */
    {WEIGHT_GATE, 2, JOIN_PAIRS},     /* gate and up, for the SwiGLU of linear.glsl */
};

/* The tensors of one weight. */
typedef struct weight_source {
    const gguf_tensor *tensors[MAX_JOINED]; /* NULL: absent (a bias) */
    uint32_t n;
    enum join how;
    enum weight_kind kind;
    uint64_t lengths[MAX_JOINED]; /* of JOIN_VECTORS: elements of each */
} weight_source;

/* The weight that begins with tensor `id`; false when the file has none of it. */
static bool find_source(const gguf_file *file, const hparams *h, enum weight_id id, uint32_t layer,
                        weight_source *out)
{
    const arch_weight *table = arch_weights();
    uint32_t most = 1;
    bool any = false;

    *out = (weight_source){.kind = table[id].kind};
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++)
        if (id >= joins[i].first && id < joins[i].first + joins[i].n) {
            out->how = joins[i].how;
            most = joins[i].first + joins[i].n - id;
        }
    if (out->how == JOIN_PAIRS && most == 1) /* the second of a pair that was not joined */
        out->how = JOIN_ROWS;
    for (; out->n < most; out->n++) {
        const gguf_tensor *t = arch_find(file, (enum weight_id)(id + out->n), layer);
        if (out->how != JOIN_VECTORS && out->n && t->format != out->tensors[0]->format)
            break;
        any = any || t;
        out->tensors[out->n] = t;
        out->lengths[out->n] = arch_size_of(h, table[id + out->n].k);
    }
    if (out->how == JOIN_PAIRS && out->n == 1)
        out->how = JOIN_ROWS;
    return any;
}

/* Splits a weight in parts of at most one binding and places them. */
static otr_result plan_weight(otr_model *model, const gguf_file *file, const weight_source *source,
                              placement *p, weight *w)
{
    const gguf_tensor *t = source->tensors[0];
    uint32_t words[REPACK_MAX_PLANES];
    enum tensor_format format = source->kind == WEIGHT_VECTOR ? FORMAT_F32 : t->format;

    for (uint32_t i = 0; !t; i++)
        t = source->tensors[i + 1]; /* a name for messages */
    w->repack = repack_find(format);
    if (!w->repack)
        return context_fail(model->context, OTR_ERROR_UNSUPPORTED,
                            "%s: no kernel reads format %s of tensor '%s' yet", gguf_path(file),
                            format_name((uint32_t)format), t->name);
    w->n_joined = source->n;
    w->k = source->kind == WEIGHT_VECTOR ? 0 : (uint32_t)t->dims[0];
    for (uint32_t i = 0; i < source->n; i++) {
        if (source->kind == WEIGHT_VECTOR)
            w->k += (uint32_t)source->lengths[i];
        else
            w->m += (uint32_t)source->tensors[i]->dims[1];
    }
    w->m = source->kind == WEIGHT_VECTOR ? 1 : w->m;
    w->n_chunks = (uint32_t)(repack_padded_k(w->repack, w->k) / w->repack->chunk);

    uint64_t most = model->gpu->limits.maxStorageBufferRange;
    if (most > MAX_BUFFER_BYTES)
        most = MAX_BUFFER_BYTES;
    uint64_t least_rows = source->how == JOIN_PAIRS ? 2 : 1;
    uint64_t rows = w->m;
    while (rows > least_rows && repack_bytes(w->repack, rows, w->k, words) > most)
        rows = (rows / 2 + least_rows - 1) / least_rows * least_rows;
    if (repack_bytes(w->repack, least_rows, w->k, words) > most)
        return context_fail(model->context, OTR_ERROR_UNSUPPORTED,
                            "%s: a row of tensor '%s' is larger than a storage binding of %s",
                            gguf_path(file), t->name, model->gpu->info->name);
    w->n_parts = (uint32_t)((w->m + rows - 1) / rows);
    w->parts = calloc(w->n_parts, sizeof *w->parts);
    if (!w->parts)
        return context_fail(model->context, OTR_ERROR_OUT_OF_MEMORY,
                            "out of memory for tensor '%s'", t->name);
    for (uint32_t i = 0; i < w->n_parts; i++) {
        weight_part *part = &w->parts[i];
        part->first_row = (uint32_t)(i * rows);
        part->n_rows = (uint32_t)(i + 1 < w->n_parts ? rows : w->m - i * rows);
        part->n_bytes = repack_bytes(w->repack, part->n_rows, w->k, part->plane_words);
        if (!place(model, p, part))
            return context_fail(model->context, OTR_ERROR_UNSUPPORTED,
                                "%s: the model needs more than %u buffers", gguf_path(file),
                                MODEL_MAX_BUFFERS);
    }
    return OTR_OK;
}

/* ---------------------------------------------------------------------------- uploading */

typedef struct loader {
    otr_model *model;
    const gguf_file *file;
    const otr_model_params *params;
    uploader uploader;
    uint64_t done, total;
} loader;

static otr_result no_memory(const loader *l)
{
    return context_fail(l->model->context, OTR_ERROR_OUT_OF_MEMORY, "%s: out of memory for weights",
                        l->params->path);
}

static otr_result read_tensor(const loader *l, const gguf_tensor *t, uint64_t first_row,
                              uint64_t n_rows, uint8_t *dst)
{
    uint64_t row_bytes = t->size_bytes / t->dims[1];
    gguf_error error = {0};

    return gguf_tensor_read(l->file, t, first_row * row_bytes, dst, n_rows * row_bytes, &error)
               ? OTR_OK
               : model_fail(l->model->context, &error);
}

/* Rows [first, first + n) of tensors that stand one below the other. */
static otr_result read_rows(const loader *l, const weight_source *source, uint64_t first,
                            uint64_t n, uint64_t row_bytes, uint8_t *dst)
{
    otr_result result = OTR_OK;

    for (uint32_t i = 0; i < source->n && n && result == OTR_OK; i++) {
        uint64_t here = source->tensors[i]->dims[1];
        if (first >= here) {
            first -= here;
            continue;
        }
        uint64_t now = here - first < n ? here - first : n;
        result = read_tensor(l, source->tensors[i], first, now, dst);
        dst += now * row_bytes;
        n -= now;
        first = 0;
    }
    return result;
}

/* The same of two tensors whose rows take turns; first and n are even. */
static otr_result read_pairs(const loader *l, const weight_source *source, uint64_t first,
                             uint64_t n, uint64_t row_bytes, uint8_t *dst)
{
    uint8_t *rows = malloc(n / 2 * row_bytes);
    otr_result result = rows ? OTR_OK : no_memory(l);

    for (uint32_t i = 0; i < 2 && result == OTR_OK; i++) {
        result = read_tensor(l, source->tensors[i], first / 2, n / 2, rows);
        for (uint64_t row = 0; row < n / 2 && result == OTR_OK; row++)
            memcpy(dst + (2 * row + i) * row_bytes, rows + row * row_bytes, row_bytes);
    }
    free(rows);
    return result;
}

/* Vectors may be stored as halfs; kernels read them as F32. */
static otr_result upload_vector(loader *l, const weight_source *source, const weight *w)
{
    double *values = malloc(w->k * sizeof *values);
    float *narrow = calloc(w->parts[0].n_bytes, 1);
    uint8_t *raw = malloc(w->k * sizeof(float));
    otr_result result = values && narrow && raw ? OTR_OK : no_memory(l);
    uint64_t first = 0;

    for (uint32_t i = 0; i < source->n && result == OTR_OK; first += source->lengths[i++]) {
        const gguf_tensor *t = source->tensors[i];
        if (!t)
            continue;
        result = read_tensor(l, t, 0, 1, raw);
        if (result != OTR_OK)
            break;
        l->done += t->size_bytes;
        format_dequantize(format_find((uint32_t)t->format), raw, source->lengths[i], values);
        for (uint64_t j = 0; j < source->lengths[i]; j++)
            narrow[first + j] = (float)values[j];
    }
    if (result == OTR_OK)
        result = upload(&l->uploader, w->parts[0].buffer, w->parts[0].offset, narrow,
                        w->parts[0].n_bytes);
    free(raw);
    free(narrow);
    free(values);
    return result;
}

/* Reads, repacks and uploads one part of a matrix. */
static otr_result upload_part(loader *l, const weight_source *source, const weight *w,
                              weight_part *part)
{
    const format_info *format = format_find((uint32_t)source->tensors[0]->format);
    uint64_t row_bytes = source->tensors[0]->size_bytes / source->tensors[0]->dims[1];
    uint64_t n_bytes = part->n_rows * row_bytes;
    uint8_t *src = malloc(n_bytes), *dst = calloc(part->n_bytes, 1);
    otr_result result = src && dst ? OTR_OK : no_memory(l);

    if (result == OTR_OK)
        result = (source->how == JOIN_PAIRS ? read_pairs : read_rows)(l, source, part->first_row,
                                                                      part->n_rows, row_bytes, src);
    if (result == OTR_OK) {
        if (l->model->gpu->tier >= 3)
            part->scale = cooperative_scale(
                format_largest(format, src, (uint64_t)part->n_rows * w->k));
        repack_rows(w->repack, src, part->n_rows, w->k, dst);
        result = upload(&l->uploader, part->buffer, part->offset, dst, part->n_bytes);
    }
    l->done += n_bytes;
    free(dst);
    free(src);
    return result;
}

static otr_result upload_weight(loader *l, const weight_source *source, const weight *w)
{
    otr_result result = OTR_OK;

    if (source->kind == WEIGHT_VECTOR)
        result = upload_vector(l, source, w);
    for (uint32_t i = 0; source->kind == WEIGHT_MATRIX && i < w->n_parts && result == OTR_OK; i++) {
        result = upload_part(l, source, w, &w->parts[i]);
        if (result == OTR_OK && l->params->on_progress &&
            !l->params->on_progress(l->done, l->total, l->params->progress_user))
            result = context_fail(l->model->context, OTR_ERROR_CANCELLED,
                                  "loading of %s was cancelled", l->params->path);
    }
    return result;
}

static otr_result read_rope_factors(otr_model *model, const gguf_file *file, const gguf_tensor *t)
{
    uint32_t n = model->h.rope_size / 2;
    double *values = NULL;
    uint8_t *raw = NULL;
    gguf_error error = {0};
    otr_result result = OTR_OK;

    raw = malloc(t->size_bytes);
    values = malloc(n * sizeof *values);
    model->rope_factors = malloc(n * sizeof *model->rope_factors);
    if (!raw || !values || !model->rope_factors) {
        result = context_fail(model->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for '%s'",
                              t->name);
        goto out;
    }
    if (!gguf_tensor_read(file, t, 0, raw, t->size_bytes, &error)) {
        result = model_fail(model->context, &error);
        goto out;
    }
    format_dequantize(format_find((uint32_t)t->format), raw, n, values);
    for (uint32_t i = 0; i < n; i++) {
        model->rope_factors[i] = (float)values[i];
        if (!(model->rope_factors[i] > 0)) {
            result = context_fail(model->context, OTR_ERROR_FORMAT,
                                  "%s: '%s' holds a factor that is not positive", gguf_path(file),
                                  t->name);
            goto out;
        }
    }
out:
    free(values);
    free(raw);
    return result;
}

/* One call of `visit` for each weight that the file has. */
static otr_result for_each_weight(otr_model *model, const gguf_file *file,
                                  otr_result (*visit)(otr_model *, const gguf_file *,
                                                      const weight_source *, weight *, void *),
                                  void *user)
{
    weight_source source;

    for (uint32_t layer = 0; layer < model->h.n_layers; layer++)
        for (int id = layer ? WEIGHT_FIRST_PER_LAYER : 0; id < N_WEIGHTS; id += (int)source.n) {
            bool found = find_source(file, &model->h, (enum weight_id)id, layer, &source);
            weight *w = id < WEIGHT_FIRST_PER_LAYER
                            ? &model->global[id]
                            : &model->layers[layer][id - WEIGHT_FIRST_PER_LAYER];
            otr_result result = found ? visit(model, file, &source, w, user) : OTR_OK;
            if (result != OTR_OK)
                return result;
        }
    return OTR_OK;
}

static otr_result visit_plan(otr_model *model, const gguf_file *file, const weight_source *source,
                             weight *w, void *user)
{
    for (uint32_t i = 0; i < source->n; i++)
        model->n_parameters += source->tensors[i] ? source->tensors[i]->n_elements : 0;
    if (source->kind == WEIGHT_ANGLES)
        return read_rope_factors(model, file, source->tensors[0]);
    return plan_weight(model, file, source, user, w);
}

static otr_result visit_upload(otr_model *model, const gguf_file *file, const weight_source *source,
                               weight *w, void *user)
{
    (void)model;
    (void)file;
    return upload_weight(user, source, w);
}

/* --------------------------------------------------------------------------- description */

/* "Q8_0, F32": formats by share of bytes. */
static void describe_formats(const gguf_file *file, char *out, size_t size)
{
    uint64_t bytes[64] = {0};
    size_t used = 0;

    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        bytes[(uint32_t)t->format % 64] += t->size_bytes;
    }
    out[0] = 0;
    for (;;) {
        int best = -1;
        for (int f = 0; f < 64; f++)
            if (bytes[f] && (best < 0 || bytes[f] > bytes[best]))
                best = f;
        if (best < 0 || used + 16 > size)
            break;
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
                                 format_name((uint32_t)best));
        bytes[best] = 0;
    }
}

static void describe_name(const gguf_file *file, char *out, size_t size)
{
    gguf_error error = {0};
    gguf_string name = {0};
    bool present = false;
    const char *slash = strrchr(gguf_path(file), '/');

    if (gguf_get_string(file, "general.name", &name, &present, &error) && present && name.length) {
        size_t n = 0;
        for (size_t i = 0; i < name.length && n < size - 1; i++)
            out[n++] = name.data[i] >= 32 && name.data[i] < 127 ? name.data[i] : '?';
        out[n] = 0;
    } else {
        snprintf(out, size, "%s", slash ? slash + 1 : gguf_path(file));
    }
}

otr_result otr_model_describe(const otr_model *model, otr_model_info *info)
{
    if (!model || !info || info->size < sizeof(size_t))
        return OTR_ERROR_INVALID_ARGUMENT;
    const hparams *h = &model->h;
    otr_model_info full = {
        .size = info->size,
        .n_parameters = model->n_parameters,
        .weight_bytes = model->weight_bytes,
        .n_layers = h->n_layers,
        .n_embd = h->n_embd,
        .n_heads = h->n_heads,
        .n_kv_heads = h->n_kv_heads,
        .head_size = h->head_size,
        .n_ff = h->n_ff,
        .n_vocab = h->n_vocab,
        .n_ctx_train = h->n_ctx_train,
        .device_index = model->gpu->index,
        .tier = model->gpu->tier,
    };
    snprintf(full.name, sizeof full.name, "%s", model->name);
    snprintf(full.architecture, sizeof full.architecture, "%s", h->architecture);
    snprintf(full.formats, sizeof full.formats, "%s", model->formats);
    memcpy(info, &full, info->size < sizeof full ? info->size : sizeof full);
    return OTR_OK;
}

/* ------------------------------------------------------------------------------- loading */

static otr_result upload_weights(otr_model *model, const gguf_file *file,
                                 const otr_model_params *params, const placement *p)
{
    loader l = {.model = model, .file = file, .params = params};
    otr_result result = OTR_OK;

    for (; model->n_buffers < p->n_buffers; model->n_buffers++) {
        result = gpu_buffer_create(model->gpu, p->buffer_bytes[model->n_buffers], MEMORY_DEVICE,
                                   "weights", &model->buffers[model->n_buffers]);
        if (result != OTR_OK)
            return result;
    }
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++)
        l.total += gguf_tensor_at(file, i)->size_bytes;
    result = uploader_create(model->gpu, STAGING_BYTES, &l.uploader);
    if (result != OTR_OK)
        return result;
    result = for_each_weight(model, file, visit_upload, &l);
    uploader_destroy(&l.uploader);
    return result;
}

otr_result otr_model_load(otr_context *context, const otr_model_params *params, otr_model **out)
{
    otr_model_params own = otr_model_params_default();
    otr_result result;
    gguf_error error = {0};
    gguf_file *file = NULL;
    otr_model *model = NULL;
    placement *p = NULL;
    uint32_t index;

    if (!out)
        return OTR_ERROR_INVALID_ARGUMENT;
    *out = NULL;
    if (!context)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!params_take(&own, sizeof own, params))
        return context_fail(context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_model_load: the params' size is not set");
    params = &own;
    if (!params->path || !params->path[0])
        return context_fail(context, OTR_ERROR_INVALID_ARGUMENT, "otr_model_load: no path given");
    if (!gguf_open(params->path, &file, &error))
        return model_fail(context, &error);

    model = calloc(1, sizeof *model);
    p = calloc(1, sizeof *p);
    if (!model || !p) {
        result = context_fail(context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a model");
        goto fail;
    }
    model->context = context;
    if (!hparams_read(file, &model->h, &error)) {
        result = model_fail(context, &error);
        goto fail;
    }
    if (!vocab_load(file, &model->vocab, &error)) {
        /* These errors name keys, not the file. */
        gguf_error named = error;
        snprintf(named.text, sizeof named.text, "%.200s: %.300s", gguf_path(file), error.text);
        result = model_fail(context, &named);
        goto fail;
    }
    model->h.n_vocab = vocab_size(model->vocab);
    if (!arch_check_tensors(file, &model->h, &error)) {
        result = model_fail(context, &error);
        goto fail;
    }
    describe_formats(file, model->formats, sizeof model->formats);
    describe_name(file, model->name, sizeof model->name);

    result = otr_device_find(context, params->device, &index);
    if (result == OTR_OK)
        result = gpu_open(context, index, params->separate_device, &model->gpu);
    if (result != OTR_OK)
        goto fail;
    model->layers = calloc(model->h.n_layers, sizeof *model->layers);
    if (!model->layers) {
        result = context_fail(context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a model");
        goto fail;
    }
    result = for_each_weight(model, file, visit_plan, p);
    if (result == OTR_OK)
        result = upload_weights(model, file, params, p);
    if (result != OTR_OK)
        goto fail;
    context_log(context, OTR_LOG_INFO, "%s: %s, %u layers, %s, %.1f MiB on %s (tier %d)",
                model->name, model->h.architecture, model->h.n_layers, model->formats,
                (double)model->weight_bytes / (1024.0 * 1024.0), model->gpu->info->name,
                (int)model->gpu->tier);
    free(p);
    gguf_close(&file);
    *out = model;
    return OTR_OK;

fail:
    free(p);
    gguf_close(&file);
    otr_model_destroy(&model);
    return result;
}

static void free_parts(weight *weights, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(weights[i].parts);
}

void otr_model_destroy(otr_model **handle)
{
    otr_model *model = handle ? *handle : NULL;
    if (!model)
        return;
    for (uint32_t i = 0; i < model->n_buffers; i++)
        gpu_buffer_destroy(model->gpu, &model->buffers[i]);
    free_parts(model->global, WEIGHT_FIRST_PER_LAYER);
    for (uint32_t layer = 0; model->layers && layer < model->h.n_layers; layer++)
        free_parts(model->layers[layer], N_WEIGHTS - WEIGHT_FIRST_PER_LAYER);
    free(model->layers);
    free(model->rope_factors);
    vocab_free(&model->vocab);
    gpu_close(&model->gpu);
    free(model);
    *handle = NULL;
}

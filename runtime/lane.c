/* Lanes: memory, descriptor sets, and the lists of recorded command buffers that make a step. */
#include "lane.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop_budget.h"
#include "record.h"
#include "tuning.h"

/* --------------------------------------------------------------------- building blocks */

static uint32_t find_grid(lane *l, const uint32_t entry[4])
{
    for (uint32_t i = 0; i < l->n_grids; i++)
        if (!memcmp(l->grids[i], entry, sizeof l->grids[i]))
            return i;
    if (l->n_grids < MAX_GRIDS)
        memcpy(l->grids[l->n_grids], entry, sizeof l->grids[0]);
    return l->n_grids++; /* lane_create fails when there were too many */
}

uint32_t lane_grid(lane *l, uint32_t x, uint32_t rows_per_y, bool output_rows, uint32_t tile)
{
    uint32_t most = l->gpu->limits.maxComputeWorkGroupCount[0];
    uint32_t z = (x + most - 1) / most;
    uint32_t entry[4];

    entry[G_X] = (x + z - 1) / z;
    entry[G_Z] = z;
    entry[G_Y_ROWS] = rows_per_y;
    entry[G_SOURCE] = (uint32_t)output_rows | tile << G_TILE_SHIFT;
    return find_grid(l, entry);
}

uint32_t lane_grid_positions(lane *l, uint32_t x, uint32_t rows_per_y, uint32_t split)
{
    uint32_t entry[4];

    entry[G_X] = x;
    entry[G_Z] = split;
    entry[G_Y_ROWS] = rows_per_y;
    entry[G_SOURCE] = 2;
    return find_grid(l, entry);
}

static uint64_t padded(uint64_t n)
{
    return (n + 3) / 4 * 4;
}

attention_plan lane_attention_plan(const lane *l, enum lane_path path)
{
    const hparams *h = &l->model->h;
    const attention_shape shape = attention_shape_of(h, l->cache_type);
    uint32_t rows = path == PATH_ONE ? 1 : path == PATH_ROWS ? MAX_ROWS : l->prefill_rows;
    attention_use use = path == PATH_ONE    ? ATTENTION_ONE_ROW
                        : path == PATH_ROWS ? ATTENTION_ROWS
                                            : ATTENTION_PREFILL;
    uint32_t qkv = (h->n_heads + 2 * h->n_kv_heads) * h->head_size;

    attention_plan plan = attention_make_plan(&l->tuning, l->gpu->subgroup_size, &shape, use, rows,
                                              l->n_ctx, (uint32_t)padded(qkv), h->attention_scale);
    plan.push.counters_at = l->attention_counters_at;
    return plan;
}

otr_result lane_bind(lane *l, const binding *bindings, uint32_t n, VkDescriptorSet *set)
{
    gpu *g = l->gpu;
    VkDescriptorBufferInfo infos[KERNEL_STORAGE_BUFFERS + 1];
    VkWriteDescriptorSet writes[KERNEL_STORAGE_BUFFERS + 1];
    VkDescriptorSetAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = l->descriptors,
        .descriptorSetCount = 1,
        .pSetLayouts = &g->set_layout,
    };
    VkResult allocated = g->vk.vkAllocateDescriptorSets(g->device, &allocate, set);

    if (allocated != VK_SUCCESS)
        return context_fail_vk(g->context, allocated, "vkAllocateDescriptorSets of a lane");
    for (uint32_t i = 0; i <= n; i++) {
        bool is_state = i == n;
        if (is_state)
            infos[i] = (VkDescriptorBufferInfo){l->words.buffer, 0, STATE_WORDS * 4};
        else
            infos[i] = (VkDescriptorBufferInfo){
                bindings[i].buffer->buffer,
                bindings[i].offset,
                bindings[i].range ? bindings[i].range
                                  : bindings[i].buffer->size - bindings[i].offset,
            };
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = *set,
            .dstBinding = is_state ? KERNEL_STATE_BINDING : i,
            .descriptorCount = 1,
            .descriptorType = is_state ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
                                       : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &infos[i],
        };
    }
    g->vk.vkUpdateDescriptorSets(g->device, n + 1, writes, 0, NULL);
    return OTR_OK;
}

otr_result lane_add(lane *l, const operation *op)
{
    if (l->n_operations == l->capacity) {
        uint32_t capacity = l->capacity ? 2 * l->capacity : 256;
        operation *grown = realloc(l->operations, capacity * sizeof *grown);
        if (!grown)
            return context_fail(l->gpu->context, OTR_ERROR_OUT_OF_MEMORY,
                                "out of memory for a lane");
        l->operations = grown;
        l->capacity = capacity;
    }
    l->operations[l->n_operations++] = *op;
    return OTR_OK;
}

/* ------------------------------------------------------------------------------- memory */

static otr_result create_buffers(lane *l)
{
    gpu *g = l->gpu;
    const hparams *h = &l->model->h;
    uint64_t align = g->limits.minStorageBufferOffsetAlignment;
    uint64_t rows = l->prefill_rows > MAX_ROWS ? l->prefill_rows : MAX_ROWS;
    uint64_t q = (uint64_t)h->n_heads * h->head_size, kv = (uint64_t)h->n_kv_heads * h->head_size;
    const attention_shape shape = attention_shape_of(h, l->cache_type);
    uint64_t cache = attention_cache_bytes(&shape, l->n_ctx), n_attended = 0, n_counters = 0;
    otr_result result = OTR_OK;

    l->layer_cache_bytes = (cache + align - 1) / align * align;
    for (int path = 0; path < N_PATHS; path++) {
        const attention_plan plan = lane_attention_plan(l, (enum lane_path)path);
        n_attended = plan.out_words > n_attended ? plan.out_words : n_attended;
        n_counters = plan.n_counters > n_counters ? plan.n_counters : n_counters;
    }
    l->attention_counters_at = (uint32_t)n_attended;
    l->logits_stride = (uint32_t)padded(h->n_vocab);
    uint64_t widest = h->n_embd > h->n_ff ? h->n_embd : h->n_ff;
    widest = (q > widest ? q : widest) / QUANTISED_BLOCK * QUANTISED_WORDS;
    const struct {
        gpu_buffer *buffer;
        uint64_t bytes, binding_bytes; /* binding: what one kernel sees of it */
        enum memory_use use;
        const char *name;
    } wanted[] = {
        {&l->words, (LANE_HISTORY + l->n_ctx + 32) * 4ull, 0, MEMORY_DEVICE, "lane"},
        {&l->request, (Q_TOKENS + rows) * 4, 0, MEMORY_UPLOAD, "request"},
        {&l->k_cache, l->layer_cache_bytes * h->n_layers, l->layer_cache_bytes, MEMORY_DEVICE,
         "K cache"},
        {&l->v_cache, l->layer_cache_bytes * h->n_layers, l->layer_cache_bytes, MEMORY_DEVICE,
         "V cache"},
        {&l->angles, (uint64_t)l->n_ctx * h->rope_size * 4, 0, MEMORY_DEVICE, "angles"},
        {&l->x, rows * padded(h->n_embd) * 4, 0, MEMORY_DEVICE, "x"},
        {&l->normed, rows * padded(h->n_embd) * 4, 0, MEMORY_DEVICE, "normed"},
        {&l->qkv, rows * padded(q + 2 * kv) * 4, 0, MEMORY_DEVICE, "qkv"},
        {&l->attended, (n_attended + n_counters) * 4, 0, MEMORY_DEVICE, "attended"},
        {&l->gate_up, rows * 2 * padded(h->n_ff) * 4, 0, MEMORY_DEVICE, "gate and up"},
        {&l->gated, rows * padded(h->n_ff) * 4, 0, MEMORY_DEVICE, "gated"},
        {&l->logits, (uint64_t)MAX_ROWS * l->logits_stride * 4, 0, MEMORY_DEVICE, "logits"},
        {&l->logits_host, (uint64_t)MAX_ROWS * l->logits_stride * 4, 0, MEMORY_READBACK,
         "logits (host)"},
        {&l->quantised, g->uses_dot8 ? MAX_ROWS * widest * 4 + 16 : 16, 0, MEMORY_DEVICE,
         "quantised"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && result == OTR_OK; i++) {
        uint64_t seen = wanted[i].binding_bytes ? wanted[i].binding_bytes : wanted[i].bytes;
        if (seen > g->limits.maxStorageBufferRange)
            return context_fail(
                g->context, OTR_ERROR_UNSUPPORTED,
                "a context of %u positions needs %llu bytes of %s in one binding, %s "
                "has at most %u; use a smaller context",
                l->n_ctx, (unsigned long long)seen, wanted[i].name, g->info->name,
                g->limits.maxStorageBufferRange);
        result = gpu_buffer_create(g, wanted[i].bytes, wanted[i].use, wanted[i].name,
                                   wanted[i].buffer);
    }
    return result;
}

/* (cos, sin) of position * frequency, in double: frequency i is base^(-2i / rope size), scaled. */
static otr_result fill_angles(lane *l, uploader *u)
{
    const hparams *h = &l->model->h;
    uint32_t pairs = h->rope_size / 2;
    uint64_t n_bytes = (uint64_t)l->n_ctx * pairs * 8;
    float *table = malloc(n_bytes);
    otr_result result;

    if (!table)
        return context_fail(l->gpu->context, OTR_ERROR_OUT_OF_MEMORY,
                            "out of memory for the angles");
    for (uint32_t i = 0; i < pairs; i++) {
        double frequency = pow((double)h->rope_base, -2.0 * i / h->rope_size) *
                           (double)h->rope_scale;
        if (l->model->rope_factors)
            frequency /= (double)l->model->rope_factors[i];
        for (uint32_t position = 0; position < l->n_ctx; position++) {
            float *pair = table + ((uint64_t)position * pairs + i) * 2;
            pair[0] = (float)cos(position * frequency);
            pair[1] = (float)sin(position * frequency);
        }
    }
    result = upload(u, &l->angles, 0, table, n_bytes);
    free(table);
    return result;
}

/* Zeros where kernels read what nothing wrote: row padding, rows past the last, unused history. */
static otr_result fill_buffers(lane *l)
{
    gpu_buffer *zeroed[] = {&l->words,    &l->x,       &l->normed, &l->qkv,
                            &l->attended, &l->gate_up, &l->gated,  &l->logits};
    uploader u = {0};
    otr_result result = uploader_create(l->gpu, 1u << 20, &u);

    if (result != OTR_OK)
        return result;
    for (size_t i = 0; i < sizeof zeroed / sizeof zeroed[0] && result == OTR_OK; i++)
        result = upload_zero(&u, zeroed[i], 0, zeroed[i]->size);
    memset(l->request.mapped, 0, Q_TOKENS * 4);
    if (result == OTR_OK)
        result = upload(&u, &l->words, LANE_GRID * 4, l->grids, l->n_grids * sizeof l->grids[0]);
    if (result == OTR_OK)
        result = fill_angles(l, &u);
    uploader_destroy(&u);
    return result;
}

static otr_result create_pools(lane *l)
{
    gpu *g = l->gpu;
    uint32_t n_sets = transformer_n_sets(l->model) + 16;
    VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n_sets * KERNEL_STORAGE_BUFFERS},
        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, n_sets},
    };
    VkDescriptorPoolCreateInfo descriptors = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = n_sets,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    VkCommandPoolCreateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = g->queues[l->place.queue].family,
    };
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkResult result = g->vk.vkCreateDescriptorPool(g->device, &descriptors, NULL, &l->descriptors);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "vkCreateDescriptorPool of a lane");
    result = g->vk.vkCreateCommandPool(g->device, &commands, NULL, &l->pool);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "vkCreateCommandPool of a lane");
    result = g->vk.vkCreateFence(g->device, &fence, NULL, &l->place.fence);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "vkCreateFence of a lane");
    return OTR_OK;
}

static uint32_t count_dispatches(const lane *l, enum lane_path path)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n_operations; i++)
        n += l->operations[i].pipeline[path] != VK_NULL_HANDLE;
    return n;
}

otr_result lane_create(otr_model *model, const lane_params *params, const gpu_buffer *exchange,
                       lane **out)
{
    otr_result result;
    lane *l = calloc(1, sizeof *l);

    *out = NULL;
    if (!l)
        return context_fail(model->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a lane");
    l->model = model;
    l->gpu = model->gpu;
    l->place = (work_place){.gpu = l->gpu, .queue = params->queue};
    l->tuning = *params->tuning;
    l->n_ctx = params->n_ctx;
    l->cache_type = params->cache_type;
    l->prefill_rows = params->prefill_rows;
    l->chunk_rows = params->prefill_rows;
    l->layers = calloc(model->h.n_layers, sizeof *l->layers);
    if (!l->layers) {
        result = context_fail(model->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a lane");
        goto fail;
    }
    if ((result = loop_budget_check(model, params->tuning, params->n_ctx)) != OTR_OK ||
        (result = create_buffers(l)) != OTR_OK || (result = create_pools(l)) != OTR_OK ||
        (result = transformer_build(l)) != OTR_OK)
        goto fail;
    if (l->n_grids > MAX_GRIDS) {
        result = context_fail(model->context, OTR_ERROR_UNSUPPORTED,
                              "the model needs %u kinds of dispatches, there is room for %u",
                              l->n_grids, MAX_GRIDS);
        goto fail;
    }
    if ((result = fill_buffers(l)) != OTR_OK || (result = record_lane(l, exchange)) != OTR_OK)
        goto fail;
    l->dispatches_one_row = count_dispatches(l, PATH_ONE);
    *out = l;
    return OTR_OK;

fail:
    lane_destroy(&l);
    return result;
}

void lane_destroy(lane **handle)
{
    lane *l = handle ? *handle : NULL;
    if (!l)
        return;
    gpu *g = l->gpu;
    gpu_buffer *buffers[] = {&l->words, &l->request, &l->k_cache,     &l->v_cache,  &l->angles,
                             &l->x,     &l->normed,  &l->qkv,         &l->attended, &l->gate_up,
                             &l->gated, &l->logits,  &l->logits_host, &l->quantised};
    bool in_use = atomic_load(&g->hung); /* by work that never ended: leave it alone */
    if (l->place.fence && !in_use)
        g->vk.vkDestroyFence(g->device, l->place.fence, NULL);
    if (l->pool && !in_use)
        g->vk.vkDestroyCommandPool(g->device, l->pool, NULL);
    if (l->descriptors && !in_use)
        g->vk.vkDestroyDescriptorPool(g->device, l->descriptors, NULL);
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        gpu_buffer_destroy(g, buffers[i]);
    free(l->operations);
    free(l->layers);
    free(l);
    *handle = NULL;
}

/* ---------------------------------------------------------------------------- submitting */

bool lane_add_begin(const lane *l, submission *s, uint32_t mode)
{
    return submission_add(s, l->link.begin[mode], 0);
}

bool lane_add_layers(const lane *l, submission *s, enum lane_path path)
{
    double ms = l->layer_ms[path] > 0 ? l->layer_ms[path] : SUBMISSION_UNKNOWN_MS;
    bool ok = submission_add(s, l->embed.commands[path], 0);

    for (uint32_t i = 0; i < l->model->h.n_layers && ok; i++)
        ok = submission_add(s, l->layers[i].commands[path], ms);
    return ok;
}

bool lane_add_output(const lane *l, submission *s, enum lane_path path)
{
    double ms = l->layer_ms[path] > 0 ? l->layer_ms[path] : SUBMISSION_UNKNOWN_MS;
    return submission_add(s, l->output.commands[path], ms);
}

bool lane_add_sample(const lane *l, submission *s)
{
    return submission_add(s, l->sample.commands[PATH_ROWS], 0);
}

bool lane_add_draft_step(const lane *l, const lane_link *link, submission *s, uint32_t mode,
                         enum lane_path path)
{
    return submission_add(s, link->begin[mode], 0) && lane_add_layers(l, s, path) &&
           lane_add_output(l, s, PATH_ONE) && lane_add_sample(l, s) &&
           submission_add(s, link->propose, 0);
}

bool lane_add_copy_logits(const lane *l, submission *s)
{
    return submission_add(s, l->copy_logits, 0);
}

uint32_t *lane_request(const lane *l)
{
    return l->request.mapped;
}

void lane_pass_took(lane *l, enum lane_path path, double ms)
{
    l->layer_ms[path] = ms / l->model->h.n_layers;
}

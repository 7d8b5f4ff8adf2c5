/* Recording of lanes: binding, barriers, dispatches. Called while a session is made, never after.
 */
#include "record.h"

#include <stdio.h>

#include "kernel_pool.h"

otr_result record_begin(gpu *g, VkCommandPool pool, const char *name, VkCommandBuffer *commands)
{
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    /* A chain of draft steps holds the same command buffers several times. */
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
    };
    VkResult result = g->vk.vkAllocateCommandBuffers(g->device, &allocate, commands);
    if (result == VK_SUCCESS) {
        gpu_name(g, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)*commands, "%s", name);
        result = g->vk.vkBeginCommandBuffer(*commands, &begin);
    }
    return result == VK_SUCCESS ? OTR_OK
                                : context_fail_vk(g->context, result, "recording of '%s'", name);
}

otr_result record_end(gpu *g, VkCommandBuffer commands, const char *name)
{
    VkResult result = g->vk.vkEndCommandBuffer(commands);
    return result == VK_SUCCESS ? OTR_OK
                                : context_fail_vk(g->context, result, "recording of '%s'", name);
}

static void emit_barrier(gpu *g, VkCommandBuffer commands, VkPipelineStageFlags from,
                         VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags read)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = read,
    };
    g->vk.vkCmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* Kernels after it see what kernels before it wrote, and may write what those read. */
static void emit_kernel_barrier(gpu *g, VkCommandBuffer commands)
{
    emit_barrier(g, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                 VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

void emit_host_barrier(gpu *g, VkCommandBuffer commands)
{
    emit_barrier(g, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

static void bind(gpu *g, VkCommandBuffer commands, VkPipeline pipeline, VkDescriptorSet set,
                 const void *push, uint32_t push_bytes)
{
    g->vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    g->vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, g->pipeline_layout, 0,
                                  1, &set, 0, NULL);
    if (push_bytes)
        g->vk.vkCmdPushConstants(commands, g->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 push_bytes, push);
}

void emit_single(gpu *g, VkCommandBuffer commands, VkPipeline pipeline, VkDescriptorSet set,
                 const void *push, uint32_t push_bytes)
{
    emit_kernel_barrier(g, commands);
    bind(g, commands, pipeline, set, push, push_bytes);
    g->vk.vkCmdDispatch(commands, 1, 1, 1);
}

/* Sampling has the arguments of such a dispatch. They lie in the lane buffer, where kernels have written
 * since begin.comp did. */
void emit_output_rows(const lane *l, VkCommandBuffer commands, VkPipeline pipeline,
                      VkDescriptorSet set, const void *push, uint32_t push_bytes)
{
    const operation *sample = &l->operations[l->sample.first];

    emit_barrier(l->gpu, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT,
                 VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                     VK_ACCESS_INDIRECT_COMMAND_READ_BIT);
    bind(l->gpu, commands, pipeline, set, push, push_bytes);
    l->gpu->vk.vkCmdDispatchIndirect(commands, l->words.buffer,
                                     (LANE_ARGS + 4 * sample->grid[PATH_ROWS]) * 4);
}

static bool takes_part(const operation *op, enum lane_path path, uint32_t kinds)
{
    return op->pipeline[path] && (op->kind & kinds);
}

/* The operations of some kinds; they wait for those that are left out too. */
static void emit_kinds(const lane *l, VkCommandBuffer commands, const operation_group *group,
                       enum lane_path path, uint32_t kinds)
{
    bool waits = false;

    for (uint32_t i = group->first; i < group->end; i++) {
        const operation *op = &l->operations[i];
        waits = waits || op->waits;
        if (!takes_part(op, path, kinds))
            continue;
        if (waits)
            emit_kernel_barrier(l->gpu, commands);
        waits = false;
        bind(l->gpu, commands, op->pipeline[path], op->set, op->push, op->n_push * 4);
        l->gpu->vk.vkCmdDispatchIndirect(commands, l->words.buffer,
                                         (LANE_ARGS + 4 * op->grid[path]) * 4);
    }
}

void emit_group(const lane *l, VkCommandBuffer commands, const operation_group *group,
                enum lane_path path)
{
    emit_kinds(l, commands, group, path, OPERATION_ALL);
}

void emit_begin(const lane *l, const lane_link *link, VkCommandBuffer commands, uint32_t mode)
{
    gpu *g = l->gpu;
    uint32_t push[2] = {mode, l->n_grids};

    /* The last pass has read its arguments and state. */
    emit_barrier(g, commands,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT,
                 VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                 VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    bind(g, commands, l->begin_pipeline, link->begin_set, push, sizeof push);
    g->vk.vkCmdDispatch(commands, 1, 1, 1);
    emit_barrier(g, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT,
                 VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                     VK_ACCESS_UNIFORM_READ_BIT | VK_ACCESS_INDIRECT_COMMAND_READ_BIT);
}

void emit_propose(const lane *l, const lane_link *link, VkCommandBuffer commands)
{
    emit_single(l->gpu, commands, l->propose_pipeline, link->propose_set, NULL, 0);
}

void emit_copy(gpu *g, VkCommandBuffer commands, const gpu_buffer *from, const gpu_buffer *to,
               const VkBufferCopy *copy)
{
    emit_barrier(g, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                 VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
    g->vk.vkCmdCopyBuffer(commands, from->buffer, to->buffer, 1, copy);
    emit_barrier(g, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                 VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    /* Later kernels write the source again. */
    emit_barrier(g, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, 0,
                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0);
}

/* ------------------------------------------------------------------------------ a lane */

static otr_result record_group(lane *l, operation_group *group, enum lane_path path,
                               const char *name)
{
    bool same = path == PATH_ROWS; /* as PATH_ONE, which was recorded before */
    for (uint32_t i = group->first; i < group->end; i++)
        same = same && l->operations[i].pipeline[path] == l->operations[i].pipeline[PATH_ONE];
    if (same && group->commands[PATH_ONE]) {
        group->commands[path] = group->commands[PATH_ONE];
        return OTR_OK;
    }
    otr_result result = record_begin(l->gpu, l->pool, name, &group->commands[path]);
    if (result != OTR_OK)
        return result;
    emit_group(l, group->commands[path], group, path);
    return record_end(l->gpu, group->commands[path], name);
}

otr_result record_kinds(lane *l, const operation_group *group, enum lane_path path, uint32_t kinds,
                        VkCommandBuffer *commands)
{
    bool any = false;

    *commands = VK_NULL_HANDLE;
    for (uint32_t i = group->first; i < group->end; i++)
        any = any || takes_part(&l->operations[i], path, kinds);
    if (!any)
        return OTR_OK;
    otr_result result = record_begin(l->gpu, l->pool, "operations of a kind", commands);
    if (result != OTR_OK)
        return result;
    emit_kinds(l, *commands, group, path, kinds);
    return record_end(l->gpu, *commands, "operations of a kind");
}

static otr_result record_groups(lane *l, enum lane_path path)
{
    static const char *const names[N_PATHS] = {"one row", "rows", "prefill"};
    const char *path_name = names[path];
    char name[64];

    snprintf(name, sizeof name, "embed (%s)", path_name);
    otr_result result = record_group(l, &l->embed, path, name);
    for (uint32_t i = 0; i < l->model->h.n_layers && result == OTR_OK; i++) {
        snprintf(name, sizeof name, "layer %u (%s)", i, path_name);
        result = record_group(l, &l->layers[i], path, name);
    }
    return result;
}

static otr_result record_begins(lane *l, const gpu_buffer *exchange, lane_link *link)
{
    const binding bindings[] = {{&l->words, 0, 0}, {exchange, 0, 0}, {&l->request, 0, 0}};
    otr_result result = kernel_get(l->gpu, "begin", NULL, 0, false, &l->begin_pipeline);

    if (result == OTR_OK)
        result = lane_bind(l, bindings, 3, &link->begin_set);
    for (uint32_t mode = 0; mode < N_BEGIN_MODES && result == OTR_OK; mode++) {
        result = record_begin(l->gpu, l->pool, "begin", &link->begin[mode]);
        if (result == OTR_OK) {
            emit_begin(l, link, link->begin[mode], mode);
            result = record_end(l->gpu, link->begin[mode], "begin");
        }
    }
    return result;
}

static otr_result record_propose(lane *l, const gpu_buffer *exchange, lane_link *link)
{
    const binding bindings[] = {{&l->words, 0, 0}, {exchange, 0, 0}, {&l->request, 0, 0}};
    otr_result result = kernel_get(l->gpu, "propose", NULL, 0, false, &l->propose_pipeline);

    if (result == OTR_OK)
        result = lane_bind(l, bindings, 3, &link->propose_set);
    if (result == OTR_OK)
        result = record_begin(l->gpu, l->pool, "propose", &link->propose);
    if (result != OTR_OK)
        return result;
    emit_propose(l, link, link->propose);
    return record_end(l->gpu, link->propose, "propose");
}

otr_result record_link(lane *l, const gpu_buffer *exchange, lane_link *link)
{
    otr_result result = record_begins(l, exchange, link);
    return result == OTR_OK ? record_propose(l, exchange, link) : result;
}

static otr_result record_copy_logits(lane *l)
{
    VkBufferCopy copy = {0, 0, (VkDeviceSize)MAX_ROWS * l->logits_stride * 4};
    otr_result result = record_begin(l->gpu, l->pool, "copy logits", &l->copy_logits);
    if (result != OTR_OK)
        return result;
    emit_copy(l->gpu, l->copy_logits, &l->logits, &l->logits_host, &copy);
    return record_end(l->gpu, l->copy_logits, "copy logits");
}

otr_result record_lane(lane *l, const gpu_buffer *exchange)
{
    otr_result result;

    for (int path = 0; path < N_PATHS; path++)
        if ((result = record_groups(l, (enum lane_path)path)) != OTR_OK)
            return result;
    if ((result = record_group(l, &l->output, PATH_ONE, "output (one row)")) != OTR_OK ||
        (result = record_group(l, &l->output, PATH_ROWS, "output (rows)")) != OTR_OK ||
        (result = record_group(l, &l->sample, PATH_ROWS, "sample")) != OTR_OK ||
        (result = record_link(l, exchange, &l->link)) != OTR_OK)
        return result;
    return record_copy_logits(l);
}

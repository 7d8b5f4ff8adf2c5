/* Runs single kernels (kernel_run.h): one descriptor set that is rewritten, one command buffer that
 * is recorded again for each dispatch. */
#include "kernel_run.h"

#include <string.h>

#include "step_state.h"

/* Far beyond any single dispatch, even of a software device under a sanitizer. */
#define WAIT_MS 60000u
#define STATE_BYTES (STATE_WORDS * 4)

static VkResult create_commands(kernel_runner *r)
{
    gpu *g = r->gpu;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = g->queues[0].family,
    };
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkResult result = g->vk.vkCreateCommandPool(g->device, &pool, NULL, &r->pool);

    commands.commandPool = r->pool;
    if (result == VK_SUCCESS)
        result = g->vk.vkAllocateCommandBuffers(g->device, &commands, &r->commands);
    if (result == VK_SUCCESS)
        result = g->vk.vkCreateFence(g->device, &fence, NULL, &r->fence);
    return result;
}

static VkResult create_set(kernel_runner *r)
{
    gpu *g = r->gpu;
    VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, KERNEL_STORAGE_BUFFERS},
        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1},
    };
    VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    VkDescriptorSetAllocateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorSetCount = 1,
        .pSetLayouts = &g->set_layout,
    };
    VkResult result = g->vk.vkCreateDescriptorPool(g->device, &pool, NULL, &r->descriptors);

    set.descriptorPool = r->descriptors;
    if (result == VK_SUCCESS)
        result = g->vk.vkAllocateDescriptorSets(g->device, &set, &r->set);
    return result;
}

otr_result kernel_runner_create(gpu *g, kernel_runner *out)
{
    VkResult vk_result;
    otr_result result;

    *out = (kernel_runner){.gpu = g};
    vk_result = create_commands(out);
    if (vk_result == VK_SUCCESS)
        vk_result = create_set(out);
    if (vk_result != VK_SUCCESS) {
        result = context_fail_vk(g->context, vk_result, "preparing to run single kernels");
        goto fail;
    }
    result = gpu_buffer_create(g, STATE_BYTES, MEMORY_READBACK, "spare", &out->spare);
    if (result != OTR_OK)
        goto fail;
    memset(out->spare.mapped, 0, STATE_BYTES);
    return OTR_OK;

fail:
    kernel_runner_destroy(out);
    return result;
}

void kernel_runner_destroy(kernel_runner *r)
{
    gpu *g = r->gpu;

    if (!g)
        return;
    gpu_buffer_destroy(g, &r->spare);
    if (!atomic_load(&g->hung)) {
        g->vk.vkDestroyFence(g->device, r->fence, NULL);
        g->vk.vkDestroyDescriptorPool(g->device, r->descriptors, NULL); /* with its set */
        g->vk.vkDestroyCommandPool(g->device, r->pool, NULL);           /* with its commands */
    }
    *r = (kernel_runner){0};
}

static void write_set(const kernel_runner *r, const kernel_run *run)
{
    VkDescriptorBufferInfo infos[KERNEL_STORAGE_BUFFERS + 1];
    VkWriteDescriptorSet writes[KERNEL_STORAGE_BUFFERS + 1];

    for (uint32_t i = 0; i <= KERNEL_STORAGE_BUFFERS; i++) {
        bool is_state = i == KERNEL_STATE_BINDING;
        const gpu_buffer *buffer = is_state ? run->state : run->buffers[i];

        infos[i] = (VkDescriptorBufferInfo){
            .buffer = buffer ? buffer->buffer : r->spare.buffer,
            .range = is_state ? STATE_BYTES : VK_WHOLE_SIZE,
        };
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = r->set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = is_state ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
                                       : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &infos[i],
        };
    }
    r->gpu->vk.vkUpdateDescriptorSets(r->gpu->device, KERNEL_STORAGE_BUFFERS + 1, writes, 0, NULL);
}

static VkResult record(const kernel_runner *r, const kernel_run *run)
{
    gpu *g = r->gpu;
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkMemoryBarrier to_host = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    VkResult result = g->vk.vkResetCommandPool(g->device, r->pool, 0);

    if (result == VK_SUCCESS)
        result = g->vk.vkBeginCommandBuffer(r->commands, &begin);
    if (result != VK_SUCCESS)
        return result;
    g->vk.vkCmdBindPipeline(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, run->pipeline);
    g->vk.vkCmdBindDescriptorSets(r->commands, VK_PIPELINE_BIND_POINT_COMPUTE, g->pipeline_layout,
                                  0, 1, &r->set, 0, NULL);
    if (run->push_bytes > 0)
        g->vk.vkCmdPushConstants(r->commands, g->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 run->push_bytes, run->push);
    g->vk.vkCmdDispatch(r->commands, run->groups[0], run->groups[1], run->groups[2]);
    g->vk.vkCmdPipelineBarrier(r->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                               VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0, NULL, 0, NULL);
    return g->vk.vkEndCommandBuffer(r->commands);
}

otr_result kernel_runner_run(kernel_runner *r, const kernel_run *run, const char *what)
{
    gpu *g = r->gpu;
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &r->commands,
    };
    VkResult vk_result;
    otr_result result;

    write_set(r, run);
    vk_result = record(r, run);
    if (vk_result != VK_SUCCESS)
        return context_fail_vk(g->context, vk_result, "recording of %s", what);
    vk_result = gpu_submit(g, 0, 1, &submit, r->fence);
    if (vk_result != VK_SUCCESS)
        return context_fail_vk(g->context, vk_result, "vkQueueSubmit of %s", what);
    result = gpu_wait(g, r->fence, WAIT_MS, what);
    if (result != OTR_OK)
        return result;
    vk_result = g->vk.vkResetFences(g->device, 1, &r->fence);
    return vk_result == VK_SUCCESS ? OTR_OK
                                   : context_fail_vk(g->context, vk_result, "vkResetFences");
}

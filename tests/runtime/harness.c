/* Runs single kernels for tests (harness.h). */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "step_state.h"

#define WAIT_MS 60000
#define STATE_BYTES (STATE_WORDS * 4)

#define CHECK_VK(call) ck_assert_msg((call) == VK_SUCCESS, "%s failed", #call)

static void print_log(otr_log_level level, const char *message, void *user)
{
    fprintf(stderr, "%s\n", message);
}

static void check_result(const harness *h, otr_result result, const char *what)
{
    char message[512] = "";
    if (result != OTR_OK && h->context != NULL)
        otr_error_message(h->context, message, sizeof message);
    ck_assert_msg(result == OTR_OK, "%s: %s: %s", what, otr_result_string(result), message);
}

static void create_commands(harness *h)
{
    gpu *g = h->gpu;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = g->queue_family,
    };
    CHECK_VK(g->vk.vkCreateCommandPool(g->device, &pool, NULL, &h->command_pool));
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = h->command_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    CHECK_VK(g->vk.vkAllocateCommandBuffers(g->device, &commands, &h->commands));
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    CHECK_VK(g->vk.vkCreateFence(g->device, &fence, NULL, &h->fence));
}

static void create_set(harness *h)
{
    gpu *g = h->gpu;
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
    CHECK_VK(g->vk.vkCreateDescriptorPool(g->device, &pool, NULL, &h->descriptor_pool));
    VkDescriptorSetAllocateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = h->descriptor_pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &g->set_layout,
    };
    CHECK_VK(g->vk.vkAllocateDescriptorSets(g->device, &set, &h->set));
}

void harness_open(harness *h)
{
    memset(h, 0, sizeof *h);
    otr_context_params params = otr_context_params_default();
    params.log = print_log;
    params.log_level = OTR_LOG_WARNING;
    params.validation = true;
    check_result(h, otr_context_create(&params, &h->context), "otr_context_create");
    uint32_t index = 0;
    check_result(h, otr_device_find(h->context, NULL, &index), "otr_device_find");
    check_result(h, gpu_open(h->context, index, &h->gpu), "gpu_open");
    create_commands(h);
    create_set(h);
    check_result(h, gpu_buffer_create(h->gpu, STATE_BYTES, MEMORY_READBACK, "spare", &h->spare),
                 "spare buffer");
}

void harness_close(harness *h)
{
    gpu *g = h->gpu;
    for (uint32_t i = 0; i < h->n_buffers; i++)
        gpu_buffer_destroy(g, &h->buffers[i]);
    gpu_buffer_destroy(g, &h->spare);
    for (uint32_t i = 0; i < h->n_pipelines; i++)
        g->vk.vkDestroyPipeline(g->device, h->pipelines[i], NULL);
    g->vk.vkDestroyFence(g->device, h->fence, NULL);
    g->vk.vkDestroyCommandPool(g->device, h->command_pool, NULL);
    g->vk.vkDestroyDescriptorPool(g->device, h->descriptor_pool, NULL);
    gpu_close(&h->gpu);
    uint64_t n_messages = otr_validation_message_count(h->context);
    otr_context_destroy(&h->context);
    ck_assert_msg(n_messages == 0, "%llu messages of the validation layer",
                  (unsigned long long)n_messages);
}

bool harness_is_slow(const harness *h)
{
    return strstr(h->gpu->info->name, "SwiftShader") != NULL;
}

static VkPipeline keep_pipeline(harness *h, VkPipeline pipeline)
{
    ck_assert_uint_lt(h->n_pipelines, HARNESS_MAX_OBJECTS);
    h->pipelines[h->n_pipelines++] = pipeline;
    return pipeline;
}

VkPipeline harness_pipeline(harness *h, const char *shader, const uint32_t *constants,
                            uint32_t n_constants, bool pins_subgroup)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    check_result(
        h, kernel_create(h->gpu, shader, constants, n_constants, pins_subgroup, shader, &pipeline),
        shader);
    return keep_pipeline(h, pipeline);
}

VkPipeline harness_pipeline_from(harness *h, const uint32_t *words, size_t n_bytes)
{
    gpu *g = h->gpu;
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = n_bytes,
        .pCode = words,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    CHECK_VK(g->vk.vkCreateShaderModule(g->device, &module_info, NULL, &module));
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
            },
        .layout = g->pipeline_layout,
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
    CHECK_VK(g->vk.vkCreateComputePipelines(g->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline));
    g->vk.vkDestroyShaderModule(g->device, module, NULL);
    return keep_pipeline(h, pipeline);
}

gpu_buffer harness_buffer(harness *h, size_t n_bytes, const void *data)
{
    ck_assert_uint_lt(h->n_buffers, HARNESS_MAX_OBJECTS);
    gpu_buffer *buffer = &h->buffers[h->n_buffers];
    check_result(h, gpu_buffer_create(h->gpu, n_bytes, MEMORY_READBACK, "test", buffer), "buffer");
    h->n_buffers++;
    if (data != NULL)
        memcpy(buffer->mapped, data, n_bytes);
    else
        memset(buffer->mapped, 0, n_bytes);
    return *buffer;
}

void harness_free(harness *h, gpu_buffer *buffer)
{
    for (uint32_t i = 0; i < h->n_buffers; i++) {
        if (h->buffers[i].buffer == buffer->buffer) {
            gpu_buffer_destroy(h->gpu, &h->buffers[i]);
            h->buffers[i] = h->buffers[--h->n_buffers];
            memset(buffer, 0, sizeof *buffer);
            return;
        }
    }
    ck_abort_msg("not a buffer of this harness");
}

static void write_set(harness *h, const gpu_buffer *const buffers[KERNEL_STORAGE_BUFFERS],
                      const gpu_buffer *state)
{
    VkDescriptorBufferInfo infos[KERNEL_STORAGE_BUFFERS + 1];
    VkWriteDescriptorSet writes[KERNEL_STORAGE_BUFFERS + 1];
    for (uint32_t i = 0; i <= KERNEL_STORAGE_BUFFERS; i++) {
        bool is_state = i == KERNEL_STORAGE_BUFFERS;
        const gpu_buffer *buffer = is_state ? state : buffers[i];
        if (buffer == NULL)
            buffer = &h->spare;
        infos[i] = (VkDescriptorBufferInfo){
            .buffer = buffer->buffer,
            .range = is_state ? STATE_BYTES : VK_WHOLE_SIZE,
        };
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = h->set,
            .dstBinding = is_state ? KERNEL_STATE_BINDING : i,
            .descriptorCount = 1,
            .descriptorType =
                is_state ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &infos[i],
        };
    }
    h->gpu->vk.vkUpdateDescriptorSets(h->gpu->device, KERNEL_STORAGE_BUFFERS + 1, writes, 0, NULL);
}

void harness_run(harness *h, VkPipeline pipeline,
                 const gpu_buffer *const buffers[KERNEL_STORAGE_BUFFERS], const gpu_buffer *state,
                 const void *push, uint32_t push_bytes, uint32_t groups_x, uint32_t groups_y,
                 uint32_t groups_z)
{
    gpu *g = h->gpu;
    VkCommandBuffer cmd = h->commands;
    write_set(h, buffers, state);
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    CHECK_VK(g->vk.vkBeginCommandBuffer(cmd, &begin));
    g->vk.vkCmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    g->vk.vkCmdBindDescriptorSets(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, g->pipeline_layout, 0, 1,
                                  &h->set, 0, NULL);
    if (push_bytes > 0)
        g->vk.vkCmdPushConstants(cmd, g->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                 push_bytes, push);
    g->vk.vkCmdDispatch(cmd, groups_x, groups_y, groups_z);
    VkMemoryBarrier to_host = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    g->vk.vkCmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                               VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0, NULL, 0, NULL);
    CHECK_VK(g->vk.vkEndCommandBuffer(cmd));
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &cmd,
    };
    CHECK_VK(g->vk.vkQueueSubmit(g->queue, 1, &submit, h->fence));
    check_result(h, gpu_wait(g, h->fence, WAIT_MS, "a test kernel"), "gpu_wait");
    CHECK_VK(g->vk.vkResetFences(g->device, 1, &h->fence));
}

/* Runs single kernels for tests (harness.h). */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

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

static void open_harness(harness *h, bool validation)
{
    memset(h, 0, sizeof *h);
    otr_context_params params = otr_context_params_default();
    params.log = print_log;
    params.log_level = OTR_LOG_WARNING;
    params.validation = validation;
    check_result(h, otr_context_create(&params, &h->context), "otr_context_create");
    uint32_t index = 0;
    check_result(h, otr_device_find(h->context, NULL, &index), "otr_device_find");
    check_result(h, gpu_open(h->context, index, false, &h->gpu), "gpu_open");
    check_result(h, kernel_runner_create(h->gpu, &h->runner), "kernel_runner_create");
}

void harness_open(harness *h)
{
    open_harness(h, true);
}

void harness_open_fast(harness *h)
{
    open_harness(h, false);
}

void harness_close(harness *h)
{
    gpu *g = h->gpu;
    for (uint32_t i = 0; i < h->n_buffers; i++)
        gpu_buffer_destroy(g, &h->buffers[i]);
    for (uint32_t i = 0; i < h->n_pipelines; i++)
        g->vk.vkDestroyPipeline(g->device, h->pipelines[i], NULL);
    kernel_runner_destroy(&h->runner);
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

void harness_run(harness *h, VkPipeline pipeline,
                 const gpu_buffer *const buffers[KERNEL_STORAGE_BUFFERS], const gpu_buffer *state,
                 const void *push, uint32_t push_bytes, uint32_t groups_x, uint32_t groups_y,
                 uint32_t groups_z)
{
    kernel_run run = {
        .pipeline = pipeline,
        .state = state,
        .push = push,
        .push_bytes = push_bytes,
        .groups = {groups_x, groups_y, groups_z},
    };
    memcpy(run.buffers, buffers, sizeof run.buffers);
    check_result(h, kernel_runner_run(&h->runner, &run, "a test kernel"), "kernel_runner_run");
}

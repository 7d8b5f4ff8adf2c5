/* Compute pipelines from the embedded shaders. Called by lanes when they plan their passes, and by
 * the self-test; from any thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static int compare_names(const void *key, const void *element)
{
    return strcmp(key, ((const shader_code *)element)->name);
}

/* One line: "statistics of LABEL: NAME value, NAME value". What there is differs by driver. */
static void log_statistics(gpu *g, VkPipeline pipeline, const char *label)
{
    VkPipelineExecutableInfoKHR which = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
        .pipeline = pipeline,
    };
    VkPipelineExecutableStatisticKHR statistics[32];
    uint32_t n = sizeof statistics / sizeof statistics[0];
    char line[1024];
    size_t used = 0;

    for (uint32_t i = 0; i < n; i++)
        statistics[i] = (VkPipelineExecutableStatisticKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    /* A compute pipeline has one executable. VK_INCOMPLETE: more than fit here. */
    if (g->vk.vkGetPipelineExecutableStatisticsKHR(g->device, &which, &n, statistics) < 0)
        return;
    line[0] = '\0';
    for (uint32_t i = 0; i < n && used < sizeof line; i++) {
        const VkPipelineExecutableStatisticKHR *s = &statistics[i];
        double value = s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR
                           ? s->value.b32
                       : s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR
                           ? (double)s->value.i64
                       : s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR
                           ? (double)s->value.u64
                           : s->value.f64;
        int more = snprintf(line + used, sizeof line - used, "%s%s %.0f", i ? ", " : "", s->name,
                            value);
        used += more > 0 ? (size_t)more : 0;
    }
    context_log(g->context, OTR_LOG_INFO, "statistics of %s: %s", label, line);
}

otr_result kernel_create(gpu *g, const char *shader, const uint32_t *constants,
                         uint32_t n_constants, bool pins_subgroup, const char *label,
                         VkPipeline *out)
{
    const shader_code *code = bsearch(shader, shader_list, n_shaders, sizeof shader_list[0],
                                      compare_names);
    VkSpecializationMapEntry entries[KERNEL_MAX_CONSTANTS];
    VkSpecializationInfo specialization = {
        .mapEntryCount = n_constants,
        .pMapEntries = entries,
        .dataSize = n_constants * sizeof constants[0],
        .pData = constants,
    };
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup_size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = g->subgroup_size,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .pName = "main",
                .pSpecializationInfo = &specialization,
            },
        .flags = g->has_statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0,
        .layout = g->pipeline_layout,
    };
    VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    VkShaderModule module = VK_NULL_HANDLE;
    otr_result result = OTR_OK;
    VkResult vk_result;

    *out = VK_NULL_HANDLE;
    if (!code)
        return context_fail(g->context, OTR_ERROR_UNSUPPORTED, "%s: no shader '%s' in this build",
                            label, shader);
    if (n_constants > KERNEL_MAX_CONSTANTS)
        return context_fail(g->context, OTR_ERROR_INVALID_ARGUMENT,
                            "%s: shader '%s' was given %u constants", label, shader, n_constants);
    if (n_constants > 0 && constants[0] > g->limits.maxComputeWorkGroupSize[0])
        return context_fail(g->context, OTR_ERROR_UNSUPPORTED,
                            "%s: shader '%s' needs workgroups of %u, the device has at most %u",
                            label, shader, constants[0], g->limits.maxComputeWorkGroupSize[0]);
    for (uint32_t i = 0; i < n_constants; i++)
        entries[i] = (VkSpecializationMapEntry){
            .constantID = i,
            .offset = i * (uint32_t)sizeof constants[0],
            .size = sizeof constants[0],
        };

    module_info.codeSize = code->n_bytes;
    module_info.pCode = code->words;
    vk_result = g->vk.vkCreateShaderModule(g->device, &module_info, NULL, &module);
    if (vk_result != VK_SUCCESS) {
        result = context_fail_vk(g->context, vk_result, "%s: vkCreateShaderModule of '%s'", label,
                                 shader);
        goto end;
    }
    info.stage.module = module;
    if (pins_subgroup && g->tier >= 1 && g->facts->pins_subgroup_size) {
        info.stage.pNext = &subgroup_size;
        /* Full subgroups: invocation i of a workgroup is then lane i % size of subgroup i / size.
         */
        if (g->facts->full_subgroups && n_constants > 0 && constants[0] % g->subgroup_size == 0)
            info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    vk_result = g->vk.vkCreateComputePipelines(g->device, g->pipeline_cache, 1, &info, NULL, out);
    /* Some drivers return success without a pipeline. */
    if (vk_result == VK_SUCCESS && *out == VK_NULL_HANDLE)
        vk_result = VK_ERROR_UNKNOWN;
    if (vk_result != VK_SUCCESS) {
        *out = VK_NULL_HANDLE;
        result = context_fail_vk(g->context, vk_result, "%s: vkCreateComputePipelines of '%s'",
                                 label, shader);
        goto end;
    }
    gpu_name(g, VK_OBJECT_TYPE_PIPELINE, (uint64_t)*out, "%s", label);
    if (g->has_statistics)
        log_statistics(g, *out, label);
    atomic_store(&g->cache_is_dirty, true);
end:
    g->vk.vkDestroyShaderModule(g->device, module, NULL);
    return result;
}

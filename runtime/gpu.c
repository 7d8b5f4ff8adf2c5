/* Opening a device as a gpu, shared and counted by the models on it; names and waits. Called by
 * models (model.c), sessions and the self-test. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cooperative.h"
#include "kernel_pool.h"
#include "pipeline_cache.h"
#include "tuning_file.h"

/* volk reads its one global vkGetDeviceProcAddr while it fills a device table, and contexts may
 * have different loaders: the caller holds loader_lock. */
static void load_device_table(gpu *g)
{
    vkGetDeviceProcAddr = g->context->vk.vkGetDeviceProcAddr;
    volkLoadDeviceTable(&g->vk, g->device);
}

static otr_result create_device(gpu *g)
{
    otr_context *context = g->context;
    const device_facts *facts = g->facts;
    const bool size_control = g->tier >= 1 && facts->pins_subgroup_size;
    const float priorities[GPU_MAX_QUEUES] = {1.0f, 1.0f};
    const char *extensions[6];
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = facts->full_subgroups,
    };
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = size_control ? &subgroup_size : NULL,
        .pipelineExecutableInfo = VK_TRUE,
    };
    VkPhysicalDevice16BitStorageFeatures storage16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
        .pNext = g->has_statistics ? &statistics : statistics.pNext,
        .storageBuffer16BitAccess = g->tier >= 1,
    };
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot8 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .pNext = &storage16,
        .shaderIntegerDotProduct = VK_TRUE,
    };
    /* Tier 3: what matmul_cooperative.comp uses, all of it or none. */
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .pNext = g->uses_dot8 ? (void *)&dot8 : (void *)&storage16,
        .cooperativeMatrix = VK_TRUE,
    };
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
        .pNext = &cooperative,
        .vulkanMemoryModel = VK_TRUE,
        /* With the first, the atomics of other kernels need this too. */
        .vulkanMemoryModelDeviceScope = VK_TRUE,
    };
    VkPhysicalDeviceShaderFloat16Int8Features float16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
        .pNext = &memory_model,
        .shaderFloat16 = VK_TRUE,
    };
    VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
        .pNext = g->tier >= 3 ? (void *)&float16 : cooperative.pNext,
        /* Bounds checks cost time: kernels must not need them, and validation shows if they do. */
        .features.robustBufferAccess = context->validation && facts->has_robust_access,
    };
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES,
        .pNext = &features,
        .timelineSemaphore = VK_TRUE,
    };
    VkDeviceQueueCreateInfo queues[GPU_MAX_QUEUES];
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = g->info->has_timeline_semaphores ? (void *)&timeline : (void *)&features,
        .pQueueCreateInfos = queues,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult result;

    info.queueCreateInfoCount = g->has_two_families ? 2 : 1;
    for (uint32_t i = 0; i < info.queueCreateInfoCount; i++)
        queues[i] = (VkDeviceQueueCreateInfo){
            .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
            .queueFamilyIndex = g->queues[i].family,
            .queueCount = g->has_two_families ? 1 : g->n_queues,
            .pQueuePriorities = priorities,
        };
    if (size_control && facts->subgroup_control_is_extension)
        extensions[info.enabledExtensionCount++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (g->has_statistics)
        extensions[info.enabledExtensionCount++] =
            VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    if (g->tier >= 3)
        extensions[info.enabledExtensionCount++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (g->uses_dot8 && facts->dot8_is_extension)
        extensions[info.enabledExtensionCount++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    if (g->info->has_timeline_semaphores && facts->timeline_is_extension)
        extensions[info.enabledExtensionCount++] = VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME;
    if (facts->is_portability_subset)
        extensions[info.enabledExtensionCount++] = "VK_KHR_portability_subset";
    loader_lock();
    result = context->vk.vkCreateDevice(g->physical, &info, NULL, &g->device);
    if (result == VK_SUCCESS)
        load_device_table(g);
    loader_unlock();
    if (result != VK_SUCCESS) {
        g->device = NULL;
        return context_fail_vk(context, result, "vkCreateDevice of device %u (%s)", g->index,
                               g->info->name);
    }
    for (uint32_t i = 0; i < g->n_queues; i++)
        g->vk.vkGetDeviceQueue(g->device, g->queues[i].family, g->has_two_families ? 0 : i,
                               &g->queues[i].queue);
    return OTR_OK;
}

static otr_result create_layout(gpu *g)
{
    VkDescriptorSetLayoutBinding bindings[KERNEL_STORAGE_BUFFERS + 1];
    VkDescriptorSetLayoutCreateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = KERNEL_STORAGE_BUFFERS + 1,
        .pBindings = bindings,
    };
    VkPushConstantRange push = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        .size = KERNEL_PUSH_BYTES,
    };
    VkPipelineLayoutCreateInfo layout_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &g->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push,
    };
    VkResult result;

    for (uint32_t i = 0; i <= KERNEL_STORAGE_BUFFERS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = i == KERNEL_STATE_BINDING ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
                                                        : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    result = g->vk.vkCreateDescriptorSetLayout(g->device, &set_info, NULL, &g->set_layout);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "vkCreateDescriptorSetLayout of the kernels");
    gpu_name(g, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, (uint64_t)g->set_layout, "kernels");
    result = g->vk.vkCreatePipelineLayout(g->device, &layout_info, NULL, &g->pipeline_layout);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "vkCreatePipelineLayout of the kernels");
    gpu_name(g, VK_OBJECT_TYPE_PIPELINE_LAYOUT, (uint64_t)g->pipeline_layout, "kernels");
    return OTR_OK;
}

/* Everything that gpu_open made, whole or in part. The caller holds gpu_lock. */
static void destroy_gpu(gpu *g)
{
    if (g->device && atomic_load(&g->hung)) {
        context_log(g->context, OTR_LOG_WARNING,
                    "device %u (%s) did not finish its work; it stays open until the program ends",
                    g->index, g->info->name);
        g->context->abandoned = true;
    } else if (g->device) {
        g->vk.vkDestroyPipelineCache(g->device, g->pipeline_cache, NULL);
        g->vk.vkDestroyPipelineLayout(g->device, g->pipeline_layout, NULL);
        g->vk.vkDestroyDescriptorSetLayout(g->device, g->set_layout, NULL);
        loader_lock();
        g->vk.vkDestroyDevice(g->device, NULL);
        loader_unlock();
    }
    for (uint32_t i = 0; i < GPU_MAX_QUEUES; i++)
        pthread_mutex_destroy(&g->queues[i].lock);
    pthread_mutex_destroy(&g->kernels_lock);
    free(g);
}

static void choose_queues(gpu *g)
{
    const uint32_t *families = g->facts->queue_families;

    g->has_two_families = families[0] != families[1];
    g->n_queues = g->has_two_families ? 2 : g->info->queue_families[families[0]].n_queues;
    g->n_queues = g->n_queues < GPU_MAX_QUEUES ? g->n_queues : GPU_MAX_QUEUES;
    for (uint32_t i = 0; i < GPU_MAX_QUEUES; i++)
        g->queues[i].family = families[i];
}

void gpu_describe(otr_context *context, uint32_t index, int32_t tier, gpu *g)
{
    VkPhysicalDeviceProperties properties;

    *g = (gpu){.context = context, .index = index, .tier = tier};
    g->info = &context->devices[index];
    g->facts = &context->facts[index];
    g->uses_dot8 = context->dot8 && g->tier >= 2 && g->facts->has_dot8;
    g->physical = context->physical[index];
    choose_queues(g);
    g->subgroup_size = g->facts->subgroup_size;
    g->has_statistics = context->statistics && g->facts->has_pipeline_statistics;
    g->is_cpu = g->info->type == OTR_DEVICE_CPU;
    context->vk.vkGetPhysicalDeviceProperties(g->physical, &properties);
    g->limits = properties.limits;
    context->vk.vkGetPhysicalDeviceMemoryProperties(g->physical, &g->memory);
}

/* The caller holds gpu_lock. */
static otr_result create_gpu(otr_context *context, uint32_t index, int32_t tier, gpu **out)
{
    otr_result result;
    gpu *g = calloc(1, sizeof *g);

    if (!g)
        return context_fail(context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for device %u", index);
    gpu_describe(context, index, tier, g);
    for (uint32_t i = 0; i < GPU_MAX_QUEUES; i++)
        pthread_mutex_init(&g->queues[i].lock, NULL);
    pthread_mutex_init(&g->kernels_lock, NULL);
    g->tuning = tuning_file_load(g);
    result = create_device(g);
    if (result)
        goto end;
    for (uint32_t i = 0; i < g->n_queues; i++)
        gpu_name(g, VK_OBJECT_TYPE_QUEUE, (uint64_t)(uintptr_t)g->queues[i].queue, "queue %u", i);
    result = create_layout(g);
    if (result)
        goto end;
    result = pipeline_cache_load(g);
end:
    if (result) {
        destroy_gpu(g);
        g = NULL;
    }
    *out = g;
    return result;
}

/* The opened one, or NULL. */
static gpu *find_shared(const otr_context *context, uint32_t index)
{
    for (gpu *g = context->gpus; g; g = g->next)
        if (g->index == index && !g->separate)
            return g;
    return NULL;
}

static otr_result open_gpu(otr_context *context, uint32_t index, int32_t tier, bool separate,
                           gpu **out)
{
    otr_result result = OTR_OK;
    gpu *g;

    pthread_mutex_lock(&context->gpu_lock);
    g = separate ? NULL : find_shared(context, index);
    if (!g) {
        result = create_gpu(context, index, tier, &g);
        if (result)
            goto end;
        if (tier_limit_applies(context, index) && tier == context->devices[index].tier)
            context_log(context, OTR_LOG_WARNING, "device %u (%s): %s", index,
                        context->devices[index].name, context->devices[index].note);
        g->separate = separate;
        g->next = context->gpus;
        context->gpus = g;
    }
    g->n_users++;
    *out = g;
end:
    pthread_mutex_unlock(&context->gpu_lock);
    return result;
}

otr_result gpu_check_usable(otr_context *context, uint32_t index)
{
    if (index >= context->n_devices)
        return context_fail(context, OTR_ERROR_NO_DEVICE, "there is no device %u; there are %u",
                            index, context->n_devices);
    if (context->devices[index].tier < 0)
        return context_fail(context, OTR_ERROR_NO_DEVICE, "device %u (%s) can't be used: it %s",
                            index, context->devices[index].name, context->devices[index].problem);
    return OTR_OK;
}

otr_result gpu_open(otr_context *context, uint32_t index, bool separate, gpu **out)
{
    otr_result result = gpu_check_usable(context, index);

    *out = NULL;
    if (result != OTR_OK)
        return result;
    return open_gpu(context, index, context->devices[index].tier, separate, out);
}

otr_result gpu_open_at_tier(otr_context *context, uint32_t index, int32_t tier, gpu **out)
{
    otr_result result = gpu_check_usable(context, index);

    *out = NULL;
    return result == OTR_OK
               ? open_gpu(context, index, tier, tier != context->devices[index].tier, out)
               : result;
}

void gpu_close(gpu **handle)
{
    gpu *g = handle ? *handle : NULL;
    otr_context *context;

    if (!g)
        return;
    *handle = NULL;
    context = g->context;
    pthread_mutex_lock(&context->gpu_lock);
    if (--g->n_users == 0) {
        gpu **at = &context->gpus;
        while (*at != g)
            at = &(*at)->next;
        *at = g->next;
        pipeline_cache_store(g);
        kernel_pool_free(g);
        destroy_gpu(g);
    }
    pthread_mutex_unlock(&context->gpu_lock);
}

void gpu_name(gpu *g, VkObjectType type, uint64_t handle, const char *format, ...)
{
    VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = type,
        .objectHandle = handle,
    };
    char name[128];
    va_list arguments;

    if (!g->context->vk.vkSetDebugUtilsObjectNameEXT || !handle)
        return;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    info.pObjectName = name;
    /* The loader looks the device up in its lists of all of them, which other contexts may be changing. A
     * name that can't be set is no reason to fail. */
    loader_lock();
    g->context->vk.vkSetDebugUtilsObjectNameEXT(g->device, &info);
    loader_unlock();
}

VkResult gpu_submit(gpu *g, uint32_t queue, uint32_t n_infos, const VkSubmitInfo *infos,
                    VkFence fence)
{
    pthread_mutex_lock(&g->queues[queue].lock);
    VkResult result = g->vk.vkQueueSubmit(g->queues[queue].queue, n_infos, infos, fence);
    pthread_mutex_unlock(&g->queues[queue].lock);
    return result;
}

otr_result gpu_wait(gpu *g, VkFence fence, uint32_t timeout_ms, const char *what)
{
    VkResult result = g->vk.vkWaitForFences(g->device, 1, &fence, VK_TRUE,
                                            (uint64_t)timeout_ms * 1000000u);

    if (result == VK_SUCCESS)
        return OTR_OK;
    if (result == VK_TIMEOUT) {
        atomic_store(&g->hung, true);
        return context_fail(g->context, OTR_ERROR_TIMEOUT,
                            "device %u (%s) did not finish within %u ms: %s", g->index,
                            g->info->name, timeout_ms, what);
    }
    return context_fail_vk(g->context, result, "waiting for device %u (%s): %s", g->index,
                           g->info->name, what);
}

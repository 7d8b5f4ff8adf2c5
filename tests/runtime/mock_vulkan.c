/* Instance, device, memory, pipelines and descriptors of the mock device (mock_vulkan.h). */
#include "mock_vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------- instance */

static char instance_object, physical_object;

static VkResult VKAPI_CALL enumerate_instance_version(uint32_t *version)
{
    *version = VK_API_VERSION_1_1;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL enumerate_instance_extension_properties(const char *layer, uint32_t *n,
                                                                   VkExtensionProperties *list)
{
    if (list)
        snprintf(list[0].extensionName, sizeof list[0].extensionName, "%s",
                 VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    *n = 1;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, NO_ALLOCATOR,
                                           VkInstance *instance)
{
    *instance = (VkInstance)&instance_object;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_instance(VkInstance instance, NO_ALLOCATOR)
{
}

static VkResult VKAPI_CALL enumerate_physical_devices(VkInstance instance, uint32_t *n,
                                                      VkPhysicalDevice *list)
{
    if (list)
        list[0] = (VkPhysicalDevice)&physical_object;
    *n = 1;
    return VK_SUCCESS;
}

static void VKAPI_CALL get_physical_device_properties(VkPhysicalDevice physical,
                                                      VkPhysicalDeviceProperties *out)
{
    *out = (VkPhysicalDeviceProperties){
        .apiVersion = VK_API_VERSION_1_1,
        .driverVersion = 1,
        .deviceType = VK_PHYSICAL_DEVICE_TYPE_OTHER,
        .deviceName = "Mock",
        .limits =
            {
                .maxUniformBufferRange = 65536,
                .maxStorageBufferRange = 1u << 30,
                .maxPushConstantsSize = 4 * MOCK_PUSH_WORDS,
                .maxPerStageDescriptorStorageBuffers = MOCK_BINDINGS,
                .maxComputeSharedMemorySize = 32768,
                .maxComputeWorkGroupCount = {65535, 65535, 65535},
                .maxComputeWorkGroupInvocations = 256,
                .maxComputeWorkGroupSize = {256, 256, 64},
                .minStorageBufferOffsetAlignment = 16,
                .minUniformBufferOffsetAlignment = 16,
                .timestampPeriod = 1,
            },
    };
}

static void VKAPI_CALL get_physical_device_properties2(VkPhysicalDevice physical,
                                                       VkPhysicalDeviceProperties2 *out)
{
    get_physical_device_properties(physical, &out->properties);
    for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext) {
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES)
            ((VkPhysicalDeviceMaintenance3Properties *)at)->maxMemoryAllocationSize = 1u << 30;
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)
            memset(((VkPhysicalDeviceIDProperties *)at)->deviceUUID, 'M', VK_UUID_SIZE);
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES)
            ((VkPhysicalDeviceSubgroupProperties *)at)->subgroupSize = 1;
    }
}

static bool has_timeline(void)
{
    const char *wanted = getenv("MOCK_VULKAN_TIMELINE");
    return !wanted || strcmp(wanted, "0") != 0;
}

/* None that kernels use: those of tier 0. */
static void VKAPI_CALL get_physical_device_features2(VkPhysicalDevice physical,
                                                     VkPhysicalDeviceFeatures2 *out)
{
    for (VkBaseOutStructure *at = out->pNext; at; at = at->pNext)
        if (at->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
            ((VkPhysicalDeviceTimelineSemaphoreFeatures *)at)->timelineSemaphore = has_timeline();
}

static void VKAPI_CALL get_physical_device_memory_properties(VkPhysicalDevice physical,
                                                             VkPhysicalDeviceMemoryProperties *out)
{
    *out = (VkPhysicalDeviceMemoryProperties){
        .memoryTypeCount = 1,
        .memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                             VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                             VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                         0}},
        .memoryHeapCount = 1,
        .memoryHeaps = {{1u << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}},
    };
}

static void VKAPI_CALL get_physical_device_queue_family_properties(VkPhysicalDevice physical,
                                                                   uint32_t *n,
                                                                   VkQueueFamilyProperties *list)
{
    const char *queues = getenv("MOCK_VULKAN_QUEUES");
    const bool two_families = queues && !strcmp(queues, "1+1"),
               two = queues && !strcmp(queues, "2");

    if (list)
        for (uint32_t i = 0; i < (two_families ? 2 : 1); i++)
            list[i] = (VkQueueFamilyProperties){
                .queueFlags = VK_QUEUE_COMPUTE_BIT | (i ? VK_QUEUE_GRAPHICS_BIT : 0),
                .queueCount = two ? 2 : 1,
                .timestampValidBits = 64,
            };
    *n = two_families ? 2 : 1;
}

static VkResult VKAPI_CALL enumerate_device_extension_properties(VkPhysicalDevice physical,
                                                                 const char *layer, uint32_t *n,
                                                                 VkExtensionProperties *list)
{
    if (list && has_timeline())
        snprintf(list[0].extensionName, sizeof list[0].extensionName, "%s",
                 VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
    *n = has_timeline();
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL set_debug_utils_object_name(VkDevice device,
                                                       const VkDebugUtilsObjectNameInfoEXT *info)
{
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE) {
        mock_pipeline *p = OBJECT(mock_pipeline, info->objectHandle);
        snprintf(p->name, sizeof p->name, "%s", info->pObjectName);
    }
    return VK_SUCCESS;
}

/* --------------------------------------------------------------------------------- device */

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                         NO_ALLOCATOR, VkDevice *device)
{
    mock_device *d = mock_make(sizeof *d);

    mock_device_start(d, info);
    *device = (VkDevice)d;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_device(VkDevice device, NO_ALLOCATOR)
{
    mock_device_stop((mock_device *)device);
    free(device);
}

static void VKAPI_CALL get_device_queue(VkDevice device, uint32_t family, uint32_t index,
                                        VkQueue *queue)
{
    mock_device *d = (mock_device *)device;

    for (uint32_t i = 0; i < d->n_queues; i++)
        if (d->queues[i].family == family && index-- == 0) {
            *queue = (VkQueue)&d->queues[i];
            return;
        }
    abort();
}

/* --------------------------------------------------------------------------------- memory */

static VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                           NO_ALLOCATOR, VkDeviceMemory *memory)
{
    mock_memory *m = mock_make(sizeof *m);

    m->bytes = mock_make(info->allocationSize);
    *memory = HANDLE(VkDeviceMemory, m);
    return VK_SUCCESS;
}

static void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, NO_ALLOCATOR)
{
    mock_memory *m = OBJECT(mock_memory, memory);

    if (m)
        free(m->bytes);
    free(m);
}

static VkResult VKAPI_CALL map_memory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                      VkDeviceSize size, VkMemoryMapFlags flags, void **mapped)
{
    *mapped = OBJECT(mock_memory, memory)->bytes + offset;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                         NO_ALLOCATOR, VkBuffer *buffer)
{
    mock_buffer *b = mock_make(sizeof *b);

    b->size = info->size;
    *buffer = HANDLE(VkBuffer, b);
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_buffer(VkDevice device, VkBuffer buffer, NO_ALLOCATOR)
{
    free(OBJECT(mock_buffer, buffer));
}

static void VKAPI_CALL get_buffer_memory_requirements(VkDevice device, VkBuffer buffer,
                                                      VkMemoryRequirements *out)
{
    *out = (VkMemoryRequirements){OBJECT(mock_buffer, buffer)->size, 16, 1};
}

static VkResult VKAPI_CALL bind_buffer_memory(VkDevice device, VkBuffer buffer,
                                              VkDeviceMemory memory, VkDeviceSize offset)
{
    OBJECT(mock_buffer, buffer)->memory = OBJECT(mock_memory, memory);
    OBJECT(mock_buffer, buffer)->offset = offset;
    return VK_SUCCESS;
}

/* ------------------------------------------------------- pipelines and descriptors */

#define MAKE_EMPTY(function, info_type, handle_type)                                               \
    static VkResult VKAPI_CALL function(VkDevice device, const info_type *info, NO_ALLOCATOR,      \
                                        handle_type *handle)                                       \
    {                                                                                              \
        *handle = HANDLE(handle_type, mock_make(1));                                               \
        return VK_SUCCESS;                                                                         \
    }
MAKE_EMPTY(create_descriptor_set_layout, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout)
MOCK_FREE(destroy_descriptor_set_layout, VkDescriptorSetLayout)
MAKE_EMPTY(create_pipeline_layout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
MOCK_FREE(destroy_pipeline_layout, VkPipelineLayout)
MAKE_EMPTY(create_pipeline_cache, VkPipelineCacheCreateInfo, VkPipelineCache)
MOCK_FREE(destroy_pipeline_cache, VkPipelineCache)
MAKE_EMPTY(create_shader_module, VkShaderModuleCreateInfo, VkShaderModule)
MOCK_FREE(destroy_shader_module, VkShaderModule)
MOCK_FREE(destroy_pipeline, VkPipeline)

static VkResult VKAPI_CALL get_pipeline_cache_data(VkDevice device, VkPipelineCache cache,
                                                   size_t *n_bytes, void *data)
{
    *n_bytes = 0;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache,
                                                    uint32_t n,
                                                    const VkComputePipelineCreateInfo *infos,
                                                    NO_ALLOCATOR, VkPipeline *pipelines)
{
    for (uint32_t i = 0; i < n; i++)
        pipelines[i] = HANDLE(VkPipeline, mock_make(sizeof(mock_pipeline)));
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_descriptor_pool(VkDevice device,
                                                  const VkDescriptorPoolCreateInfo *info,
                                                  NO_ALLOCATOR, VkDescriptorPool *pool)
{
    *pool = HANDLE(VkDescriptorPool, mock_make(sizeof(mock_set *)));
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_descriptor_pool(VkDevice device, VkDescriptorPool pool, NO_ALLOCATOR)
{
    mock_set **sets = OBJECT(mock_set *, pool);

    while (sets && *sets) {
        mock_set *set = *sets;
        *sets = set->next;
        free(set);
    }
    free(sets);
}

static VkResult VKAPI_CALL allocate_descriptor_sets(VkDevice device,
                                                    const VkDescriptorSetAllocateInfo *info,
                                                    VkDescriptorSet *handles)
{
    mock_set **sets = OBJECT(mock_set *, info->descriptorPool);

    for (uint32_t i = 0; i < info->descriptorSetCount; i++) {
        mock_set *set = mock_make(sizeof *set);
        set->next = *sets;
        *sets = set;
        handles[i] = HANDLE(VkDescriptorSet, set);
    }
    return VK_SUCCESS;
}

static void VKAPI_CALL update_descriptor_sets(VkDevice device, uint32_t n,
                                              const VkWriteDescriptorSet *writes, uint32_t n_copies,
                                              const VkCopyDescriptorSet *copies)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < writes[i].descriptorCount; k++) {
            mock_set *set = OBJECT(mock_set, writes[i].dstSet);
            uint32_t binding = writes[i].dstBinding + k;
            if (binding >= MOCK_BINDINGS)
                abort();
            set->bindings[binding].buffer = OBJECT(mock_buffer, writes[i].pBufferInfo[k].buffer);
            set->bindings[binding].offset = writes[i].pBufferInfo[k].offset;
        }
}

/* ---------------------------------------------------------------------------------- table */

static PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char *name);
PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name);

static const mock_entry functions[] = {
    MOCK_ENTRY(GetInstanceProcAddr, vkGetInstanceProcAddr),
    MOCK_ENTRY(GetDeviceProcAddr, get_device_proc_addr),
    MOCK_ENTRY(EnumerateInstanceVersion, enumerate_instance_version),
    MOCK_ENTRY(EnumerateInstanceExtensionProperties, enumerate_instance_extension_properties),
    MOCK_ENTRY(CreateInstance, create_instance),
    MOCK_ENTRY(DestroyInstance, destroy_instance),
    MOCK_ENTRY(EnumeratePhysicalDevices, enumerate_physical_devices),
    MOCK_ENTRY(GetPhysicalDeviceProperties, get_physical_device_properties),
    MOCK_ENTRY(GetPhysicalDeviceProperties2, get_physical_device_properties2),
    MOCK_ENTRY(GetPhysicalDeviceFeatures2, get_physical_device_features2),
    MOCK_ENTRY(GetPhysicalDeviceMemoryProperties, get_physical_device_memory_properties),
    MOCK_ENTRY(GetPhysicalDeviceQueueFamilyProperties, get_physical_device_queue_family_properties),
    MOCK_ENTRY(EnumerateDeviceExtensionProperties, enumerate_device_extension_properties),
    MOCK_ENTRY(SetDebugUtilsObjectNameEXT, set_debug_utils_object_name),
    MOCK_ENTRY(CreateDevice, create_device),
    MOCK_ENTRY(DestroyDevice, destroy_device),
    MOCK_ENTRY(GetDeviceQueue, get_device_queue),
    MOCK_ENTRY(AllocateMemory, allocate_memory),
    MOCK_ENTRY(FreeMemory, free_memory),
    MOCK_ENTRY(MapMemory, map_memory),
    MOCK_ENTRY(CreateBuffer, create_buffer),
    MOCK_ENTRY(DestroyBuffer, destroy_buffer),
    MOCK_ENTRY(GetBufferMemoryRequirements, get_buffer_memory_requirements),
    MOCK_ENTRY(BindBufferMemory, bind_buffer_memory),
    MOCK_ENTRY(CreateDescriptorSetLayout, create_descriptor_set_layout),
    MOCK_ENTRY(DestroyDescriptorSetLayout, destroy_descriptor_set_layout),
    MOCK_ENTRY(CreatePipelineLayout, create_pipeline_layout),
    MOCK_ENTRY(DestroyPipelineLayout, destroy_pipeline_layout),
    MOCK_ENTRY(CreatePipelineCache, create_pipeline_cache),
    MOCK_ENTRY(DestroyPipelineCache, destroy_pipeline_cache),
    MOCK_ENTRY(GetPipelineCacheData, get_pipeline_cache_data),
    MOCK_ENTRY(CreateShaderModule, create_shader_module),
    MOCK_ENTRY(DestroyShaderModule, destroy_shader_module),
    MOCK_ENTRY(CreateComputePipelines, create_compute_pipelines),
    MOCK_ENTRY(DestroyPipeline, destroy_pipeline),
    MOCK_ENTRY(CreateDescriptorPool, create_descriptor_pool),
    MOCK_ENTRY(DestroyDescriptorPool, destroy_descriptor_pool),
    MOCK_ENTRY(AllocateDescriptorSets, allocate_descriptor_sets),
    MOCK_ENTRY(UpdateDescriptorSets, update_descriptor_sets),
};

static PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char *name)
{
    return vkGetInstanceProcAddr(NULL, name);
}

PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction found = mock_find(functions, sizeof functions / sizeof functions[0], name);
    return found ? found : mock_find_command(name);
}

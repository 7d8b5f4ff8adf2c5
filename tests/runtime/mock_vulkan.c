/* Objects of the mock device (mock_vulkan.h), and the table of its functions. */
#include "mock_vulkan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_ALLOCATOR const VkAllocationCallbacks *allocator
#define HANDLE(type, pointer) ((type)(uintptr_t)(pointer))
#define OBJECT(type, handle) ((type *)(uintptr_t)(handle))

static void *make(size_t size)
{
    void *object = calloc(1, size);
    if (!object)
        abort();
    return object;
}

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

/* None of them: kernels of tier 0. */
static void VKAPI_CALL get_physical_device_features2(VkPhysicalDevice physical,
                                                     VkPhysicalDeviceFeatures2 *out)
{
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
    *n = 0;
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
    mock_device *d = make(sizeof *d);

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
    mock_memory *m = make(sizeof *m);

    m->bytes = make(info->allocationSize);
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
    mock_buffer *b = make(sizeof *b);

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
        *handle = HANDLE(handle_type, make(1));                                                    \
        return VK_SUCCESS;                                                                         \
    }
#define FREE(function, handle_type)                                                                \
    static void VKAPI_CALL function(VkDevice device, handle_type handle, NO_ALLOCATOR)             \
    {                                                                                              \
        free(OBJECT(void, handle));                                                                \
    }
MAKE_EMPTY(create_descriptor_set_layout, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout)
FREE(destroy_descriptor_set_layout, VkDescriptorSetLayout)
MAKE_EMPTY(create_pipeline_layout, VkPipelineLayoutCreateInfo, VkPipelineLayout)
FREE(destroy_pipeline_layout, VkPipelineLayout)
MAKE_EMPTY(create_pipeline_cache, VkPipelineCacheCreateInfo, VkPipelineCache)
FREE(destroy_pipeline_cache, VkPipelineCache)
MAKE_EMPTY(create_shader_module, VkShaderModuleCreateInfo, VkShaderModule)
FREE(destroy_shader_module, VkShaderModule)
FREE(destroy_pipeline, VkPipeline)

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
        pipelines[i] = HANDLE(VkPipeline, make(sizeof(mock_pipeline)));
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_descriptor_pool(VkDevice device,
                                                  const VkDescriptorPoolCreateInfo *info,
                                                  NO_ALLOCATOR, VkDescriptorPool *pool)
{
    *pool = HANDLE(VkDescriptorPool, make(sizeof(mock_set *)));
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
        mock_set *set = make(sizeof *set);
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

/* ------------------------------------------------------------------------------- commands */

static VkResult VKAPI_CALL create_command_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                               NO_ALLOCATOR, VkCommandPool *pool)
{
    mock_pool *p = make(sizeof *p);

    p->family = info->queueFamilyIndex;
    *pool = HANDLE(VkCommandPool, p);
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_command_pool(VkDevice device, VkCommandPool pool, NO_ALLOCATOR)
{
    mock_pool *p = OBJECT(mock_pool, pool);

    while (p && p->commands) {
        mock_commands *c = p->commands;
        p->commands = c->next;
        free(c->list);
        free(c);
    }
    free(p);
}

static VkResult VKAPI_CALL reset_command_pool(VkDevice device, VkCommandPool pool,
                                              VkCommandPoolResetFlags flags)
{
    for (mock_commands *c = OBJECT(mock_pool, pool)->commands; c; c = c->next)
        c->n = 0;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL allocate_command_buffers(VkDevice device,
                                                    const VkCommandBufferAllocateInfo *info,
                                                    VkCommandBuffer *handles)
{
    mock_pool *p = OBJECT(mock_pool, info->commandPool);

    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        mock_commands *c = make(sizeof *c);
        c->next = p->commands;
        c->family = p->family;
        p->commands = c;
        handles[i] = (VkCommandBuffer)c;
    }
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL begin_command_buffer(VkCommandBuffer commands,
                                                const VkCommandBufferBeginInfo *info)
{
    ((mock_commands *)commands)->n = 0;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL end_command_buffer(VkCommandBuffer commands)
{
    return VK_SUCCESS;
}

static void VKAPI_CALL cmd_bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point,
                                         VkPipeline pipeline)
{
    ((mock_commands *)commands)->state.pipeline = OBJECT(mock_pipeline, pipeline);
}

static void VKAPI_CALL cmd_bind_descriptor_sets(VkCommandBuffer commands, VkPipelineBindPoint point,
                                                VkPipelineLayout layout, uint32_t first, uint32_t n,
                                                const VkDescriptorSet *sets, uint32_t n_offsets,
                                                const uint32_t *offsets)
{
    ((mock_commands *)commands)->state.set = OBJECT(mock_set, sets[0]);
}

static void VKAPI_CALL cmd_push_constants(VkCommandBuffer commands, VkPipelineLayout layout,
                                          VkShaderStageFlags stages, uint32_t offset, uint32_t size,
                                          const void *values)
{
    memcpy((uint8_t *)((mock_commands *)commands)->state.push + offset, values, size);
}

static void VKAPI_CALL cmd_dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    mock_add(commands, MOCK_DISPATCH);
}

static void VKAPI_CALL cmd_dispatch_indirect(VkCommandBuffer commands, VkBuffer buffer,
                                             VkDeviceSize offset)
{
    mock_add(commands, MOCK_DISPATCH);
}

static void VKAPI_CALL cmd_copy_buffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to,
                                       uint32_t n, const VkBufferCopy *regions)
{
    for (uint32_t i = 0; i < n; i++) {
        mock_command *c = mock_add(commands, MOCK_COPY);
        c->from = OBJECT(mock_buffer, from);
        c->to = OBJECT(mock_buffer, to);
        c->region = regions[i];
    }
}

static void VKAPI_CALL cmd_fill_buffer(VkCommandBuffer commands, VkBuffer to, VkDeviceSize offset,
                                       VkDeviceSize size, uint32_t value)
{
    mock_command *c = mock_add(commands, MOCK_FILL);

    c->to = OBJECT(mock_buffer, to);
    c->region = (VkBufferCopy){0, offset, size == VK_WHOLE_SIZE ? c->to->size - offset : size};
    c->value = value;
}

static void VKAPI_CALL cmd_write_timestamp(VkCommandBuffer commands, VkPipelineStageFlagBits stage,
                                           VkQueryPool pool, uint32_t query)
{
    mock_command *c = mock_add(commands, MOCK_STAMP);

    c->queries = OBJECT(mock_queries, pool);
    c->value = query;
}

static void VKAPI_CALL cmd_reset_query_pool(VkCommandBuffer commands, VkQueryPool pool,
                                            uint32_t first, uint32_t n)
{
}

/* Commands of a queue are carried out in order. */
static void VKAPI_CALL cmd_pipeline_barrier(VkCommandBuffer commands, VkPipelineStageFlags from,
                                            VkPipelineStageFlags to, VkDependencyFlags flags,
                                            uint32_t n, const VkMemoryBarrier *memory,
                                            uint32_t n_buffers,
                                            const VkBufferMemoryBarrier *buffers, uint32_t n_images,
                                            const VkImageMemoryBarrier *images)
{
}

static VkResult VKAPI_CALL create_query_pool(VkDevice device, const VkQueryPoolCreateInfo *info,
                                             NO_ALLOCATOR, VkQueryPool *pool)
{
    if (info->queryCount > MOCK_QUERIES)
        abort();
    *pool = HANDLE(VkQueryPool, make(sizeof(mock_queries)));
    return VK_SUCCESS;
}
FREE(destroy_query_pool, VkQueryPool)

static VkResult VKAPI_CALL get_query_pool_results(VkDevice device, VkQueryPool pool, uint32_t first,
                                                  uint32_t n, size_t n_bytes, void *data,
                                                  VkDeviceSize stride, VkQueryResultFlags flags)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy((uint8_t *)data + i * stride, OBJECT(mock_queries, pool)->values + first + i,
               sizeof(uint64_t));
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_fence(VkDevice device, const VkFenceCreateInfo *info,
                                        NO_ALLOCATOR, VkFence *fence)
{
    mock_fence *f = make(sizeof *f);

    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->signal, NULL);
    *fence = HANDLE(VkFence, f);
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_fence(VkDevice device, VkFence fence, NO_ALLOCATOR)
{
    mock_fence *f = OBJECT(mock_fence, fence);

    if (!f)
        return;
    pthread_cond_destroy(&f->signal);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---------------------------------------------------------------------------------- table */

static PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char *name);
PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name);

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} functions[] = {
#define ENTRY(name, function) {"vk" #name, (PFN_vkVoidFunction)(function)},
    ENTRY(GetInstanceProcAddr, vkGetInstanceProcAddr) ENTRY(
        GetDeviceProcAddr, get_device_proc_addr) ENTRY(EnumerateInstanceVersion,
                                                       enumerate_instance_version)
        ENTRY(EnumerateInstanceExtensionProperties, enumerate_instance_extension_properties) ENTRY(
            CreateInstance,
            create_instance) ENTRY(DestroyInstance,
                                   destroy_instance) ENTRY(EnumeratePhysicalDevices,
                                                           enumerate_physical_devices)
            ENTRY(GetPhysicalDeviceProperties, get_physical_device_properties) ENTRY(
                GetPhysicalDeviceProperties2,
                get_physical_device_properties2) ENTRY(GetPhysicalDeviceFeatures2,
                                                       get_physical_device_features2)
                ENTRY(GetPhysicalDeviceMemoryProperties, get_physical_device_memory_properties) ENTRY(
                    GetPhysicalDeviceQueueFamilyProperties,
                    get_physical_device_queue_family_properties)
                    ENTRY(EnumerateDeviceExtensionProperties, enumerate_device_extension_properties) ENTRY(
                        SetDebugUtilsObjectNameEXT,
                        set_debug_utils_object_name) ENTRY(CreateDevice,
                                                           create_device) ENTRY(DestroyDevice,
                                                                                destroy_device)
                        ENTRY(GetDeviceQueue, get_device_queue) ENTRY(
                            QueueSubmit,
                            mock_queue_submit) ENTRY(AllocateMemory,
                                                     allocate_memory) ENTRY(FreeMemory, free_memory)
                            ENTRY(MapMemory, map_memory) ENTRY(CreateBuffer, create_buffer) ENTRY(
                                DestroyBuffer, destroy_buffer) ENTRY(GetBufferMemoryRequirements,
                                                                     get_buffer_memory_requirements)
                                ENTRY(BindBufferMemory, bind_buffer_memory) ENTRY(
                                    CreateDescriptorSetLayout,
                                    create_descriptor_set_layout) ENTRY(DestroyDescriptorSetLayout,
                                                                        destroy_descriptor_set_layout)
                                    ENTRY(CreatePipelineLayout, create_pipeline_layout) ENTRY(
                                        DestroyPipelineLayout,
                                        destroy_pipeline_layout) ENTRY(CreatePipelineCache,
                                                                       create_pipeline_cache)
                                        ENTRY(DestroyPipelineCache, destroy_pipeline_cache) ENTRY(
                                            GetPipelineCacheData,
                                            get_pipeline_cache_data) ENTRY(CreateShaderModule,
                                                                           create_shader_module)
                                            ENTRY(DestroyShaderModule, destroy_shader_module) ENTRY(
                                                CreateComputePipelines,
                                                create_compute_pipelines) ENTRY(DestroyPipeline,
                                                                                destroy_pipeline)
                                                ENTRY(CreateDescriptorPool, create_descriptor_pool) ENTRY(
                                                    DestroyDescriptorPool,
                                                    destroy_descriptor_pool) ENTRY(AllocateDescriptorSets,
                                                                                   allocate_descriptor_sets)
                                                    ENTRY(UpdateDescriptorSets, update_descriptor_sets) ENTRY(
                                                        CreateCommandPool,
                                                        create_command_pool) ENTRY(DestroyCommandPool,
                                                                                   destroy_command_pool)
                                                        ENTRY(ResetCommandPool, reset_command_pool) ENTRY(
                                                            AllocateCommandBuffers,
                                                            allocate_command_buffers) ENTRY(BeginCommandBuffer, begin_command_buffer)
                                                            ENTRY(EndCommandBuffer, end_command_buffer) ENTRY(
                                                                CmdBindPipeline,
                                                                cmd_bind_pipeline) ENTRY(CmdBindDescriptorSets,
                                                                                         cmd_bind_descriptor_sets)
                                                                ENTRY(CmdPushConstants, cmd_push_constants) ENTRY(
                                                                    CmdDispatch,
                                                                    cmd_dispatch) ENTRY(CmdDispatchIndirect, cmd_dispatch_indirect)
                                                                    ENTRY(CmdCopyBuffer, cmd_copy_buffer) ENTRY(
                                                                        CmdFillBuffer,
                                                                        cmd_fill_buffer) ENTRY(CmdWriteTimestamp, cmd_write_timestamp)
                                                                        ENTRY(CmdResetQueryPool, cmd_reset_query_pool) ENTRY(
                                                                            CmdPipelineBarrier,
                                                                            cmd_pipeline_barrier)
                                                                            ENTRY(CreateQueryPool, create_query_pool) ENTRY(
                                                                                DestroyQueryPool,
                                                                                destroy_query_pool)
                                                                                ENTRY(
                                                                                    GetQueryPoolResults,
                                                                                    get_query_pool_results)
                                                                                    ENTRY(
                                                                                        CreateFence,
                                                                                        create_fence)
                                                                                        ENTRY(
                                                                                            DestroyFence,
                                                                                            destroy_fence)
                                                                                            ENTRY(
                                                                                                ResetFences,
                                                                                                mock_reset_fences)
                                                                                                ENTRY(
                                                                                                    WaitForFences,
                                                                                                    mock_wait_for_fences)
#undef ENTRY
};

static PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char *name)
{
    return vkGetInstanceProcAddr(NULL, name);
}

PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!strcmp(functions[i].name, name))
            return functions[i].function;
    return NULL;
}

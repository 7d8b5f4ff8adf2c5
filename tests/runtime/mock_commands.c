/* Command buffers, queries and fences of the mock device (mock_vulkan.h). */
#include "mock_vulkan.h"

#include <stdlib.h>
#include <string.h>

static VkResult VKAPI_CALL create_command_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                               NO_ALLOCATOR, VkCommandPool *pool)
{
    mock_pool *p = mock_make(sizeof *p);

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
        mock_commands *c = mock_make(sizeof *c);
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
    *pool = HANDLE(VkQueryPool, mock_make(sizeof(mock_queries)));
    return VK_SUCCESS;
}
MOCK_FREE(destroy_query_pool, VkQueryPool)

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
    mock_fence *f = mock_make(sizeof *f);

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

static const mock_entry functions[] = {
    MOCK_ENTRY(QueueSubmit, mock_queue_submit),
    MOCK_ENTRY(CreateCommandPool, create_command_pool),
    MOCK_ENTRY(DestroyCommandPool, destroy_command_pool),
    MOCK_ENTRY(ResetCommandPool, reset_command_pool),
    MOCK_ENTRY(AllocateCommandBuffers, allocate_command_buffers),
    MOCK_ENTRY(BeginCommandBuffer, begin_command_buffer),
    MOCK_ENTRY(EndCommandBuffer, end_command_buffer),
    MOCK_ENTRY(CmdBindPipeline, cmd_bind_pipeline),
    MOCK_ENTRY(CmdBindDescriptorSets, cmd_bind_descriptor_sets),
    MOCK_ENTRY(CmdPushConstants, cmd_push_constants),
    MOCK_ENTRY(CmdDispatch, cmd_dispatch),
    MOCK_ENTRY(CmdDispatchIndirect, cmd_dispatch_indirect),
    MOCK_ENTRY(CmdCopyBuffer, cmd_copy_buffer),
    MOCK_ENTRY(CmdFillBuffer, cmd_fill_buffer),
    MOCK_ENTRY(CmdWriteTimestamp, cmd_write_timestamp),
    MOCK_ENTRY(CmdResetQueryPool, cmd_reset_query_pool),
    MOCK_ENTRY(CmdPipelineBarrier, cmd_pipeline_barrier),
    MOCK_ENTRY(CreateQueryPool, create_query_pool),
    MOCK_ENTRY(DestroyQueryPool, destroy_query_pool),
    MOCK_ENTRY(GetQueryPoolResults, get_query_pool_results),
    MOCK_ENTRY(CreateFence, create_fence),
    MOCK_ENTRY(DestroyFence, destroy_fence),
    MOCK_ENTRY(ResetFences, mock_reset_fences),
    MOCK_ENTRY(WaitForFences, mock_wait_for_fences),
    MOCK_ENTRY(CreateSemaphore, mock_create_semaphore),
    MOCK_ENTRY(DestroySemaphore, mock_destroy_semaphore),
};

PFN_vkVoidFunction mock_find_command(const char *name)
{
    return mock_find(functions, sizeof functions / sizeof functions[0], name);
}

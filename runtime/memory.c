/* Buffers and uploads. Called by models (weights), lanes (caches, scratch) and sessions (what
 * crosses to the host). */
#include <string.h>

#include "memory.h"

/* A chunk of a weight upload is some MiB: even a slow bus is done in milliseconds. */
#define UPLOAD_TIMEOUT_MS 10000

/* Types with these flags need features that we don't enable, or are only for images. */
#define UNUSABLE_TYPES                                                                             \
    (VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |                  \
     VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD |     \
     VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV)
#define MAPPED (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)

#define MAX_CHOICES 3
/* What each use looks for, the best first; a later choice is taken when there is no type, or no
 * memory left, for the earlier ones. Mapped device memory comes late for MEMORY_DEVICE: without a
 * resizable BAR there are only 256 MiB of it. */
static const struct {
    uint32_t n_choices;
    struct {
        VkMemoryPropertyFlags needs, avoids;
    } choices[MAX_CHOICES];
} uses[] = {
    [MEMORY_DEVICE] = {3,
                       {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT},
                        {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                        {0, 0}}},
    [MEMORY_UPLOAD] = {3,
                       {{MAPPED,
                         VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT},
                        {MAPPED, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
                        {MAPPED, 0}}},
    [MEMORY_READBACK] = {3,
                         {{MAPPED | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                           VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
                          {MAPPED | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0},
                          {MAPPED, 0}}},
};

/* Tries the memory types of `use` in order until one has room. */
static VkResult allocate(gpu *g, enum memory_use use, const VkMemoryRequirements *requirements,
                         VkDeviceMemory *memory)
{
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    uint32_t tried = 0;

    for (uint32_t c = 0; c < uses[use].n_choices; c++) {
        for (uint32_t i = 0; i < g->memory.memoryTypeCount; i++) {
            const VkMemoryType *type = &g->memory.memoryTypes[i];
            const VkMemoryPropertyFlags needs = uses[use].choices[c].needs;
            VkMemoryAllocateInfo info = {
                .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                .allocationSize = requirements->size,
                .memoryTypeIndex = i,
            };
            if (!(requirements->memoryTypeBits & 1u << i) || (tried & 1u << i) ||
                (type->propertyFlags & needs) != needs ||
                (type->propertyFlags & (uses[use].choices[c].avoids | UNUSABLE_TYPES)) ||
                requirements->size > g->memory.memoryHeaps[type->heapIndex].size)
                continue;
            tried |= 1u << i;
            result = g->vk.vkAllocateMemory(g->device, &info, NULL, memory);
            if (result == VK_SUCCESS) {
                if (use == MEMORY_DEVICE &&
                    !(type->propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
                    context_log(g->context, OTR_LOG_WARNING,
                                "device %u (%s): device memory is full, using slower host memory",
                                g->index, g->info->name);
                return VK_SUCCESS;
            }
            *memory = VK_NULL_HANDLE;
            if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY)
                return result;
        }
    }
    return result;
}

static otr_result fail_size(gpu *g, const char *name, uint64_t size, const char *limit,
                            uint64_t most)
{
    return context_fail(g->context, OTR_ERROR_OUT_OF_MEMORY,
                        "buffer '%s' of %.1f MiB: device %u (%s) has at most %.1f MiB %s", name,
                        (double)size / 0x1p20, g->index, g->info->name, (double)most / 0x1p20,
                        limit);
}

static uint64_t largest_heap(const gpu *g)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < g->memory.memoryHeapCount; i++)
        if (g->memory.memoryHeaps[i].size > most)
            most = g->memory.memoryHeaps[i].size;
    return most;
}

otr_result gpu_buffer_create(gpu *g, uint64_t size, enum memory_use use, const char *name,
                             gpu_buffer *out)
{
    const uint32_t *families = g->facts->queue_families;
    const bool is_shared = families[0] != families[1];
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
                 VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = is_shared ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = is_shared ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    VkMemoryRequirements requirements;
    otr_result result = OTR_OK;
    VkResult vk_result;

    *out = (gpu_buffer){0};
    if (size == 0)
        return context_fail(g->context, OTR_ERROR_INVALID_ARGUMENT, "buffer '%s' has no bytes",
                            name);
    /* Drivers differ in what they do past their limits; the layers complain. So ask first. */
    if (size > g->facts->max_buffer_bytes)
        return fail_size(g, name, size, "in a buffer", g->facts->max_buffer_bytes);
    if (size > g->facts->max_allocation_bytes)
        return fail_size(g, name, size, "in an allocation", g->facts->max_allocation_bytes);
    if (size > largest_heap(g))
        return fail_size(g, name, size, "of memory", largest_heap(g));

    info.size = (size + 3) & ~3ull; /* fills and copies are of whole words */
    vk_result = g->vk.vkCreateBuffer(g->device, &info, NULL, &out->buffer);
    if (vk_result != VK_SUCCESS) {
        out->buffer = VK_NULL_HANDLE;
        result = context_fail_vk(g->context, vk_result, "vkCreateBuffer of '%s', %.1f MiB", name,
                                 (double)size / 0x1p20);
        goto end;
    }
    gpu_name(g, VK_OBJECT_TYPE_BUFFER, (uint64_t)out->buffer, "%s", name);
    g->vk.vkGetBufferMemoryRequirements(g->device, out->buffer, &requirements);
    vk_result = allocate(g, use, &requirements, &out->memory);
    if (vk_result != VK_SUCCESS) {
        result = context_fail_vk(g->context, vk_result,
                                 "vkAllocateMemory of '%s', %.1f MiB on device %u (%s)", name,
                                 (double)requirements.size / 0x1p20, g->index, g->info->name);
        goto end;
    }
    gpu_name(g, VK_OBJECT_TYPE_DEVICE_MEMORY, (uint64_t)out->memory, "%s", name);
    vk_result = g->vk.vkBindBufferMemory(g->device, out->buffer, out->memory, 0);
    if (vk_result != VK_SUCCESS) {
        result = context_fail_vk(g->context, vk_result, "vkBindBufferMemory of '%s'", name);
        goto end;
    }
    if (use != MEMORY_DEVICE) {
        vk_result = g->vk.vkMapMemory(g->device, out->memory, 0, VK_WHOLE_SIZE, 0, &out->mapped);
        if (vk_result != VK_SUCCESS) {
            out->mapped = NULL;
            result = context_fail_vk(g->context, vk_result, "vkMapMemory of '%s'", name);
            goto end;
        }
    }
    out->size = size;
end:
    if (result)
        gpu_buffer_destroy(g, out);
    return result;
}

void gpu_buffer_destroy(gpu *g, gpu_buffer *buffer)
{
    if (buffer->buffer && !atomic_load(&g->hung)) {
        g->vk.vkDestroyBuffer(g->device, buffer->buffer, NULL);
        g->vk.vkFreeMemory(g->device, buffer->memory, NULL); /* unmaps too */
    }
    *buffer = (gpu_buffer){0};
}

/* --------------------------------------------------------------------------------- uploads */

otr_result uploader_create(gpu *g, uint64_t staging_bytes, uploader *out)
{
    VkCommandPoolCreateInfo pool_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = g->queues[0].family,
    };
    VkCommandBufferAllocateInfo commands_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkFenceCreateInfo fence_info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkResult vk_result;
    otr_result result;

    *out = (uploader){.gpu = g};
    /* upload() cuts at the staging buffer's size, and pieces must be whole words. */
    result = gpu_buffer_create(g, (staging_bytes + 3) & ~3ull, MEMORY_UPLOAD, "staging",
                               &out->staging);
    if (result)
        goto end;
    vk_result = g->vk.vkCreateCommandPool(g->device, &pool_info, NULL, &out->pool);
    if (vk_result != VK_SUCCESS) {
        out->pool = VK_NULL_HANDLE;
        result = context_fail_vk(g->context, vk_result, "vkCreateCommandPool for uploads");
        goto end;
    }
    gpu_name(g, VK_OBJECT_TYPE_COMMAND_POOL, (uint64_t)out->pool, "upload");
    commands_info.commandPool = out->pool;
    vk_result = g->vk.vkAllocateCommandBuffers(g->device, &commands_info, &out->commands);
    if (vk_result != VK_SUCCESS) {
        out->commands = NULL;
        result = context_fail_vk(g->context, vk_result, "vkAllocateCommandBuffers for uploads");
        goto end;
    }
    gpu_name(g, VK_OBJECT_TYPE_COMMAND_BUFFER, (uint64_t)(uintptr_t)out->commands, "upload");
    vk_result = g->vk.vkCreateFence(g->device, &fence_info, NULL, &out->fence);
    if (vk_result != VK_SUCCESS) {
        out->fence = VK_NULL_HANDLE;
        result = context_fail_vk(g->context, vk_result, "vkCreateFence for uploads");
        goto end;
    }
    gpu_name(g, VK_OBJECT_TYPE_FENCE, (uint64_t)out->fence, "upload");
end:
    if (result)
        uploader_destroy(out);
    return result;
}

void uploader_destroy(uploader *u)
{
    gpu *g = u->gpu;

    if (!g)
        return;
    if (!atomic_load(&g->hung)) {
        g->vk.vkDestroyFence(g->device, u->fence, NULL);
        g->vk.vkDestroyCommandPool(g->device, u->pool, NULL); /* with its command buffer */
    }
    gpu_buffer_destroy(g, &u->staging);
    *u = (uploader){0};
}

/* Orders the copy after what earlier submissions did with the buffer, and later ones after the
 * copy. */
static void barrier(uploader *u, VkPipelineStageFlags from, VkAccessFlags written,
                    VkPipelineStageFlags to, VkAccessFlags used)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = written,
        .dstAccessMask = used,
    };

    u->gpu->vk.vkCmdPipelineBarrier(u->commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static otr_result begin(uploader *u)
{
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    gpu *g = u->gpu;
    VkResult result = g->vk.vkResetCommandPool(g->device, u->pool, 0);

    if (result == VK_SUCCESS)
        result = g->vk.vkBeginCommandBuffer(u->commands, &info);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "recording an upload");
    barrier(u, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_WRITE_BIT,
            VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    return OTR_OK;
}

/* Submits and waits, so that the staging buffer and the caller's memory may be used again. */
static otr_result finish(uploader *u)
{
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &u->commands,
    };
    gpu *g = u->gpu;
    VkResult result;

    barrier(u, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
            VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    result = g->vk.vkEndCommandBuffer(u->commands);
    if (result == VK_SUCCESS)
        result = g->vk.vkResetFences(g->device, 1, &u->fence);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "recording an upload");
    result = gpu_submit(g, 0, 1, &submit, u->fence);
    if (result != VK_SUCCESS)
        return context_fail_vk(g->context, result, "vkQueueSubmit of an upload");
    return gpu_wait(g, u->fence, UPLOAD_TIMEOUT_MS, "an upload");
}

static otr_result check_range(uploader *u, const gpu_buffer *dst, uint64_t offset, uint64_t n_bytes)
{
    if (offset % 4 || n_bytes % 4 || offset > dst->size ||
        n_bytes > ((dst->size + 3) & ~3ull) - offset)
        return context_fail(u->gpu->context, OTR_ERROR_INVALID_ARGUMENT,
                            "upload of %llu bytes at %llu into a buffer of %llu",
                            (unsigned long long)n_bytes, (unsigned long long)offset,
                            (unsigned long long)dst->size);
    return OTR_OK;
}

otr_result upload(uploader *u, const gpu_buffer *dst, uint64_t offset, const void *src,
                  uint64_t n_bytes)
{
    otr_result result = check_range(u, dst, offset, n_bytes);
    const char *from = src;

    while (!result && n_bytes > 0) {
        VkBufferCopy region = {
            .dstOffset = offset,
            .size = n_bytes < u->staging.size ? n_bytes : u->staging.size,
        };
        memcpy(u->staging.mapped, from, region.size);
        result = begin(u);
        if (result)
            break;
        u->gpu->vk.vkCmdCopyBuffer(u->commands, u->staging.buffer, dst->buffer, 1, &region);
        result = finish(u);
        from += region.size;
        offset += region.size;
        n_bytes -= region.size;
    }
    return result;
}

otr_result upload_zero(uploader *u, const gpu_buffer *dst, uint64_t offset, uint64_t n_bytes)
{
    otr_result result = check_range(u, dst, offset, n_bytes);

    if (result || n_bytes == 0)
        return result;
    result = begin(u);
    if (result)
        return result;
    u->gpu->vk.vkCmdFillBuffer(u->commands, dst->buffer, offset, n_bytes, 0);
    return finish(u);
}

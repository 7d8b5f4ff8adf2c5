/* The pipeline cache on disk. Called by gpu_open and gpu_close; nothing here is ever an error for
 * the user, at worst pipelines are compiled again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_file.h"
#include "kernel.h"
#include "pipeline_cache.h"

#define CACHE_MAGIC "OTRPIPE"
#define CACHE_VERSION 1
#define MAX_CACHE_BYTES (256u << 20)

/* Before Vulkan's own data. Vulkan's header has no length, no checksum and no driver version, and
 * drivers are known to crash on damaged data. In the byte order of this machine: elsewhere the
 * magic number's neighbours don't match. */
struct cache_header {
    char magic[8];
    uint32_t version;
    uint32_t driver_version;
    uint64_t shaders; /* shaders_hash */
    uint64_t n_bytes; /* of the data that follows */
    uint64_t checksum;
};

/* VkPipelineCacheHeaderVersionOne, without relying on how the compiler lays out its enum. */
struct vulkan_header {
    uint32_t header_bytes, header_version, vendor_id, device_id;
    uint8_t uuid[VK_UUID_SIZE];
};

static struct vulkan_header expected_header(gpu *g)
{
    VkPhysicalDeviceProperties properties;
    struct vulkan_header header = {
        .header_bytes = sizeof header,
        .header_version = VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
    };

    g->context->vk.vkGetPhysicalDeviceProperties(g->physical, &properties);
    header.vendor_id = properties.vendorID;
    header.device_id = properties.deviceID;
    memcpy(header.uuid, properties.pipelineCacheUUID, sizeof header.uuid);
    return header;
}

/* Path of the device's cache file, to be freed; NULL when out of memory. One file per device,
 * driver and build, so that two of them don't throw each other's work away. */
static char *cache_path(gpu *g)
{
    const struct vulkan_header header = expected_header(g);
    char uuid[2 * VK_UUID_SIZE + 1], *path;

    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(uuid + 2 * i, 3, "%02x", header.uuid[i]);
    if (asprintf(&path, "%s/%x-%x-%x-%s-%016llx.cache", g->context->cache_dir, header.vendor_id,
                 header.device_id, g->info->driver_version, uuid,
                 (unsigned long long)shaders_hash) < 0)
        return NULL;
    return path;
}

/* Why the file can't be used, or NULL when it can. */
static const char *check_cache(gpu *g, const uint8_t *file, size_t n_bytes)
{
    const struct vulkan_header expected = expected_header(g);
    struct cache_header header;
    struct vulkan_header vulkan;

    if (n_bytes < sizeof header + sizeof vulkan)
        return "it is too short";
    memcpy(&header, file, sizeof header);
    memcpy(&vulkan, file + sizeof header, sizeof vulkan);
    if (memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) || header.version != CACHE_VERSION)
        return "it is of another version";
    if (header.driver_version != g->info->driver_version || header.shaders != shaders_hash)
        return "it is of another driver or build";
    if (header.n_bytes != n_bytes - sizeof header)
        return "its length is wrong";
    if (header.checksum !=
        cache_hash(CACHE_HASH_START, file + sizeof header, n_bytes - sizeof header))
        return "its checksum is wrong";
    if (vulkan.header_bytes < sizeof vulkan || vulkan.header_version != expected.header_version ||
        vulkan.vendor_id != expected.vendor_id || vulkan.device_id != expected.device_id ||
        memcmp(vulkan.uuid, expected.uuid, sizeof vulkan.uuid))
        return "it is of another device";
    return NULL;
}

otr_result pipeline_cache_load(gpu *g)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    char *path = g->context->cache_dir ? cache_path(g) : NULL;
    const char *problem = NULL;
    uint8_t *file = NULL;
    size_t n_bytes = 0;
    otr_result result = OTR_OK;
    VkResult vk_result;

    if (path) {
        file = cache_file_read(path, MAX_CACHE_BYTES, &n_bytes, &problem);
        if (file)
            problem = check_cache(g, file, n_bytes);
        if (problem)
            context_log(g->context, OTR_LOG_INFO, "pipeline cache %s is ignored: %s", path,
                        problem);
    }
    if (file && !problem) {
        info.initialDataSize = n_bytes - sizeof(struct cache_header);
        info.pInitialData = file + sizeof(struct cache_header);
        g->cache_checksum = cache_hash(CACHE_HASH_START, info.pInitialData, info.initialDataSize);
        context_log(g->context, OTR_LOG_DEBUG, "pipeline cache %s: %zu bytes", path, n_bytes);
    }
    vk_result = g->vk.vkCreatePipelineCache(g->device, &info, NULL, &g->pipeline_cache);
    if (vk_result != VK_SUCCESS && info.initialDataSize > 0) {
        context_log(g->context, OTR_LOG_INFO, "pipeline cache %s is ignored: %s", path,
                    vk_result_name(vk_result));
        g->cache_checksum = 0;
        info.initialDataSize = 0;
        info.pInitialData = NULL;
        vk_result = g->vk.vkCreatePipelineCache(g->device, &info, NULL, &g->pipeline_cache);
    }
    if (vk_result != VK_SUCCESS) {
        g->pipeline_cache = VK_NULL_HANDLE;
        result = context_fail_vk(g->context, vk_result, "vkCreatePipelineCache");
    } else {
        gpu_name(g, VK_OBJECT_TYPE_PIPELINE_CACHE, (uint64_t)g->pipeline_cache, "pipelines");
    }
    free(file);
    free(path);
    return result;
}

void pipeline_cache_store(gpu *g)
{
    struct cache_header header = {
        .magic = CACHE_MAGIC,
        .version = CACHE_VERSION,
        .driver_version = g->info->driver_version,
    };
    char *path = NULL;
    void *data = NULL;
    size_t n_bytes = 0;

    if (!g->context->cache_dir || !g->pipeline_cache || atomic_load(&g->hung) ||
        !atomic_exchange(&g->cache_is_dirty, false))
        return;
    if (g->vk.vkGetPipelineCacheData(g->device, g->pipeline_cache, &n_bytes, NULL) != VK_SUCCESS ||
        n_bytes < sizeof(struct vulkan_header) || n_bytes > MAX_CACHE_BYTES - sizeof header)
        return;
    data = malloc(n_bytes);
    path = cache_path(g);
    /* VK_INCOMPLETE, when another thread compiles meanwhile, still gives valid data. */
    if (!data || !path ||
        g->vk.vkGetPipelineCacheData(g->device, g->pipeline_cache, &n_bytes, data) < VK_SUCCESS)
        goto end;
    header.shaders = shaders_hash;
    header.n_bytes = n_bytes;
    header.checksum = cache_hash(CACHE_HASH_START, data, n_bytes);
    if (header.checksum == g->cache_checksum)
        goto end; /* what is on disk already */
    if (cache_file_replace(path, &header, sizeof header, data, n_bytes))
        g->cache_checksum = header.checksum;
    else
        /* A folder that can't be written may be meant so; a full disk never is. */
        context_log(
            g->context, cache_disk_is_full(errno) ? OTR_LOG_ERROR : OTR_LOG_WARNING,
            "the pipeline cache can't be written (%s: %s); pipelines will be compiled again "
            "next time. %sOUTRIDER_CACHE_DIR names another folder",
            path, strerror(errno), cache_disk_is_full(errno) ? "Free some space; " : "");
end:
    free(data);
    free(path);
}

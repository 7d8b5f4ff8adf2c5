/* Heads of files in the cache folder (cache_head.h). */
#include "cache_head.h"

#include <string.h>

#include "cache_file.h"
#include "kernel.h"

cache_head cache_head_make(const char magic[8], uint32_t version, const otr_device_info *info)
{
    cache_head head = {
        .version = version, .driver_version = info->driver_version, .shaders = shaders_hash};

    memcpy(head.magic, magic, sizeof head.magic);
    memcpy(head.uuid, info->uuid, sizeof head.uuid);
    return head;
}

const char *cache_head_problem(const void *bytes, size_t n_bytes, const cache_head *expected,
                               size_t file_bytes)
{
    cache_head head;

    if (n_bytes != file_bytes)
        return "its length is wrong";
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, expected->magic, sizeof head.magic) || head.version != expected->version)
        return "it is of another version";
    if (!cache_is_sealed(bytes, n_bytes))
        return "its checksum is wrong";
    if (memcmp(head.uuid, expected->uuid, sizeof head.uuid))
        return "it is of another device";
    if (head.driver_version != expected->driver_version || head.shaders != expected->shaders)
        return "it is of another driver or build";
    return NULL;
}

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

static uint64_t checksum_of(const void *file, size_t n_bytes)
{
    return cache_hash(CACHE_HASH_START, file, n_bytes - sizeof(uint64_t));
}

void cache_head_seal(void *file, size_t n_bytes)
{
    uint64_t checksum = checksum_of(file, n_bytes);
    memcpy((uint8_t *)file + n_bytes - sizeof checksum, &checksum, sizeof checksum);
}

const char *cache_head_problem(const void *bytes, size_t n_bytes, const cache_head *expected,
                               size_t file_bytes)
{
    cache_head head;
    uint64_t checksum;

    if (n_bytes != file_bytes)
        return "its length is wrong";
    memcpy(&head, bytes, sizeof head);
    memcpy(&checksum, (const uint8_t *)bytes + n_bytes - sizeof checksum, sizeof checksum);
    if (memcmp(head.magic, expected->magic, sizeof head.magic) || head.version != expected->version)
        return "it is of another version";
    if (checksum != checksum_of(bytes, n_bytes))
        return "its checksum is wrong";
    if (memcmp(head.uuid, expected->uuid, sizeof head.uuid))
        return "it is of another device";
    if (head.driver_version != expected->driver_version || head.shaders != expected->shaders)
        return "it is of another driver or build";
    return NULL;
}

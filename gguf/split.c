/* Split models: names of the parts (`name-00002-of-00005.gguf`, counted from 1 there and from 0 in
 * the keys) and the keys that describe them. Called by gguf.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard.h"

#define SUFFIX_BYTES 64

static void write_suffix(char suffix[SUFFIX_BYTES], uint64_t part, uint64_t count)
{
    snprintf(suffix, SUFFIX_BYTES, "-%05" PRIu64 "-of-%05" PRIu64 ".gguf", part + 1, count);
}

bool split_name_matches(const char *path, uint64_t part, uint64_t count, size_t *prefix)
{
    char suffix[SUFFIX_BYTES];
    write_suffix(suffix, part, count);
    size_t path_length = strlen(path), suffix_length = strlen(suffix);
    if (path_length < suffix_length || strcmp(path + path_length - suffix_length, suffix) != 0)
        return false;
    *prefix = path_length - suffix_length;
    return true;
}

char *split_name(const char *path, size_t prefix, uint64_t part, uint64_t count)
{
    char suffix[SUFFIX_BYTES];
    write_suffix(suffix, part, count);
    size_t suffix_bytes = strlen(suffix) + 1;
    char *name = malloc(prefix + suffix_bytes);
    if (!name)
        return NULL;
    memcpy(name, path, prefix);
    memcpy(name + prefix, suffix, suffix_bytes);
    return name;
}

/* Files in the wild have these keys as u16, i32 and others; any integer will do. */
static bool get_count(const struct shard *shard, const char *name, uint64_t fallback, uint64_t *out,
                      gguf_error *error)
{
    const struct key *key = shard_find_key(shard, name);
    *out = fallback;
    if (!key)
        return true;
    if (key->key.type == GGUF_TYPE_ARRAY || key->key.type == GGUF_TYPE_BOOL ||
        !key_u64(shard, key, 0, out))
        return shard_fail(shard, error, "key '%s' must be an integer, not negative", name);
    return true;
}

bool split_keys(const struct shard *shard, uint64_t *part, uint64_t *count, gguf_error *error)
{
    if (!get_count(shard, "split.count", 0, count, error) ||
        !get_count(shard, "split.no", 0, part, error))
        return false;
    if (*count > GGUF_MAX_SHARDS)
        return shard_fail(shard, error, "key 'split.count' is %" PRIu64 ", more than %d", *count,
                          GGUF_MAX_SHARDS);
    /* Tools that merge a split model leave a count of 0 and whatever number there was. */
    if (*count > 0 && *part >= *count)
        return shard_fail(shard, error,
                          "key 'split.no' is %" PRIu64 ", but 'split.count' is %" PRIu64, *part,
                          *count);
    return true;
}

bool split_check_total(const struct shard *shard, uint64_t n_tensors, gguf_error *error)
{
    uint64_t stated;
    if (!get_count(shard, "split.tensors.count", n_tensors, &stated, error))
        return false;
    if (stated != n_tensors)
        return shard_fail(shard, error,
                          "key 'split.tensors.count' is %" PRIu64 ", but the parts have %" PRIu64
                          " tensors",
                          stated, n_tensors);
    return true;
}

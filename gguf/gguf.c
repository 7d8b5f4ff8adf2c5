/* A model file as its user sees it: one shard or several, their tensors in one table.
 *
 * Opens the shards (shard.c), checks that they belong together (split.c), and reads tensor data.
 * Called by runtime/ and by `outrider inspect`. The getters of keys are in values.c. */
#include "gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shard.h"

struct gguf_file {
    char *path; /* as given to gguf_open */
    uint32_t n_shards;
    struct shard *shards;
    uint64_t n_tensors;
    gguf_tensor *tensors; /* of all shards; names point into the shards' metadata */
    struct name_index tensor_names;
};

const struct shard *gguf_first_shard(const gguf_file *file)
{
    return &file->shards[0];
}

void gguf_close(gguf_file **file_pointer)
{
    if (!file_pointer || !*file_pointer)
        return;
    gguf_file *file = *file_pointer;
    name_index_free(&file->tensor_names);
    free(file->tensors);
    for (uint32_t s = 0; s < file->n_shards; s++)
        shard_close(&file->shards[s]);
    free(file->shards);
    free(file->path);
    free(file);
    *file_pointer = NULL;
}

static bool allocate_shards(gguf_file *file, uint64_t n, gguf_error *error)
{
    file->shards = malloc((size_t)n * sizeof(file->shards[0]));
    if (!file->shards)
        return gguf_no_memory(error, "the parts of a split model");
    file->n_shards = (uint32_t)n;
    for (uint64_t s = 0; s < n; s++)
        shard_init(&file->shards[s]);
    return true;
}

/* Opens part `s` by the name that it must have, and checks that it says of itself what its name
 * says. */
static bool open_part(gguf_file *file, size_t prefix, uint64_t s, gguf_error *error)
{
    uint64_t part, count;
    struct shard *shard = &file->shards[s];
    char *name = split_name(file->path, prefix, s, file->n_shards);
    if (!name)
        return gguf_no_memory(error, "a file name");
    bool ok = shard_open(shard, name, error);
    free(name);
    if (!ok || !split_keys(shard, &part, &count, error))
        return false;
    if (part != s || count != file->n_shards)
        return shard_fail(shard, error,
                          "the keys 'split.no' and 'split.count' are %" PRIu64 " and %" PRIu64
                          ", but for this name they must be %" PRIu64 " and %" PRIu32,
                          part, count, s, file->n_shards);
    return true;
}

/* Moves `opened`, the file that the user named, into its place and opens the parts beside it. */
static bool open_shards(gguf_file *file, struct shard *opened, gguf_error *error)
{
    uint64_t part, count;
    size_t prefix = 0;
    if (!split_keys(opened, &part, &count, error))
        return false;
    const bool is_split = count > 1;
    if (is_split && !split_name_matches(file->path, part, count, &prefix))
        return shard_fail(opened, error,
                          "this is part %" PRIu64 " of %" PRIu64 " of a split model, so its name "
                          "must end in -%05" PRIu64 "-of-%05" PRIu64 ".gguf",
                          part + 1, count, part + 1, count);
    if (!allocate_shards(file, is_split ? count : 1, error))
        return false;
    const uint64_t place = is_split ? part : 0;
    file->shards[place] = *opened;
    shard_init(opened);
    for (uint64_t s = 0; s < file->n_shards; s++) {
        if (s != place && !open_part(file, prefix, s, error))
            return false;
    }
    file->n_tensors = 0;
    for (uint64_t s = 0; s < file->n_shards; s++)
        file->n_tensors += file->shards[s].n_tensors;
    for (uint64_t s = 0; s < file->n_shards && count > 0; s++) {
        if (!split_check_total(&file->shards[s], file->n_tensors, error))
            return false;
    }
    return true;
}

static bool gather_tensors(gguf_file *file, gguf_error *error)
{
    if (file->n_tensors == 0)
        return true;
    file->tensors = malloc((size_t)file->n_tensors * sizeof(file->tensors[0]));
    if (!file->tensors || !name_index_allocate(&file->tensor_names, file->n_tensors))
        return gguf_no_memory(error, "the tensor table");
    uint64_t i = 0;
    for (uint32_t s = 0; s < file->n_shards; s++) {
        struct shard *shard = &file->shards[s];
        for (uint64_t t = 0; t < shard->n_tensors; t++, i++) {
            gguf_tensor *tensor = &file->tensors[i];
            *tensor = shard->tensors[t];
            tensor->shard = s;
            gguf_string name = {tensor->name, strlen(tensor->name)};
            file->tensor_names.entries[i] = (struct name_entry){name, i};
        }
        free(shard->tensors);
        shard->tensors = NULL;
        shard->n_tensors = 0;
    }
    const struct name_entry *twin = name_index_sort(&file->tensor_names);
    if (twin) {
        char name[96];
        gguf_quote(name, sizeof(name), twin->name.data, twin->name.length);
        const struct shard *shard = &file->shards[file->tensors[twin[1].index].shard];
        return shard_fail(shard, error,
                          "tensor '%s' is there twice, as number %" PRIu64 " and number %" PRIu64,
                          name, twin[0].index, twin[1].index);
    }
    return true;
}

bool gguf_open(const char *path, gguf_file **out, gguf_error *error)
{
    struct shard opened;
    shard_init(&opened);
    bool ok = false;
    *out = NULL;
    gguf_file *file = calloc(1, sizeof(*file));
    if (!file) {
        gguf_no_memory(error, "a GGUF file");
        goto cleanup;
    }
    size_t path_bytes = strlen(path) + 1;
    file->path = malloc(path_bytes);
    if (!file->path) {
        gguf_no_memory(error, "a file name");
        goto cleanup;
    }
    memcpy(file->path, path, path_bytes);
    if (!shard_open(&opened, path, error) || !open_shards(file, &opened, error) ||
        !gather_tensors(file, error))
        goto cleanup;
    *out = file;
    ok = true;
cleanup:
    shard_close(&opened);
    if (!ok)
        gguf_close(&file);
    return ok;
}

const char *gguf_path(const gguf_file *file)
{
    return file->path;
}

uint32_t gguf_version(const gguf_file *file)
{
    return file->shards[0].version;
}

uint64_t gguf_alignment(const gguf_file *file)
{
    return file->shards[0].alignment;
}

uint32_t gguf_n_shards(const gguf_file *file)
{
    return file->n_shards;
}

uint64_t gguf_size_bytes(const gguf_file *file)
{
    uint64_t total = 0;
    for (uint32_t s = 0; s < file->n_shards; s++)
        total += file->shards[s].size_bytes;
    return total;
}

uint64_t gguf_n_tensors(const gguf_file *file)
{
    return file->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf_file *file, uint64_t index)
{
    return index < file->n_tensors ? &file->tensors[index] : NULL;
}

const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name)
{
    uint64_t index = name_index_find(&file->tensor_names, name);
    return index == NAME_INDEX_NONE ? NULL : &file->tensors[index];
}

bool gguf_tensor_read(const gguf_file *file, const gguf_tensor *tensor, uint64_t offset, void *dst,
                      uint64_t n_bytes, gguf_error *error)
{
    const struct shard *shard = &file->shards[tensor->shard];
    if (offset > tensor->size_bytes || n_bytes > tensor->size_bytes - offset) {
        char name[96];
        gguf_quote(name, sizeof(name), tensor->name, strlen(tensor->name));
        return shard_fail(shard, error,
                          "tensor '%s' has %" PRIu64 " bytes; %" PRIu64 " at %" PRIu64
                          " were asked for",
                          name, tensor->size_bytes, n_bytes, offset);
    }
    return shard_read(shard, tensor->offset + offset, dst, n_bytes, error);
}

const uint8_t *gguf_tensor_data(const gguf_file *file, const gguf_tensor *tensor)
{
    const struct shard *shard = &file->shards[tensor->shard];
    return shard->mapping ? shard->mapping + tensor->offset : NULL;
}

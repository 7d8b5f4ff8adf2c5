/* The tensor table: the walk over untrusted bytes, then the placing of tensors in the data.
 *
 * A tensor passes when its name, shape, format and size make sense by themselves (tensors_parse)
 * and when its data lies in the file, aligned, and apart from all others (tensors_place). Called by
 * shard.c while a file is opened. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "little_endian.h"

static bool parse_dims(struct cursor *cursor, gguf_tensor *tensor)
{
    if (!cursor_u32(cursor, "its number of dimensions", &tensor->n_dims))
        return false;
    if (tensor->n_dims < 1 || tensor->n_dims > 4)
        return cursor_fail(cursor, "%" PRIu32 " dimensions; 1 to 4 are allowed", tensor->n_dims);
    tensor->n_elements = 1;
    for (uint32_t d = 0; d < 4; d++) {
        tensor->dims[d] = 1;
        if (d >= tensor->n_dims)
            continue;
        if (!cursor_u64(cursor, "its dimensions", &tensor->dims[d]))
            return false;
        if (tensor->dims[d] == 0)
            return cursor_fail(cursor, "dimension %" PRIu32 " is 0", d);
        if (__builtin_mul_overflow(tensor->n_elements, tensor->dims[d], &tensor->n_elements) ||
            tensor->n_elements > INT64_MAX)
            return cursor_fail(cursor, "more elements than 64 bits can count");
    }
    return true;
}

static bool parse_format(struct cursor *cursor, gguf_tensor *tensor)
{
    uint32_t id;
    if (!cursor_u32(cursor, "its format", &id))
        return false;
    const format_info *format = format_find(id);
    if (!format)
        return cursor_refuse(cursor,
                             "its format %s (id %" PRIu32 ") can't be read; convert the model to "
                             "one that can, such as Q8_0 or Q4_K_M",
                             format_name(id), id);
    tensor->format = format->id;
    if (tensor->dims[0] % format->block_size != 0)
        return cursor_fail(
            cursor, "rows of %" PRIu64 " elements, not a multiple of the %" PRIu32 " of a %s block",
            tensor->dims[0], format->block_size, format->name);
    uint64_t n_blocks = tensor->n_elements / format->block_size;
    if (__builtin_mul_overflow(n_blocks, (uint64_t)format->block_bytes, &tensor->size_bytes))
        return cursor_fail(cursor, "more bytes than 64 bits can count");
    return true;
}

static bool parse_tensor(struct cursor *cursor, gguf_tensor *tensor, uint32_t *name_at)
{
    size_t name_length; /* found again by tensors_bind */
    return cursor_name(cursor, GGUF_MAX_TENSOR_NAME_BYTES, name_at, &name_length) &&
           parse_dims(cursor, tensor) && parse_format(cursor, tensor) &&
           cursor_u64(cursor, "its offset", &tensor->offset);
}

bool tensors_parse(struct cursor *cursor, uint64_t n_tensors)
{
    /* A name's length, a name of one byte, a count of dimensions, one dimension, format, offset. */
    const uint64_t least_bytes = 8 + 1 + 4 + 8 + 4 + 8;
    struct shard *shard = cursor->shard;
    cursor_begin(cursor, NULL, 0);
    if (n_tensors > cursor_remaining(cursor) / least_bytes)
        return cursor_fail(cursor, "%" PRIu64 " tensors, but only %" PRIu64 " bytes follow",
                           n_tensors, cursor_remaining(cursor));
    if (n_tensors > GGUF_MAX_TENSORS)
        return cursor_fail(cursor, "%" PRIu64 " tensors, more than %" PRIu64, n_tensors,
                           GGUF_MAX_TENSORS);
    if (n_tensors == 0)
        return true;
    shard->tensors = calloc((size_t)n_tensors, sizeof(shard->tensors[0]));
    shard->tensor_names_at = malloc((size_t)n_tensors * sizeof(shard->tensor_names_at[0]));
    if (!shard->tensors || !shard->tensor_names_at)
        return gguf_no_memory(cursor->error, "the tensor table of a GGUF file");
    for (uint64_t i = 0; i < n_tensors; i++) {
        cursor_begin(cursor, "tensor", i);
        if (!parse_tensor(cursor, &shard->tensors[i], &shard->tensor_names_at[i]))
            return false;
    }
    shard->n_tensors = n_tensors;
    return true;
}

void tensors_bind(struct shard *shard)
{
    for (uint64_t i = 0; i < shard->n_tensors; i++) {
        uint8_t *name = shard->metadata + shard->tensor_names_at[i];
        /* The name's length precedes it. The field that follows, the number of dimensions, has been
         * read; its first byte becomes the name's end. */
        name[load_u64(name - 8)] = '\0';
        shard->tensors[i].name = (const char *)name;
    }
}

static bool fail_tensor(const struct shard *shard, const gguf_tensor *tensor, const char *problem,
                        gguf_error *error)
{
    char name[96];
    gguf_quote(name, sizeof(name), tensor->name, strlen(tensor->name));
    return shard_fail(shard, error, "tensor '%s': %s", name, problem);
}

static int compare_offsets(const void *left, const void *right)
{
    const gguf_tensor *a = *(const gguf_tensor *const *)left;
    const gguf_tensor *b = *(const gguf_tensor *const *)right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static bool check_overlaps(const struct shard *shard, gguf_error *error)
{
    const gguf_tensor **order = malloc((size_t)shard->n_tensors * sizeof(order[0]));
    if (!order)
        return gguf_no_memory(error, "the order of tensors");
    for (uint64_t i = 0; i < shard->n_tensors; i++)
        order[i] = &shard->tensors[i];
    qsort(order, (size_t)shard->n_tensors, sizeof(order[0]), compare_offsets);
    bool ok = true;
    for (uint64_t i = 1; i < shard->n_tensors && ok; i++) {
        const gguf_tensor *before = order[i - 1], *tensor = order[i];
        if (tensor->offset - before->offset < before->size_bytes) {
            char name[96], problem[200];
            gguf_quote(name, sizeof(name), before->name, strlen(before->name));
            snprintf(problem, sizeof(problem),
                     "its data at byte %" PRIu64 " overlaps that of tensor '%s'", tensor->offset,
                     name);
            ok = fail_tensor(shard, tensor, problem, error);
        }
    }
    free(order);
    return ok;
}

bool tensors_place(struct shard *shard, gguf_error *error)
{
    if (shard->n_tensors == 0)
        return true;
    for (uint64_t i = 0; i < shard->n_tensors; i++) {
        gguf_tensor *tensor = &shard->tensors[i];
        char problem[200];
        uint64_t end;
        if (tensor->offset % shard->alignment != 0) {
            snprintf(problem, sizeof(problem),
                     "its offset %" PRIu64 " is not a multiple of the alignment %" PRIu64,
                     tensor->offset, shard->alignment);
            return fail_tensor(shard, tensor, problem, error);
        }
        if (__builtin_add_overflow(tensor->offset, shard->data_start, &tensor->offset) ||
            __builtin_add_overflow(tensor->offset, tensor->size_bytes, &end))
            return fail_tensor(shard, tensor, "its data ends beyond 64 bits", error);
        if (end > shard->size_bytes) {
            snprintf(problem, sizeof(problem),
                     "its data would end at byte %" PRIu64 ", but the file ends at byte %" PRIu64
                     "; is it cut short?",
                     end, shard->size_bytes);
            return fail_tensor(shard, tensor, problem, error);
        }
    }
    return check_overlaps(shard, error);
}

/* Metadata keys: the walk over untrusted bytes.
 *
 * Each value is checked here, once (bounds, booleans, nesting), so that the getters in values.c
 * only convert. Called by shard.c while a file is opened. */
#include <inttypes.h>
#include <stdlib.h>

#include "cursor.h"
#include "values.h"

const struct value_type value_types[N_VALUE_TYPES] = {
    [GGUF_TYPE_U8] = {"u8", 1, CLASS_UNSIGNED},       [GGUF_TYPE_I8] = {"i8", 1, CLASS_SIGNED},
    [GGUF_TYPE_U16] = {"u16", 2, CLASS_UNSIGNED},     [GGUF_TYPE_I16] = {"i16", 2, CLASS_SIGNED},
    [GGUF_TYPE_U32] = {"u32", 4, CLASS_UNSIGNED},     [GGUF_TYPE_I32] = {"i32", 4, CLASS_SIGNED},
    [GGUF_TYPE_F32] = {"f32", 4, CLASS_FLOAT},        [GGUF_TYPE_BOOL] = {"bool", 1, CLASS_BOOL},
    [GGUF_TYPE_STRING] = {"string", 8, CLASS_STRING}, [GGUF_TYPE_ARRAY] = {"array", 0, CLASS_ARRAY},
    [GGUF_TYPE_U64] = {"u64", 8, CLASS_UNSIGNED},     [GGUF_TYPE_I64] = {"i64", 8, CLASS_SIGNED},
    [GGUF_TYPE_F64] = {"f64", 8, CLASS_FLOAT},
};
static bool skip_string(struct cursor *cursor, const char *what)
{
    uint64_t length;
    if (!cursor_u64(cursor, what, &length))
        return false;
    if (length > GGUF_MAX_STRING_BYTES)
        return cursor_fail(cursor, "%s has %" PRIu64 " bytes, more than %" PRIu64 " MiB", what,
                           length, GGUF_MAX_STRING_BYTES >> 20);
    if (!cursor_need(cursor, length, what))
        return false;
    cursor->at += length;
    return true;
}

static bool skip_numbers(struct cursor *cursor, enum gguf_type type, uint64_t count)
{
    uint64_t n_bytes = count * value_types[type].bytes; /* at most 2^24 * 8 */
    if (!cursor_need(cursor, n_bytes, "its value"))
        return false;
    if (type == GGUF_TYPE_BOOL) {
        for (uint64_t i = 0; i < count; i++) {
            if (cursor_bytes(cursor)[i] > 1)
                return cursor_fail(cursor, "a bool with the value %u", cursor_bytes(cursor)[i]);
        }
    }
    cursor->at += n_bytes;
    return true;
}

static bool parse_array(struct cursor *cursor, struct key *key)
{
    uint32_t type;
    uint64_t count;
    if (!cursor_u32(cursor, "its element type", &type))
        return false;
    if (type == GGUF_TYPE_ARRAY)
        return cursor_fail(cursor, "an array of arrays, which is not allowed");
    if (type >= N_VALUE_TYPES)
        return cursor_fail(cursor, "unknown element type %" PRIu32, type);
    if (!cursor_u64(cursor, "its element count", &count))
        return false;
    if (count > GGUF_MAX_ARRAY_ELEMENTS)
        return cursor_fail(cursor, "%" PRIu64 " elements, more than %" PRIu64, count,
                           GGUF_MAX_ARRAY_ELEMENTS);
    if (count > cursor_remaining(cursor) / value_types[type].bytes)
        return cursor_fail(cursor,
                           "%" PRIu64 " elements of type %s, but only %" PRIu64 " bytes follow",
                           count, value_types[type].name, cursor_remaining(cursor));
    key->key.element_type = (enum gguf_type)type;
    key->key.count = count;
    key->value_at = (uint32_t)cursor->at;
    if (type != GGUF_TYPE_STRING)
        return skip_numbers(cursor, (enum gguf_type)type, count);
    if (count == 0)
        return true;
    key->strings = malloc((size_t)count * sizeof(key->strings[0]));
    if (!key->strings)
        return gguf_no_memory(cursor->error, "an array of strings");
    for (uint64_t i = 0; i < count; i++) {
        /* Loading stops at GGUF_MAX_METADATA_BYTES, so offsets that were reached fit 32 bits. */
        key->strings[i] = (uint32_t)cursor->at;
        if (!skip_string(cursor, "an element"))
            return false;
    }
    return true;
}

static bool parse_key(struct cursor *cursor, struct key *key)
{
    uint32_t type;
    if (!cursor_name(cursor, GGUF_MAX_KEY_BYTES, &key->name_at, &key->key.name.length))
        return false;
    if (!cursor_u32(cursor, "its type", &type))
        return false;
    if (type >= N_VALUE_TYPES)
        return cursor_fail(cursor, "unknown value type %" PRIu32, type);
    key->key.type = (enum gguf_type)type;
    key->key.element_type = key->key.type;
    key->key.count = 1;
    key->value_at = (uint32_t)cursor->at;
    switch (value_types[type].value_class) {
    case CLASS_ARRAY:
        return parse_array(cursor, key);
    case CLASS_STRING:
        return skip_string(cursor, "its value");
    default:
        return skip_numbers(cursor, key->key.type, 1);
    }
}

bool keys_parse(struct cursor *cursor, uint64_t n_keys)
{
    /* A name's length, a name of one byte, a type and a value of one byte. */
    const uint64_t least_bytes = 8 + 1 + 4 + 1;
    struct shard *shard = cursor->shard;
    if (n_keys > cursor_remaining(cursor) / least_bytes)
        return cursor_fail(cursor, "%" PRIu64 " keys, but only %" PRIu64 " bytes follow", n_keys,
                           cursor_remaining(cursor));
    if (n_keys > GGUF_MAX_KEYS)
        return cursor_fail(cursor, "%" PRIu64 " keys, more than %" PRIu64, n_keys, GGUF_MAX_KEYS);
    if (n_keys == 0)
        return true;
    shard->keys = calloc((size_t)n_keys, sizeof(shard->keys[0]));
    if (!shard->keys)
        return gguf_no_memory(cursor->error, "the keys of a GGUF file");
    for (uint64_t i = 0; i < n_keys; i++) {
        cursor_begin(cursor, "key", i);
        shard->n_keys = i + 1; /* so that keys_free sees what a failed parse_key allocated */
        if (!parse_key(cursor, &shard->keys[i]))
            return false;
    }
    return true;
}

bool keys_bind(struct shard *shard, gguf_error *error)
{
    if (!name_index_allocate(&shard->key_names, shard->n_keys))
        return gguf_no_memory(error, "the index of keys");
    for (uint64_t i = 0; i < shard->n_keys; i++) {
        struct key *key = &shard->keys[i];
        key->key.name.data = (const char *)shard->metadata + key->name_at;
        shard->key_names.entries[i] = (struct name_entry){key->key.name, i};
    }
    const struct name_entry *twin = name_index_sort(&shard->key_names);
    if (twin) {
        char name[96];
        gguf_quote(name, sizeof(name), twin->name.data, twin->name.length);
        return shard_fail(shard, error,
                          "key '%s' is there twice, as number %" PRIu64 " and number %" PRIu64,
                          name, twin[0].index, twin[1].index);
    }
    return true;
}

void keys_free(struct shard *shard)
{
    for (uint64_t i = 0; i < shard->n_keys; i++)
        free(shard->keys[i].strings);
    free(shard->keys);
    shard->keys = NULL;
    shard->n_keys = 0;
    name_index_free(&shard->key_names);
}

/* Metadata values: getters for every type of key.
 *
 * keys.c has checked that every value lies in the metadata, so these only convert. Called by
 * whoever reads a model's parameters, and by shard.c and split.c for the keys of the container
 * itself. */
#include "values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "little_endian.h"

const char *gguf_type_name(enum gguf_type type)
{
    return (unsigned)type < N_VALUE_TYPES ? value_types[type].name : "unknown";
}

/* Address of an element that is not a string; NULL past the end. */
static const uint8_t *element_at(const struct shard *shard, const struct key *key, uint64_t i)
{
    if (i >= key->key.count)
        return NULL;
    return shard->metadata + key->value_at + i * value_types[key->key.element_type].bytes;
}

/* Sign-extended to 64 bits. */
static uint64_t load_integer(enum gguf_type type, const uint8_t *at)
{
    switch (type) {
    case GGUF_TYPE_I8:
        return (uint64_t)(int64_t)(int8_t)at[0];
    case GGUF_TYPE_U16:
        return load_u16(at);
    case GGUF_TYPE_I16:
        return (uint64_t)(int64_t)(int16_t)load_u16(at);
    case GGUF_TYPE_U32:
        return load_u32(at);
    case GGUF_TYPE_I32:
        return (uint64_t)(int64_t)(int32_t)load_u32(at);
    case GGUF_TYPE_U64:
    case GGUF_TYPE_I64:
        return load_u64(at);
    default: /* u8 and bool */
        return at[0];
    }
}

bool key_u64(const struct shard *shard, const struct key *key, uint64_t i, uint64_t *out)
{
    const uint8_t value_class = value_types[key->key.element_type].value_class;
    const uint8_t *at = element_at(shard, key, i);
    if (!at || value_class == CLASS_FLOAT || value_class == CLASS_STRING)
        return false;
    uint64_t bits = load_integer(key->key.element_type, at);
    if (value_class == CLASS_SIGNED && (int64_t)bits < 0)
        return false;
    *out = bits;
    return true;
}

static bool key_i64(const struct shard *shard, const struct key *key, uint64_t i, int64_t *out)
{
    const uint8_t value_class = value_types[key->key.element_type].value_class;
    const uint8_t *at = element_at(shard, key, i);
    if (!at || value_class == CLASS_FLOAT || value_class == CLASS_STRING)
        return false;
    uint64_t bits = load_integer(key->key.element_type, at);
    if (value_class != CLASS_SIGNED && bits > INT64_MAX)
        return false;
    *out = (int64_t)bits;
    return true;
}

static bool key_f64(const struct shard *shard, const struct key *key, uint64_t i, double *out)
{
    const uint8_t *at = element_at(shard, key, i);
    if (!at)
        return false;
    switch (value_types[key->key.element_type].value_class) {
    case CLASS_UNSIGNED:
        *out = (double)load_integer(key->key.element_type, at);
        return true;
    case CLASS_SIGNED:
        *out = (double)(int64_t)load_integer(key->key.element_type, at);
        return true;
    case CLASS_FLOAT:
        if (key->key.element_type == GGUF_TYPE_F32) {
            uint32_t bits = load_u32(at);
            float value;
            memcpy(&value, &bits, sizeof(value));
            *out = value;
        } else {
            uint64_t bits = load_u64(at);
            memcpy(out, &bits, sizeof(*out));
        }
        return true;
    default:
        return false;
    }
}

static bool key_bool(const struct shard *shard, const struct key *key, uint64_t i, bool *out)
{
    const uint8_t *at = element_at(shard, key, i);
    if (!at || key->key.element_type != GGUF_TYPE_BOOL)
        return false;
    *out = at[0] != 0;
    return true;
}

static bool key_string(const struct shard *shard, const struct key *key, uint64_t i,
                       gguf_string *out)
{
    if (key->key.element_type != GGUF_TYPE_STRING || i >= key->key.count)
        return false;
    const uint8_t *at = shard->metadata +
                        (key->key.type == GGUF_TYPE_ARRAY ? key->strings[i] : key->value_at);
    out->length = (size_t)load_u64(at);
    out->data = (const char *)at + 8;
    return true;
}

const struct key *shard_find_key(const struct shard *shard, const char *name)
{
    uint64_t index = name_index_find(&shard->key_names, name);
    return index == NAME_INDEX_NONE ? NULL : &shard->keys[index];
}

/* The public getters read the first shard, which has all the metadata of a split model. */

uint64_t gguf_n_keys(const gguf_file *file)
{
    return gguf_first_shard(file)->n_keys;
}

const gguf_key *gguf_key_at(const gguf_file *file, uint64_t index)
{
    const struct shard *shard = gguf_first_shard(file);
    return index < shard->n_keys ? &shard->keys[index].key : NULL;
}

const gguf_key *gguf_find(const gguf_file *file, const char *name)
{
    const struct key *key = shard_find_key(gguf_first_shard(file), name);
    return key ? &key->key : NULL;
}

bool gguf_element_u64(const gguf_file *file, const gguf_key *key, uint64_t i, uint64_t *out)
{
    return key_u64(gguf_first_shard(file), (const struct key *)key, i, out);
}

bool gguf_element_i64(const gguf_file *file, const gguf_key *key, uint64_t i, int64_t *out)
{
    return key_i64(gguf_first_shard(file), (const struct key *)key, i, out);
}

bool gguf_element_f64(const gguf_file *file, const gguf_key *key, uint64_t i, double *out)
{
    return key_f64(gguf_first_shard(file), (const struct key *)key, i, out);
}

bool gguf_element_bool(const gguf_file *file, const gguf_key *key, uint64_t i, bool *out)
{
    return key_bool(gguf_first_shard(file), (const struct key *)key, i, out);
}

bool gguf_element_string(const gguf_file *file, const gguf_key *key, uint64_t i, gguf_string *out)
{
    return key_string(gguf_first_shard(file), (const struct key *)key, i, out);
}

/* "u32 7", "f32", "array of 3 string": what stands where something else was wanted. */
static void describe_value(const struct shard *shard, const struct key *key, char *text,
                           size_t size)
{
    const char *type = gguf_type_name(key->key.element_type);
    uint64_t natural;
    int64_t whole;
    double number;
    if (key->key.type == GGUF_TYPE_ARRAY)
        snprintf(text, size, "an array of %" PRIu64 " %s", key->key.count, type);
    else if (key_u64(shard, key, 0, &natural))
        snprintf(text, size, "%s %" PRIu64, type, natural);
    else if (key_i64(shard, key, 0, &whole))
        snprintf(text, size, "%s %" PRId64, type, whole);
    else if (key_f64(shard, key, 0, &number))
        snprintf(text, size, "%s %g", type, number);
    else
        snprintf(text, size, "a %s", type);
}

static bool wrong_value(const struct shard *shard, const struct key *key, const char *wanted,
                        gguf_error *error)
{
    char name[96], found[64];
    gguf_quote(name, sizeof(name), key->key.name.data, key->key.name.length);
    describe_value(shard, key, found, sizeof(found));
    return shard_fail(shard, error, "key '%s' is %s; it must be %s", name, found, wanted);
}

bool gguf_get_u32(const gguf_file *file, const char *name, uint32_t fallback, uint32_t *out,
                  gguf_error *error)
{
    const struct shard *shard = gguf_first_shard(file);
    const struct key *key = shard_find_key(shard, name);
    uint64_t value = fallback;
    if (key &&
        (key->key.type == GGUF_TYPE_ARRAY || !key_u64(shard, key, 0, &value) || value > UINT32_MAX))
        return wrong_value(shard, key, "an integer from 0 to 4294967295", error);
    *out = (uint32_t)value;
    return true;
}

bool gguf_get_f32(const gguf_file *file, const char *name, float fallback, float *out,
                  gguf_error *error)
{
    const struct shard *shard = gguf_first_shard(file);
    const struct key *key = shard_find_key(shard, name);
    double value = fallback;
    /* A stored NaN or infinity is passed on: whether it makes sense is for the caller to say. */
    if (key && (key->key.type == GGUF_TYPE_ARRAY || !key_f64(shard, key, 0, &value) ||
                (isfinite(value) && !isfinite((float)value))))
        return wrong_value(shard, key, "a number in the range of a 32-bit float", error);
    *out = (float)value;
    return true;
}

bool gguf_get_bool(const gguf_file *file, const char *name, bool fallback, bool *out,
                   gguf_error *error)
{
    const struct shard *shard = gguf_first_shard(file);
    const struct key *key = shard_find_key(shard, name);
    bool value = fallback;
    if (key && (key->key.type == GGUF_TYPE_ARRAY || !key_bool(shard, key, 0, &value)))
        return wrong_value(shard, key, "a bool", error);
    *out = value;
    return true;
}

bool gguf_get_string(const gguf_file *file, const char *name, gguf_string *out, bool *present,
                     gguf_error *error)
{
    const struct shard *shard = gguf_first_shard(file);
    const struct key *key = shard_find_key(shard, name);
    if (key && (key->key.type == GGUF_TYPE_ARRAY || !key_string(shard, key, 0, out)))
        return wrong_value(shard, key, "a string", error);
    *present = key != NULL;
    return true;
}

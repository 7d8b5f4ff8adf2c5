/* Builder of GGUF files for tests: see build_gguf.h. */
#include "build_gguf.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

void put_bytes(struct builder *b, const void *bytes, size_t n)
{
    if (b->n + n > b->capacity) {
        b->capacity = 2 * (b->n + n);
        b->bytes = realloc(b->bytes, b->capacity);
        CHECK(b->bytes);
    }
    if (n > 0)
        memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

static void put_integer(struct builder *b, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_u8(b, (uint8_t)(value >> 8 * i));
}

void put_u8(struct builder *b, uint8_t value)
{
    put_bytes(b, &value, 1);
}

void put_u16(struct builder *b, uint16_t value)
{
    put_integer(b, value, 2);
}

void put_u32(struct builder *b, uint32_t value)
{
    put_integer(b, value, 4);
}

void put_u64(struct builder *b, uint64_t value)
{
    put_integer(b, value, 8);
}

void put_f32(struct builder *b, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_u32(b, bits);
}

void put_f64(struct builder *b, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_u64(b, bits);
}

void put_string(struct builder *b, const char *text)
{
    put_u64(b, strlen(text));
    put_bytes(b, text, strlen(text));
}

void begin_file(struct builder *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    b->n = 0;
    put_bytes(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_keys);
}

void put_key(struct builder *b, const char *name, uint32_t type)
{
    put_string(b, name);
    put_u32(b, type);
}

void put_key_u32(struct builder *b, const char *name, uint32_t value)
{
    put_key(b, name, GGUF_TYPE_U32);
    put_u32(b, value);
}

void put_key_string(struct builder *b, const char *name, const char *value)
{
    put_key(b, name, GGUF_TYPE_STRING);
    put_string(b, value);
}

void put_key_array(struct builder *b, const char *name, uint32_t element_type, uint64_t count)
{
    put_key(b, name, GGUF_TYPE_ARRAY);
    put_u32(b, element_type);
    put_u64(b, count);
}

void put_tensor(struct builder *b, const char *name, const uint64_t dims[4], uint32_t format,
                uint64_t offset)
{
    uint32_t n_dims = 0;
    while (n_dims < 4 && dims[n_dims] > 0)
        n_dims++;
    put_string(b, name);
    put_u32(b, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        put_u64(b, dims[d]);
    put_u32(b, format);
    put_u64(b, offset);
}

void put_padding(struct builder *b, size_t alignment)
{
    while (b->n % alignment != 0)
        put_u8(b, 0);
}

void put_data(struct builder *b, uint8_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_u8(b, (uint8_t)(first + i));
}

void free_builder(struct builder *b)
{
    free(b->bytes);
    memset(b, 0, sizeof(*b));
}

void build_everything(struct builder *b, uint32_t version)
{
    begin_file(b, version, EVERYTHING_N_TENSORS, EVERYTHING_N_KEYS);
    put_key(b, "u8", GGUF_TYPE_U8);
    put_u8(b, 250);
    put_key(b, "i8", GGUF_TYPE_I8);
    put_u8(b, (uint8_t)-5);
    put_key(b, "u16", GGUF_TYPE_U16);
    put_u16(b, 65000);
    put_key(b, "i16", GGUF_TYPE_I16);
    put_u16(b, (uint16_t)-300);
    put_key(b, "u32", GGUF_TYPE_U32);
    put_u32(b, 4000000000u);
    put_key(b, "i32", GGUF_TYPE_I32);
    put_u32(b, (uint32_t)-70000);
    put_key(b, "f32", GGUF_TYPE_F32);
    put_f32(b, 0.5f);
    put_key(b, "bool", GGUF_TYPE_BOOL);
    put_u8(b, 1);
    put_key(b, "string", GGUF_TYPE_STRING);
    put_u64(b, 4);
    put_bytes(b,
              "a\0\xff"
              "b",
              4);
    put_key(b, "u64", GGUF_TYPE_U64);
    put_u64(b, UINT64_MAX);
    put_key(b, "i64", GGUF_TYPE_I64);
    put_u64(b, (uint64_t)INT64_MIN);
    put_key(b, "f64", GGUF_TYPE_F64);
    put_f64(b, 1e300);
    put_key_string(b, "string.empty", "");
    put_key_array(b, "array.u8", GGUF_TYPE_U8, 3);
    put_data(b, 254, 3);
    put_key_array(b, "array.i8", GGUF_TYPE_I8, 2);
    put_u8(b, 127);
    put_u8(b, 128);
    put_key_array(b, "array.u16", GGUF_TYPE_U16, 1);
    put_u16(b, 513);
    put_key_array(b, "array.i16", GGUF_TYPE_I16, 2);
    put_u16(b, 1);
    put_u16(b, (uint16_t)-1);
    put_key_array(b, "array.u32", GGUF_TYPE_U32, 2);
    put_u32(b, 7);
    put_u32(b, UINT32_MAX);
    put_key_array(b, "array.i32", GGUF_TYPE_I32, 2);
    put_u32(b, 8);
    put_u32(b, (uint32_t)INT32_MIN);
    put_key_array(b, "array.f32", GGUF_TYPE_F32, 2);
    put_f32(b, 1.25f);
    put_f32(b, -2.0f);
    put_key_array(b, "array.bool", GGUF_TYPE_BOOL, 3);
    put_u8(b, 1);
    put_u8(b, 0);
    put_u8(b, 1);
    put_key_array(b, "array.string", GGUF_TYPE_STRING, 3);
    put_string(b, "one");
    put_string(b, "");
    put_string(b, "three");
    put_key_array(b, "array.u64", GGUF_TYPE_U64, 2);
    put_u64(b, 1);
    put_u64(b, UINT64_MAX);
    put_key_array(b, "array.i64", GGUF_TYPE_I64, 2);
    put_u64(b, (uint64_t)-1);
    put_u64(b, INT64_MAX);
    put_key_array(b, "array.f64", GGUF_TYPE_F64, 1);
    put_f64(b, 0.1);
    put_key_array(b, "array.empty", GGUF_TYPE_STRING, 0);
    put_key_array(b, "array.empty.f32", GGUF_TYPE_F32, 0);
    put_key_u32(b, "general.alignment", 64);
    put_tensor(b, "first", (const uint64_t[4]){5}, FORMAT_F32, 0);               /* 20 bytes */
    put_tensor(b, "second.weight", (const uint64_t[4]){32, 3}, FORMAT_Q8_0, 64); /* 102 bytes */
    /* Not in the order of the data, which is allowed. */
    put_tensor(b, "fourth", (const uint64_t[4]){256, 1, 2}, FORMAT_Q4_K, 256); /* 288 bytes */
    put_tensor(b, "third", (const uint64_t[4]){3, 1, 2, 1}, FORMAT_BF16, 192); /* 12 bytes */
    put_padding(b, 64);
    put_data(b, 10, 20);
    put_padding(b, 64);
    put_data(b, 20, 102);
    put_padding(b, 64);
    put_data(b, 30, 12);
    put_padding(b, 64);
    put_data(b, 40, 288);
}

/* ------------------------------------------------------------------------------ scratch folder */

static char scratch_folder[256];

void scratch_create(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(scratch_folder, sizeof(scratch_folder), "%.200s/outrider-gguf-XXXXXX",
             base && base[0] ? base : "/tmp");
    CHECK(mkdtemp(scratch_folder));
}

void scratch_remove(void)
{
    DIR *folder = opendir(scratch_folder);
    CHECK(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    }
    closedir(folder);
    rmdir(scratch_folder);
}

const char *scratch_path(const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", scratch_folder, name);
    return path;
}

const char *scratch_write(const struct builder *b, const char *name)
{
    const char *path = scratch_path(name);
    /* A new file each time: some file systems write one that is truncated and filled again to the
     * disk at once, which makes thousands of them slow. */
    unlink(path);
    FILE *file = fopen(path, "wb");
    CHECK(file);
    CHECK(b->n == 0 || fwrite(b->bytes, 1, b->n, file) == b->n);
    CHECK(fclose(file) == 0);
    return path;
}

/* ------------------------------------------------------------------------- use of a whole file */

static uint64_t touched; /* keeps the reads from being optimised away */

static void touch(const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        touched = touched * 31 + ((const uint8_t *)data)[i];
}

static void use_key(const gguf_file *file, const gguf_key *key)
{
    touch(key->name.data, key->name.length);
    CHECK(key->type == GGUF_TYPE_ARRAY || (key->count == 1 && key->element_type == key->type));
    touch(gguf_type_name(key->type), 1);
    for (uint64_t i = 0; i <= key->count; i++) {
        uint64_t natural;
        int64_t whole;
        double number;
        bool flag;
        gguf_string text;
        bool any = gguf_element_u64(file, key, i, &natural);
        any |= gguf_element_i64(file, key, i, &whole);
        any |= gguf_element_f64(file, key, i, &number);
        any |= gguf_element_bool(file, key, i, &flag);
        if (gguf_element_string(file, key, i, &text)) {
            touch(text.data, text.length);
            any = true;
        }
        CHECK(any == (i < key->count));
    }
}

static void use_tensor(const gguf_file *file, const gguf_tensor *tensor)
{
    gguf_error error;
    CHECK(gguf_find_tensor(file, tensor->name) == tensor);
    const format_info *format = format_find(tensor->format);
    CHECK(format && tensor->dims[0] % format->block_size == 0);
    CHECK(tensor->size_bytes == tensor->n_elements / format->block_size * format->block_bytes);
    uint8_t *data = malloc(tensor->size_bytes);
    CHECK(data);
    CHECK(gguf_tensor_read(file, tensor, 0, data, tensor->size_bytes, &error));
    const uint8_t *mapped = gguf_tensor_data(file, tensor);
    CHECK(mapped && memcmp(data, mapped, tensor->size_bytes) == 0);
    double values[256];
    format_dequantize(format, data, format->block_size, values);
    touch(values, format->block_size * sizeof(values[0]));
    free(data);
}

bool use_everything(const char *path, gguf_error *error)
{
    gguf_file *file;
    memset(error, 0, sizeof(*error));
    if (!gguf_open(path, &file, error)) {
        CHECK(!file && error->text[0] != '\0');
        for (const char *c = error->text; *c; c++)
            CHECK((uint8_t)*c >= 0x20 && *c != 0x7f);
        return false;
    }
    CHECK(gguf_n_shards(file) >= 1 && gguf_size_bytes(file) >= 24 && gguf_alignment(file) >= 8);
    for (uint64_t i = 0; i < gguf_n_keys(file); i++)
        use_key(file, gguf_key_at(file, i));
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++)
        use_tensor(file, gguf_tensor_at(file, i));
    CHECK(!gguf_key_at(file, gguf_n_keys(file)) && !gguf_tensor_at(file, gguf_n_tensors(file)));
    gguf_close(&file);
    CHECK(!file);
    return true;
}

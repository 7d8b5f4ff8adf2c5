/* Vocabulary-only GGUF files, on top of build_gguf.c. See vocab_builder.h. */
#include "vocab_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void put_text(vocab_builder *builder, const char *data, size_t length)
{
    put_u64(&builder->keys, length);
    put_bytes(&builder->keys, data, length);
}

static void put_array(vocab_builder *builder, const char *key, enum gguf_type type, size_t n)
{
    put_key_array(&builder->keys, key, type, n);
    builder->n_keys++;
}

void builder_string(vocab_builder *builder, const char *key, const char *value, size_t length)
{
    put_key(&builder->keys, key, GGUF_TYPE_STRING);
    put_text(builder, value, length);
    builder->n_keys++;
}

void builder_u32(vocab_builder *builder, const char *key, uint32_t value)
{
    put_key_u32(&builder->keys, key, value);
    builder->n_keys++;
}

void builder_bool(vocab_builder *builder, const char *key, bool value)
{
    put_key(&builder->keys, key, GGUF_TYPE_BOOL);
    put_u8(&builder->keys, value);
    builder->n_keys++;
}

void builder_strings(vocab_builder *builder, const char *key, const gguf_string *values, size_t n)
{
    put_array(builder, key, GGUF_TYPE_STRING, n);
    for (size_t i = 0; i < n; i++)
        put_text(builder, values[i].data, values[i].length);
}

void builder_i32s(vocab_builder *builder, const char *key, const int32_t *values, size_t n)
{
    put_array(builder, key, GGUF_TYPE_I32, n);
    for (size_t i = 0; i < n; i++)
        put_u32(&builder->keys, (uint32_t)values[i]);
}

void builder_f32s(vocab_builder *builder, const char *key, const float *values, size_t n)
{
    put_array(builder, key, GGUF_TYPE_F32, n);
    for (size_t i = 0; i < n; i++)
        put_f32(&builder->keys, values[i]);
}

void builder_free(vocab_builder *builder)
{
    free_builder(&builder->keys);
    builder->n_keys = 0;
}

gguf_file *builder_open(const vocab_builder *builder)
{
    struct builder file = {0};
    gguf_file *opened;
    gguf_error error;
    char path[64];
    begin_file(&file, 3, 0, builder->n_keys + 1);
    put_key_string(&file, "general.architecture", "llama");
    put_bytes(&file, builder->keys.bytes, builder->keys.n);
    put_padding(&file, 32);

    int fd = memfd_create("vocab.gguf", MFD_CLOEXEC);
    if (fd < 0 || write(fd, file.bytes, file.n) != (ssize_t)file.n)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (!gguf_open(path, &opened, &error)) {
        fprintf(stderr, "%s\n", error.text);
        abort();
    }
    close(fd);
    free_builder(&file);
    return opened;
}

bool builder_load(const vocab_builder *builder, vocab **out, gguf_error *error)
{
    gguf_file *file = builder_open(builder);
    bool ok = vocab_load(file, out, error);
    gguf_close(&file);
    return ok;
}

bool load_vocab_file(const char *path, vocab **out, gguf_error *error)
{
    gguf_file *file;
    *out = NULL;
    if (!gguf_open(path, &file, error))
        return false;
    bool ok = vocab_load(file, out, error);
    gguf_close(&file);
    return ok;
}

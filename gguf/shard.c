/* One GGUF file on disk: opening, header, reading, mapping. See shard.h. Called by gguf.c, once for
 * each shard of a model. */
#include "shard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cursor.h"
#include "little_endian.h"

#define HEADER_BYTES 24 /* magic, version, number of tensors, number of keys */

void shard_init(struct shard *shard)
{
    memset(shard, 0, sizeof(*shard));
    shard->fd = -1;
}

void shard_close(struct shard *shard)
{
    keys_free(shard);
    free(shard->tensors);
    free(shard->tensor_names_at);
    if (shard->mapping)
        munmap((void *)(uintptr_t)shard->mapping, (size_t)shard->size_bytes);
    if (shard->fd >= 0)
        close(shard->fd);
    free(shard->metadata);
    free(shard->path);
    shard_init(shard);
}

const char *shard_path_text(const char *path, char buffer[SHARD_PATH_TEXT])
{
    size_t length = strlen(path);
    /* The end of a path tells more than its start. Escaping may make it longer still; then
     * gguf_quote cuts it. */
    const size_t most = SHARD_PATH_TEXT - 4;
    if (length <= most)
        return gguf_quote(buffer, SHARD_PATH_TEXT, path, length);
    memcpy(buffer, "...", 3);
    const char *end = path + length - most + 4;
    while (((uint8_t)*end & 0xc0) == 0x80)
        end++; /* not in the middle of a character */
    gguf_quote(buffer + 3, SHARD_PATH_TEXT - 3, end, strlen(end));
    return buffer;
}

bool shard_fail(const struct shard *shard, gguf_error *error, const char *format, ...)
{
    char path[SHARD_PATH_TEXT], message[352];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return gguf_fail(error, "%s: %s", shard_path_text(shard->path, path), message);
}

static bool fail_io(const struct shard *shard, gguf_error *error, const char *message)
{
    shard_fail(shard, error, "%s", message);
    if (error)
        error->is_io = true;
    return false;
}

bool shard_read(const struct shard *shard, uint64_t offset, void *dst, uint64_t n_bytes,
                gguf_error *error)
{
    const uint64_t most = UINT64_C(1) << 30; /* below the limit of one pread on every system */
    char message[160];
    uint8_t *bytes = dst;
    while (n_bytes > 0) {
        ssize_t n = pread(shard->fd, bytes, (size_t)(n_bytes < most ? n_bytes : most),
                          (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            snprintf(message, sizeof(message), "can't read at byte %" PRIu64 ": %s", offset,
                     strerror(errno));
            return fail_io(shard, error, message);
        }
        if (n == 0) {
            snprintf(message, sizeof(message),
                     "the file was cut short while in use: it had %" PRIu64
                     " bytes and now ends at byte %" PRIu64,
                     shard->size_bytes, offset);
            return fail_io(shard, error, message);
        }
        bytes += n;
        offset += (uint64_t)n;
        n_bytes -= (uint64_t)n;
    }
    return true;
}

static bool open_file(struct shard *shard, const char *path, gguf_error *error)
{
    size_t path_bytes = strlen(path) + 1;
    shard->path = malloc(path_bytes);
    if (!shard->path)
        return gguf_no_memory(error, "a file name");
    memcpy(shard->path, path, path_bytes);
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. It has no effect on files. */
    shard->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;
    if (shard->fd < 0 || fstat(shard->fd, &status) != 0)
        return fail_io(shard, error, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return fail_io(shard, error, "is a directory; name the GGUF file in it");
    if (!S_ISREG(status.st_mode))
        return fail_io(shard, error, "is not a regular file, so it can't be read as GGUF");
    if (status.st_size == 0)
        return shard_fail(shard, error, "the file is empty");
    shard->size_bytes = (uint64_t)status.st_size;
    return true;
}

static bool check_magic(struct cursor *cursor)
{
    /* Files that people take for GGUF files. */
    static const struct {
        char start[5];
        const char *what;
    } lookalikes[] = {
        {"vers", "a Git LFS pointer; fetch the file itself with 'git lfs pull'"},
        {"PK\3\4", "a ZIP archive (PyTorch weights?); convert it to GGUF"},
        {"tjgg", "an old GGJT file; convert it to GGUF"},
        {"fmgg", "an old GGMF file; convert it to GGUF"},
        {"lmgg", "an old GGML file; convert it to GGUF"},
        {"<!DO", "a web page"},
        {"<htm", "a web page"},
    };
    const struct shard *shard = cursor->shard;
    const uint64_t n = shard->size_bytes < 4 ? shard->size_bytes : 4;
    if (!cursor_need(cursor, n, "the magic number"))
        return false;
    const char *start = (const char *)cursor_bytes(cursor);
    if (memcmp(start, "GGUF", n) == 0) {
        if (shard->size_bytes < HEADER_BYTES)
            return cursor_fail(cursor,
                               "the file ends at byte %" PRIu64 ", inside the header of %d"
                               " bytes; is it cut short?",
                               shard->size_bytes, HEADER_BYTES);
        cursor->at += 4;
        return true;
    }
    for (size_t i = 0; i < sizeof(lookalikes) / sizeof(lookalikes[0]); i++) {
        if (n == 4 && memcmp(start, lookalikes[i].start, 4) == 0)
            return shard_fail(shard, cursor->error, "not a GGUF file but %s", lookalikes[i].what);
    }
    char quoted[24];
    gguf_quote(quoted, sizeof(quoted), start, n);
    return shard_fail(shard, cursor->error, "not a GGUF file: it starts with '%s', not 'GGUF'",
                      quoted);
}

static bool check_version(struct cursor *cursor)
{
    struct shard *shard = cursor->shard;
    if (!cursor_u32(cursor, "the version", &shard->version))
        return false;
    const uint32_t version = shard->version;
    if (version == 2 || version == 3)
        return true;
    cursor->at -= 4; /* messages point at the version */
    if (version == 0)
        return cursor_fail(cursor, "version 0 does not exist");
    if (version == 1)
        return cursor_refuse(cursor, "GGUF version 1 can't be read, only 2 and 3; convert the "
                                     "model again");
    /* Read in the wrong byte order, a small number has its low half empty. */
    if ((version & 0xffff) == 0)
        return cursor_refuse(cursor, "this is a big-endian GGUF file, and only little-endian ones "
                                     "can be read; convert it with gguf_convert_endian.py");
    return cursor_refuse(cursor, "GGUF version %" PRIu32 " can't be read, only 2 and 3", version);
}

static bool find_alignment(struct shard *shard, gguf_error *error)
{
    static const char name[] = "general.alignment";
    const struct key *key = shard_find_key(shard, name);
    uint64_t value = GGUF_DEFAULT_ALIGNMENT;
    if (key && (key->key.type == GGUF_TYPE_ARRAY || key->key.type == GGUF_TYPE_BOOL ||
                !key_u64(shard, key, 0, &value)))
        return shard_fail(shard, error, "key '%s' is of type %s; it must be an integer", name,
                          gguf_type_name(key->key.type));
    if (value < GGUF_MIN_ALIGNMENT || value > GGUF_MAX_ALIGNMENT || (value & (value - 1)) != 0)
        return shard_fail(shard, error,
                          "key '%s' is %" PRIu64 "; it must be a power of two from %d to %d", name,
                          value, GGUF_MIN_ALIGNMENT, GGUF_MAX_ALIGNMENT);
    shard->alignment = value;
    return true;
}

static bool parse_metadata(struct shard *shard, gguf_error *error)
{
    struct cursor cursor = {.shard = shard, .error = error};
    uint64_t n_tensors, n_keys;
    if (!check_magic(&cursor) || !check_version(&cursor))
        return false;
    if (!cursor_u64(&cursor, "the number of tensors", &n_tensors) ||
        !cursor_u64(&cursor, "the number of keys", &n_keys))
        return false;
    if (!keys_parse(&cursor, n_keys) || !tensors_parse(&cursor, n_tensors))
        return false;
    if (!keys_bind(shard, error))
        return false;
    tensors_bind(shard);
    if (!find_alignment(shard, error))
        return false;
    /* No overflow: the metadata is at most GGUF_MAX_METADATA_BYTES. */
    shard->data_start = (cursor.at + shard->alignment - 1) & ~(shard->alignment - 1);
    return tensors_place(shard, error);
}

bool shard_open(struct shard *shard, const char *path, gguf_error *error)
{
    shard_init(shard);
    if (!open_file(shard, path, error) || !parse_metadata(shard, error))
        return false;
    void *mapping = shard->size_bytes > SIZE_MAX ? MAP_FAILED
                                                 : mmap(NULL, (size_t)shard->size_bytes, PROT_READ,
                                                        MAP_SHARED, shard->fd, 0);
    /* Without a mapping (a file system that has none, too little address space) everything but
     * gguf_tensor_data works. */
    shard->mapping = mapping == MAP_FAILED ? NULL : mapping;
    return true;
}

/* Cursor over a shard's metadata: see cursor.h. Called by shard.c, keys.c and tensors.c. */
#include "cursor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "little_endian.h"

#define FIRST_WINDOW_BYTES (UINT64_C(64) << 10)

void cursor_begin(struct cursor *cursor, const char *part, uint64_t number)
{
    cursor->part = part;
    cursor->number = number;
    cursor->name_length = 0;
}

uint64_t cursor_remaining(const struct cursor *cursor)
{
    return cursor->shard->size_bytes - cursor->at;
}

static void describe_place(const struct cursor *cursor, char *text, size_t size)
{
    char name[96];
    if (!cursor->part) {
        snprintf(text, size, "header at offset %" PRIu64, cursor->at);
    } else if (cursor->name_length == 0) {
        snprintf(text, size, "%s number %" PRIu64 " at offset %" PRIu64, cursor->part,
                 cursor->number, cursor->at);
    } else {
        gguf_quote(name, sizeof(name), (const char *)cursor->shard->metadata + cursor->name_at,
                   cursor->name_length);
        snprintf(text, size, "%s '%s' at offset %" PRIu64, cursor->part, name, cursor->at);
    }
}

bool cursor_fail(struct cursor *cursor, const char *format, ...)
{
    char place[160], message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    describe_place(cursor, place, sizeof(place));
    return shard_fail(cursor->shard, cursor->error, "%s: %s", place, message);
}

bool cursor_refuse(struct cursor *cursor, const char *format, ...)
{
    char place[160], message[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    describe_place(cursor, place, sizeof(place));
    shard_fail(cursor->shard, cursor->error, "%s: %s", place, message);
    if (cursor->error)
        cursor->error->is_unsupported = true;
    return false;
}

/* Extends shard->metadata to at least `end` bytes, twice as many as before when the file has them,
 * so that a long walk costs few reads and at most twice its length in memory. */
static bool load_until(struct cursor *cursor, uint64_t end)
{
    struct shard *shard = cursor->shard;
    if (end <= shard->metadata_bytes)
        return true;
    if (end > GGUF_MAX_METADATA_BYTES)
        return cursor_fail(cursor, "metadata is longer than %" PRIu64 " MiB",
                           GGUF_MAX_METADATA_BYTES >> 20);
    uint64_t window = 2 * shard->metadata_bytes;
    if (window < FIRST_WINDOW_BYTES)
        window = FIRST_WINDOW_BYTES;
    if (window < end)
        window = end;
    if (window > GGUF_MAX_METADATA_BYTES)
        window = GGUF_MAX_METADATA_BYTES;
    if (window > shard->size_bytes)
        window = shard->size_bytes;
    if (window > shard->metadata_capacity) {
        uint8_t *larger = realloc(shard->metadata, (size_t)window);
        if (!larger)
            return gguf_no_memory(cursor->error, "the metadata of a GGUF file");
        shard->metadata = larger;
        shard->metadata_capacity = window;
    }
    if (!shard_read(shard, shard->metadata_bytes, shard->metadata + shard->metadata_bytes,
                    window - shard->metadata_bytes, cursor->error))
        return false;
    shard->metadata_bytes = window;
    return true;
}

bool cursor_need(struct cursor *cursor, uint64_t n, const char *what)
{
    if (n > cursor_remaining(cursor))
        return cursor_fail(cursor,
                           "the file ends at byte %" PRIu64 ", inside %s (%" PRIu64
                           " bytes); is it cut short?",
                           cursor->shard->size_bytes, what, n);
    return load_until(cursor, cursor->at + n);
}

const uint8_t *cursor_bytes(const struct cursor *cursor)
{
    return cursor->shard->metadata + cursor->at;
}

bool cursor_u32(struct cursor *cursor, const char *what, uint32_t *out)
{
    if (!cursor_need(cursor, 4, what))
        return false;
    *out = load_u32(cursor_bytes(cursor));
    cursor->at += 4;
    return true;
}

bool cursor_u64(struct cursor *cursor, const char *what, uint64_t *out)
{
    if (!cursor_need(cursor, 8, what))
        return false;
    *out = load_u64(cursor_bytes(cursor));
    cursor->at += 8;
    return true;
}

bool cursor_name(struct cursor *cursor, uint64_t max, uint32_t *name_at, size_t *name_length)
{
    uint64_t length;
    if (!cursor_u64(cursor, "the length of its name", &length))
        return false;
    if (length < 1 || length > max)
        return cursor_fail(cursor, "a name of %" PRIu64 " bytes; 1 to %" PRIu64 " are allowed",
                           length, max);
    if (!cursor_need(cursor, length, "its name"))
        return false;
    if (memchr(cursor_bytes(cursor), 0, (size_t)length))
        return cursor_fail(cursor, "the name has a zero byte in it");
    cursor->name_at = cursor->at;
    cursor->name_length = (size_t)length;
    *name_at = (uint32_t)cursor->at;
    *name_length = (size_t)length;
    cursor->at += length;
    return true;
}

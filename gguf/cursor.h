/* Walks through the metadata of a shard, reading the file in growing windows.
 *
 * Nothing is read beyond the file's size, and every step says what it was after, so that a file
 * that ends too early, or holds nonsense, gives a message with the key or tensor, and the offset.
 *
 * Reading more may move shard->metadata: keep offsets, not addresses, across calls. */
#ifndef OUTRIDER_GGUF_CURSOR_H
#define OUTRIDER_GGUF_CURSOR_H

#include "shard.h"

struct cursor {
    struct shard *shard;
    gguf_error *error;
    uint64_t at;        /* offset in the file */
    const char *part;   /* "key", "tensor"; NULL in the header */
    uint64_t number;    /* of that key or tensor, from 0 */
    uint64_t name_at;   /* its name, once it is known: */
    size_t name_length; /* 0 before */
};

/* Begins with the next key or tensor, for messages. */
void cursor_begin(struct cursor *cursor, const char *part, uint64_t number);
/* Bytes between the cursor and the end of the file. */
uint64_t cursor_remaining(const struct cursor *cursor);
/* Makes n bytes at the cursor available; fails when the file has fewer left. */
bool cursor_need(struct cursor *cursor, uint64_t n, const char *what);
/* Address of the bytes at the cursor, valid until the next call. */
const uint8_t *cursor_bytes(const struct cursor *cursor);
bool cursor_u32(struct cursor *cursor, const char *what, uint32_t *out);
bool cursor_u64(struct cursor *cursor, const char *what, uint64_t *out);
/* Reads a name of 1..max bytes without NUL; it then appears in messages. */
bool cursor_name(struct cursor *cursor, uint64_t max, uint32_t *name_at, size_t *name_length);

/* "PATH: key 'NAME' at offset N: message". */
bool cursor_fail(struct cursor *cursor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool cursor_refuse(struct cursor *cursor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

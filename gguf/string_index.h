/* Hash index from a byte string to its place in an array of strings.
 *
 * Used for token strings (vocab.c) and, while loading, for the symbols of BPE merges (bpe.c). The
 * strings come from untrusted files, so the hash is keyed with random bits per index.
 *
 * Ownership: the index holds places only; the array of strings is the caller's and is given to
 * every call, so that it may be moved. */
#ifndef OUTRIDER_GGUF_STRING_INDEX_H
#define OUTRIDER_GGUF_STRING_INDEX_H

#include "gguf.h"

#define STRING_NOT_FOUND UINT32_MAX

typedef struct string_index {
    struct string_slot {
        uint32_t hash;
        uint32_t place; /* STRING_NOT_FOUND for an empty slot */
    } * slots;
    size_t mask;
    uint64_t key[2];
} string_index;

/* Room for n strings. False when memory runs out; string_index_free may be called in any case on
 * an index that was zeroed before. */
bool string_index_init(string_index *index, size_t n);
void string_index_free(string_index *index);

/* Place of the string, or STRING_NOT_FOUND. */
uint32_t string_index_find(const string_index *index, const gguf_string *strings, const char *data,
                           size_t length);
/* Enters strings[place]. An equal string entered before is replaced. */
void string_index_put(string_index *index, const gguf_string *strings, uint32_t place);

/* Mixes 64 bits with a key; the building block of the hash, also for tables keyed by numbers. */
uint64_t hash_mix(uint64_t value, const uint64_t key[2]);
void hash_new_key(uint64_t key[2]);

#endif

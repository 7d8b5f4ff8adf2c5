/* Open addressing with linear probing over a keyed hash. See string_index.h. */
#include "string_index.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void hash_new_key(uint64_t key[2])
{
    if (getentropy(key, 2 * sizeof(key[0])) != 0) {
        /* Without an entropy source only the defence against chosen collisions is weaker. */
        key[0] = (uint64_t)time(NULL) ^ (uint64_t)(uintptr_t)key;
        key[1] = (uint64_t)clock();
    }
    key[0] |= 1; /* a zero factor would erase its operand */
    key[1] |= 1;
}

uint64_t hash_mix(uint64_t value, const uint64_t key[2])
{
    /* Folded 64 x 64 -> 128 multiplication, in halves: C11 has no 128-bit type. */
    uint64_t a = value ^ key[0], b = key[1] ^ 0x9e3779b97f4a7c15u;
    uint64_t a_low = a & UINT32_MAX, a_high = a >> 32;
    uint64_t b_low = b & UINT32_MAX, b_high = b >> 32;
    uint64_t low = a_low * b_low;
    uint64_t middle = a_high * b_low + (low >> 32);
    uint64_t cross = a_low * b_high + (middle & UINT32_MAX);
    uint64_t high = a_high * b_high + (middle >> 32) + (cross >> 32);
    return (cross << 32 | (low & UINT32_MAX)) ^ high;
}

static uint32_t hash_string(const string_index *index, const char *data, size_t length)
{
    uint64_t hash = hash_mix(length, index->key);
    while (length > 0) {
        uint64_t chunk = 0;
        size_t n = length < sizeof(chunk) ? length : sizeof(chunk);
        memcpy(&chunk, data, n);
        hash = hash_mix(hash ^ chunk, index->key) + chunk;
        data += n;
        length -= n;
    }
    hash = hash_mix(hash, index->key);
    return (uint32_t)(hash ^ hash >> 32);
}

bool string_index_init(string_index *index, size_t n)
{
    if (n >= STRING_NOT_FOUND / 2)
        return false;
    size_t capacity = 16;
    while (capacity < n * 2)
        capacity *= 2;
    *index = (string_index){.slots = malloc(capacity * sizeof(index->slots[0])),
                            .mask = capacity - 1};
    if (!index->slots)
        return false;
    memset(index->slots, 0xff, capacity * sizeof(index->slots[0])); /* place STRING_NOT_FOUND */
    hash_new_key(index->key);
    return true;
}

void string_index_free(string_index *index)
{
    free(index->slots);
    *index = (string_index){0};
}

/* The slot that holds the string, or the empty one where it belongs. */
static struct string_slot *find_slot(const string_index *index, const gguf_string *strings,
                                     const char *data, size_t length, uint32_t hash)
{
    for (size_t at = hash & index->mask;; at = (at + 1) & index->mask) {
        struct string_slot *slot = &index->slots[at];
        if (slot->place == STRING_NOT_FOUND)
            return slot;
        if (slot->hash != hash)
            continue;
        const gguf_string *string = &strings[slot->place];
        if (string->length == length && (length == 0 || !memcmp(string->data, data, length)))
            return slot;
    }
}

uint32_t string_index_find(const string_index *index, const gguf_string *strings, const char *data,
                           size_t length)
{
    return find_slot(index, strings, data, length, hash_string(index, data, length))->place;
}

void string_index_put(string_index *index, const gguf_string *strings, uint32_t place)
{
    const gguf_string *string = &strings[place];
    uint32_t hash = hash_string(index, string->data, string->length);
    struct string_slot *slot = find_slot(index, strings, string->data, string->length, hash);
    *slot = (struct string_slot){hash, place};
}

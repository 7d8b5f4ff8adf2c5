/* Finds keys and tensors by name, and two of the same name.
 *
 * A sorted table instead of a hash table: names come from an untrusted file, which could be made to
 * collide in any fixed hash; here the worst case is n log n, and a table of pointers is all it
 * takes.
 *
 * Ownership: the names stay with the caller and must outlive the index. */
#ifndef OUTRIDER_GGUF_NAME_INDEX_H
#define OUTRIDER_GGUF_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf.h"

#define NAME_INDEX_NONE UINT64_MAX

struct name_entry {
    gguf_string name;
    uint64_t index; /* of the thing that has the name */
};

struct name_index {
    struct name_entry *entries;
    uint64_t count;
};

/* Allocates entries for n names, which the caller fills. False when out of memory. */
bool name_index_allocate(struct name_index *names, uint64_t n);
/* Sorts the filled entries. Returns an entry whose name the next one in the table has too (of a
 * pair of twins the one with the lower index comes first), or NULL when all names differ. */
const struct name_entry *name_index_sort(struct name_index *names);
/* Index of the thing with that name, or NAME_INDEX_NONE. */
uint64_t name_index_find(const struct name_index *names, const char *name);
void name_index_free(struct name_index *names);

#endif

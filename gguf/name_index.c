/* Sorted table of names: see name_index.h. Called by shard.c (keys) and gguf.c (tensors). */
#include "name_index.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const gguf_string *a, const gguf_string *b)
{
    size_t shared = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->data, b->data, shared);
    if (order != 0)
        return order;
    return (a->length > b->length) - (a->length < b->length);
}

static int compare_entries(const void *left, const void *right)
{
    const struct name_entry *a = left, *b = right;
    int order = compare_names(&a->name, &b->name);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

bool name_index_allocate(struct name_index *names, uint64_t n)
{
    names->count = n;
    if (n == 0) {
        names->entries = NULL;
        return true;
    }
    names->entries = calloc((size_t)n, sizeof(names->entries[0]));
    return names->entries != NULL;
}

const struct name_entry *name_index_sort(struct name_index *names)
{
    if (names->count < 2)
        return NULL;
    qsort(names->entries, (size_t)names->count, sizeof(names->entries[0]), compare_entries);
    for (uint64_t i = 1; i < names->count; i++) {
        if (compare_names(&names->entries[i - 1].name, &names->entries[i].name) == 0)
            return &names->entries[i - 1];
    }
    return NULL;
}

uint64_t name_index_find(const struct name_index *names, const char *name)
{
    const gguf_string wanted = {name, strlen(name)};
    uint64_t low = 0, high = names->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = compare_names(&wanted, &names->entries[middle].name);
        if (order == 0)
            return names->entries[middle].index;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NAME_INDEX_NONE;
}

void name_index_free(struct name_index *names)
{
    free(names->entries);
    names->entries = NULL;
    names->count = 0;
}

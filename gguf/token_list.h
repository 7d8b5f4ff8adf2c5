/* A growing array of token ids: the output of the tokenisers. */
#ifndef OUTRIDER_GGUF_TOKEN_LIST_H
#define OUTRIDER_GGUF_TOKEN_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct token_list {
    int32_t *ids; /* malloc'ed */
    size_t n, capacity;
} token_list;

/* False when memory runs out. */
static inline bool token_list_add(token_list *list, int32_t id)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        int32_t *ids = realloc(list->ids, capacity * sizeof(ids[0]));
        if (!ids)
            return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
    return true;
}

#endif

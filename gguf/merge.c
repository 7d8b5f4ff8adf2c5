/* Merging by a heap over a linked list. See merge.h.
 *
 * A heap entry is (priority << 32 | left node). Entries are never removed when a merge makes them
 * stale; an entry counts only if its priority is still the one that its node has. A stale entry
 * that happens to equal the node's present priority is harmless: it asks for what is due anyway. */
#include "merge.h"

#include <stdlib.h>

static bool reserve(void **items, size_t *capacity, size_t n, size_t size)
{
    if (n <= *capacity)
        return true;
    size_t grown = *capacity ? *capacity + *capacity / 2 : 64;
    if (grown < n)
        grown = n;
    void *moved = grown <= SIZE_MAX / size ? realloc(*items, grown * size) : NULL;
    if (!moved)
        return false;
    *items = moved;
    *capacity = grown;
    return true;
}

bool u64_heap_push(u64_heap *heap, uint64_t value)
{
    void *items = heap->items;
    if (!reserve(&items, &heap->capacity, heap->n + 1, sizeof(heap->items[0])))
        return false;
    heap->items = items;
    size_t at = heap->n++;
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (heap->items[parent] <= value)
            break;
        heap->items[at] = heap->items[parent];
        at = parent;
    }
    heap->items[at] = value;
    return true;
}

uint64_t u64_heap_pop(u64_heap *heap)
{
    uint64_t least = heap->items[0];
    uint64_t last = heap->items[--heap->n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && heap->items[child + 1] < heap->items[child])
            child++;
        if (last <= heap->items[child])
            break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = last;
    return least;
}

void merge_list_clear(merge_list *list)
{
    list->n = 0;
    list->heap.n = 0;
}

void merge_list_free(merge_list *list)
{
    free(list->heap.items);
    free(list->nodes);
    *list = (merge_list){0};
}

bool merge_list_append(merge_list *list, uint32_t symbol, uint32_t start, uint32_t length)
{
    void *nodes = list->nodes;
    if (list->n >= MERGE_NONE ||
        !reserve(&nodes, &list->capacity, list->n + 1, sizeof(list->nodes[0])))
        return false;
    list->nodes = nodes;
    uint32_t at = (uint32_t)list->n++;
    if (at > 0)
        list->nodes[at - 1].next = at;
    list->nodes[at] = (merge_node){
        .symbol = symbol,
        .start = start,
        .length = length,
        .previous = at > 0 ? at - 1 : MERGE_NONE,
        .next = MERGE_NONE,
        .priority = MERGE_NONE,
        .result = MERGE_NONE,
    };
    return true;
}

/* Looks the pair that begins at the node up, and enters it if it can merge. */
static bool enter_pair(merge_list *list, uint32_t at, merge_priority_fn priority,
                       const void *context)
{
    merge_node *left = &list->nodes[at];
    left->priority = MERGE_NONE;
    if (left->next == MERGE_NONE)
        return true;
    left->priority = priority(context, left, &list->nodes[left->next], &left->result);
    if (left->priority == MERGE_NONE)
        return true;
    return u64_heap_push(&list->heap, (uint64_t)left->priority << 32 | at);
}

bool merge_list_run(merge_list *list, merge_priority_fn priority, const void *context)
{
    for (size_t i = 0; i < list->n; i++) {
        if (!enter_pair(list, (uint32_t)i, priority, context))
            return false;
    }
    while (list->heap.n > 0) {
        uint64_t entry = u64_heap_pop(&list->heap);
        uint32_t at = (uint32_t)entry;
        merge_node *left = &list->nodes[at];
        if (left->priority != entry >> 32)
            continue;
        merge_node *right = &list->nodes[left->next];
        left->symbol = left->result;
        left->length += right->length;
        left->next = right->next;
        right->priority = MERGE_NONE; /* its entries are void */
        if (left->next != MERGE_NONE)
            list->nodes[left->next].previous = at;
        if (!enter_pair(list, at, priority, context))
            return false;
        if (left->previous != MERGE_NONE && !enter_pair(list, left->previous, priority, context))
            return false;
    }
    return true;
}

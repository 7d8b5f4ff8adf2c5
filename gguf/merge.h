/* The loop that BPE and SPM share: keep merging the adjacent pair of least priority value, the
 * leftmost of equals. O(n log n) for n symbols, however long the piece is.
 *
 * Used by bpe.c and spm.c, which say what a pair's priority is; special.c uses the heap alone. */
#ifndef OUTRIDER_GGUF_MERGE_H
#define OUTRIDER_GGUF_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A binary heap of numbers, the least first. Zeroed is empty; free with free(items). */
typedef struct u64_heap {
    uint64_t *items;
    size_t n, capacity;
} u64_heap;

bool u64_heap_push(u64_heap *heap, uint64_t value); /* false when memory runs out */
uint64_t u64_heap_pop(u64_heap *heap);              /* the heap is not empty */

#define MERGE_NONE UINT32_MAX /* no such node; no such symbol; a pair that never merges */

typedef struct merge_node {
    uint32_t symbol;        /* meaning is the caller's */
    uint32_t start, length; /* bytes of the piece */
    uint32_t previous, next;
    uint32_t priority; /* of merging with next, and the symbol that this gives */
    uint32_t result;
} merge_node;

/* Scratch memory, reused from piece to piece. Zeroed is empty. */
typedef struct merge_list {
    merge_node *nodes;
    size_t n, capacity;
    u64_heap heap;
} merge_list;

/* Sets *result and returns the priority of merging two neighbours, or returns MERGE_NONE. */
typedef uint32_t (*merge_priority_fn)(const void *context, const merge_node *left,
                                      const merge_node *right, uint32_t *result);

void merge_list_clear(merge_list *list); /* keeps the memory */
void merge_list_free(merge_list *list);
bool merge_list_append(merge_list *list, uint32_t symbol, uint32_t start, uint32_t length);

/* Merges until nothing is left to merge. The remaining nodes are 0 and what follows it by `next`,
 * up to MERGE_NONE. False when memory runs out. */
bool merge_list_run(merge_list *list, merge_priority_fn priority, const void *context);

#endif

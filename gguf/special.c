/* Special-token search: a sorted table walked byte by byte, and a heap for the order of precedence.
 * See special.h.
 *
 * Only the longest token at each place is entered in the heap; when that turns out to reach into a
 * place that is taken already, it is entered again with the longest one that fits. So the cost is
 * that of the places where a token stands, not of tokens times text. */
#include "special.h"

#include <stdlib.h>
#include <string.h>

#include "merge.h"

static int compare_tokens(const void *a, const void *b)
{
    const special_token *left = a, *right = b;
    size_t shared = left->text.length < right->text.length ? left->text.length : right->text.length;
    int order = memcmp(left->text.data, right->text.data, shared);
    if (order != 0)
        return order;
    if (left->text.length != right->text.length)
        return left->text.length < right->text.length ? -1 : 1;
    return left->id < right->id ? 1 : left->id > right->id ? -1 : 0;
}

static bool same_text(const special_token *a, const special_token *b)
{
    return a->text.length == b->text.length &&
           memcmp(a->text.data, b->text.data, a->text.length) == 0;
}

void special_set_build(special_set *set, special_token *tokens, uint32_t n)
{
    *set = (special_set){.tokens = tokens};
    if (n > 0)
        qsort(tokens, n, sizeof(tokens[0]), compare_tokens);
    for (uint32_t i = 0; i < n; i++) {
        if (set->n > 0 && same_text(&tokens[set->n - 1], &tokens[i]))
            continue;
        tokens[set->n++] = tokens[i];
    }
    uint32_t at = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        set->first[byte] = at;
        while (at < set->n && (uint8_t)tokens[at].text.data[0] == byte)
            at++;
    }
    set->first[256] = at;
}

void special_set_free(special_set *set)
{
    free(set->tokens);
    *set = (special_set){0};
}

/* First of the tokens low..high, which share `depth` bytes, whose next byte is at least `byte`. */
static uint32_t lower_bound(const special_set *set, uint32_t low, uint32_t high, size_t depth,
                            uint32_t byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const gguf_string *text = &set->tokens[middle].text;
        if (text->length > depth && (uint8_t)text->data[depth] >= byte)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The longest token that the n bytes begin with, or NULL. */
static const special_token *longest_match(const special_set *set, const char *text, size_t n)
{
    const special_token *best = NULL;
    uint32_t low = set->first[(uint8_t)text[0]];
    uint32_t high = set->first[(uint8_t)text[0] + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (set->tokens[low].text.length == depth)
            best = &set->tokens[low++]; /* the others are longer */
        if (depth == n || low == high)
            break;
        uint32_t byte = (uint8_t)text[depth];
        if ((uint8_t)set->tokens[low].text.data[depth] != byte)
            low = lower_bound(set, low, high, depth, byte);
        if (low < high && (uint8_t)set->tokens[high - 1].text.data[depth] != byte)
            high = lower_bound(set, low, high, depth, byte + 1);
    }
    return best;
}

static bool enter(u64_heap *heap, const special_set *set, const char *text, size_t start,
                  size_t limit)
{
    const special_token *token = longest_match(set, text + start, limit);
    if (!token)
        return true;
    return u64_heap_push(heap, (uint64_t)(UINT32_MAX - token->text.length) << 32 | start);
}

/* Marks the places of the hits in `taken` (one byte per byte of text: 1 at the start of a hit, 2
 * inside) and counts them. False when memory runs out. */
static bool mark_hits(u64_heap *heap, const special_set *set, const char *text, uint8_t *taken,
                      size_t *n_hits)
{
    while (heap->n > 0) {
        uint64_t entry = u64_heap_pop(heap);
        size_t start = (uint32_t)entry;
        size_t length = UINT32_MAX - (entry >> 32);
        if (taken[start])
            continue;
        const uint8_t *obstacle = memchr(taken + start, 1, length);
        if (obstacle) {
            if (!enter(heap, set, text, start, (size_t)(obstacle - taken) - start))
                return false;
            continue;
        }
        memset(taken + start, 2, length);
        taken[start] = 1;
        ++*n_hits;
    }
    return true;
}

bool special_find(const special_set *set, const char *text, size_t n_bytes, special_hit **hits,
                  size_t *n_hits)
{
    bool ok = false;
    u64_heap heap = {0};
    uint8_t *taken = NULL;
    *hits = NULL;
    *n_hits = 0;
    if (set->n == 0)
        return true;

    for (size_t start = 0; start < n_bytes; start++) {
        const uint32_t *first = &set->first[(uint8_t)text[start]];
        if (first[0] < first[1] && !enter(&heap, set, text, start, n_bytes - start))
            goto done;
    }
    if (heap.n == 0) {
        ok = true;
        goto done;
    }
    taken = calloc(n_bytes, 1);
    if (!taken || !mark_hits(&heap, set, text, taken, n_hits))
        goto done;
    *hits = malloc(*n_hits * sizeof((*hits)[0]));
    if (!*hits)
        goto done;
    size_t n = 0;
    for (size_t at = 0; at < n_bytes;) {
        if (taken[at] != 1) {
            at++;
            continue;
        }
        size_t end = at + 1;
        while (end < n_bytes && taken[end] == 2)
            end++;
        const special_token *token = longest_match(set, text + at, end - at);
        (*hits)[n++] = (special_hit){(uint32_t)at, (uint32_t)(end - at), token->id};
        at = end;
    }
    ok = true;
done:
    free(taken);
    free(heap.items);
    if (!ok)
        *n_hits = 0;
    return ok;
}

/* Finds special tokens (control and user-defined) written in a text.
 *
 * Longer tokens come first wherever they stand, then tokens further left: the text is cut at every
 * occurrence of the longest token, what remains at those of the next longest, and so on. Used by
 * tokenizer.c; the sets are built by vocab.c.
 *
 * Ownership: a set points into the vocabulary's token strings. */
#ifndef OUTRIDER_GGUF_SPECIAL_H
#define OUTRIDER_GGUF_SPECIAL_H

#include "gguf.h"

/* A search costs at most the text times this: longer tokens are refused. The longest of real
 * vocabularies have some 100 bytes. */
#define SPECIAL_MAX_BYTES 512

typedef struct special_token {
    gguf_string text; /* 1 to SPECIAL_MAX_BYTES bytes */
    uint32_t id;
} special_token;

/* Sorted by text; first[b]..first[b + 1] are the tokens that begin with byte b. */
typedef struct special_set {
    special_token *tokens;
    uint32_t n;
    uint32_t first[257];
} special_set;

typedef struct special_hit {
    uint32_t start, length; /* bytes of the text */
    uint32_t id;
} special_hit;

/* Takes the array over (malloc'ed), sorts it, and drops equal texts but the one of the highest id.
 */
void special_set_build(special_set *set, special_token *tokens, uint32_t n);
void special_set_free(special_set *set);

/* Occurrences that do not overlap, from left to right; n_bytes < 2^32. *hits is malloc'ed, NULL
 * when there are none. False when memory runs out. */
bool special_find(const special_set *set, const char *text, size_t n_bytes, special_hit **hits,
                  size_t *n_hits);

#endif

/* The n-gram drafter: proposes what followed the longest earlier occurrence of the text's end. No
 * model, no Vulkan; fed by generate.c and by the simulator. */
#ifndef OUTRIDER_NGRAM_H
#define OUTRIDER_NGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define NGRAM_MIN 2        /* one token alone says little about the next */
#define NGRAM_MAX 6        /* lengths above are seen by comparing backwards */
#define NGRAM_MAX_MATCH 32 /* longest match that is told */
#define NGRAM_MAX_DRAFT 16

#define NGRAM_LEVELS (NGRAM_MAX - NGRAM_MIN + 1)

typedef struct ngram {
    int32_t *tokens; /* [capacity]: prompt and output */
    uint32_t n_tokens, capacity;
    /* Of each length: the newest position (+ 1) where an n-gram ends, by its hash; 0: free. */
    uint32_t *slots[NGRAM_LEVELS];
    uint32_t n_slots; /* a power of two, at least twice the capacity */
    /* Of each length and position: where (+ 1) the n-gram that ends here ended before; 0: nowhere. */
    uint32_t *earlier[NGRAM_LEVELS];
    uint64_t n_steps; /* slots looked at and tokens compared: the work done */
} ngram;

/* All the memory for `capacity` tokens is taken here: 84 to 164 bytes a token. False when there is
 * none. */
bool ngram_init(ngram *g, uint32_t capacity);
void ngram_free(ngram *g);

/* False when the capacity is used up. */
bool ngram_append(ngram *g, int32_t token);
/* Forgets all tokens from position n_tokens on. */
void ngram_rewind(ngram *g, uint32_t n_tokens);

/* Writes up to `most` (at most NGRAM_MAX_DRAFT) proposed tokens and returns their number: 0 when
 * the end of the text never occurred before. *match is the length of the match,
 * NGRAM_MIN..NGRAM_MAX_MATCH: the measure of confidence. The newest of the longest matches (up to
 * NGRAM_MAX) counts. */
uint32_t ngram_draft(ngram *g, uint32_t most, int32_t *out, uint32_t *match);

#endif

/* Cuts a text into the pieces that byte-level BPE merges within: the pre-split patterns.
 *
 * A rule is one row of the table in pretokenize.c, found by the file's tokenizer.ggml.pre. Used by
 * vocab.c (which rule) and bpe.c (splitting).
 *
 * Threads: a pretokenizer is immutable once made. */
#ifndef OUTRIDER_GGUF_PRETOKENIZE_H
#define OUTRIDER_GGUF_PRETOKENIZE_H

#include "gguf.h"

#define SPLIT_MAX_STAGES 6

typedef struct split_rule {
    const char *name;   /* as in tokenizer.ggml.pre */
    bool ignore_merges; /* a piece that is a token as a whole is not merged */
    bool adds_bos;      /* unless tokenizer.ggml.add_bos_token says otherwise */
    /* Regular expressions, NULL after the last. Each stage cuts every piece of the stage before it
     * into its matches and what lies between them. */
    const char *stages[SPLIT_MAX_STAGES + 1];
} split_rule;

/* NULL when there is no such rule. */
const split_rule *split_rule_find(const char *name, size_t length);

typedef struct pretokenizer pretokenizer;

bool pretokenizer_create(const split_rule *rule, pretokenizer **out, gguf_error *error);
void pretokenizer_free(pretokenizer **splitter); /* sets it to NULL; NULL inside is allowed */

/* Pieces of a text by their ends: piece i is ends[i - 1] (0 for the first) .. ends[i]. */
typedef struct piece_list {
    uint32_t *ends;
    size_t n, capacity;
} piece_list;

/* Splits valid UTF-8 of less than 2^32 bytes. On success the caller frees pieces->ends. */
bool pretokenizer_split(const pretokenizer *splitter, const char *text, size_t n_bytes,
                        piece_list *pieces, gguf_error *error);

#endif

/* Byte-level BPE (tokenizer.ggml.model = gpt2): the byte alphabet, the merge table, tokenising.
 *
 * Used by vocab.c (loading) and tokenizer.c. */
#ifndef OUTRIDER_GGUF_BPE_H
#define OUTRIDER_GGUF_BPE_H

#include "merge.h"
#include "token_list.h"
#include "vocab.h"

typedef struct bpe_merges bpe_merges;

/* Reads tokenizer.ggml.merges; the vocabulary's tokens and their index are there already. */
bool bpe_merges_load(const gguf_file *file, const vocab *vocab, bpe_merges **out,
                     gguf_error *error);
void bpe_merges_free(bpe_merges **merges); /* sets it to NULL; NULL inside is allowed */

/* Appends the ids of a text that holds no special tokens. Valid UTF-8, at most 2^30 bytes. */
bool bpe_tokenize(const vocab *vocab, const char *text, size_t n_bytes, merge_list *scratch,
                  token_list *out, gguf_error *error);

/* GPT-2's alphabet: every byte has a printable character of its own. Writes it as UTF-8, 1 or 2
 * bytes; returns how many. */
uint32_t byte_to_letter(uint8_t byte, char out[2]);
/* The byte that a code point stands for, or -1. */
int letter_to_byte(uint32_t codepoint);

#endif

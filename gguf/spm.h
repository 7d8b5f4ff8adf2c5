/* SentencePiece-style tokenising by scores (tokenizer.ggml.model = llama). Used by tokenizer.c. */
#ifndef OUTRIDER_GGUF_SPM_H
#define OUTRIDER_GGUF_SPM_H

#include "merge.h"
#include "token_list.h"
#include "vocab.h"

/* U+2581, which stands for a blank in token strings. */
#define SPM_BLANK "\xe2\x96\x81"

/* Appends the ids of a text that holds no special tokens and stands at the beginning or after one:
 * where the vocabulary asks for a blank in front. Valid UTF-8, at most 2^30 bytes. */
bool spm_tokenize(const vocab *vocab, const char *text, size_t n_bytes, merge_list *scratch,
                  token_list *out, gguf_error *error);

#endif

/* SentencePiece-style tokenising by scores (tokenizer.ggml.model = llama). Used by tokenizer.c. */
#ifndef OUTRIDER_GGUF_SPM_H
#define OUTRIDER_GGUF_SPM_H

#include "merge.h"
#include "token_list.h"
#include "vocab.h"

/* U+2581, which stands for a blank in token strings. */
#define SPM_BLANK "\xe2\x96\x81"

/* Appends the ids of a text that holds no special tokens. Valid UTF-8, less than 2^30 bytes.
 * after_special: the text begins the whole, or follows a special token, and so takes the blank that
 * the vocabulary may ask for. */
bool spm_tokenize(const vocab *vocab, const char *text, size_t n_bytes, bool after_special,
                  merge_list *scratch, token_list *out, gguf_error *error);

#endif

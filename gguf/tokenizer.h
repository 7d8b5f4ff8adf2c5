/* Text to token ids and back. The tokenisers' own rules: bpe.c, spm.c, pretokenize.c. */
#ifndef OUTRIDER_GGUF_TOKENIZER_H
#define OUTRIDER_GGUF_TOKENIZER_H

#include "vocab.h"

enum tokenize_flags {
    TOKENIZE_PARSE_SPECIAL = 1, /* control tokens written in the text become their ids */
    TOKENIZE_ADD_BOS = 2,       /* BOS first, if the vocabulary asks for it (vocab_adds_bos) */
};

/* Tokenises n_bytes of UTF-8 (NUL bytes allowed). Invalid UTF-8 is an error that names the offset.
 * *ids is allocated with malloc, the caller frees it; it may be NULL when *n_ids is 0. */
bool tokenize(const vocab *vocab, const char *text, size_t n_bytes, unsigned flags, int32_t **ids,
              size_t *n_ids, gguf_error *error);

/* Streaming detokeniser: gives only whole UTF-8 characters; holds back an incomplete tail. */
typedef struct detokenizer {
    const vocab *vocab;
    bool skip_special; /* control tokens give no text */
    bool at_start;     /* SPM: the first token's leading blank is dropped */
    uint8_t held[8];   /* bytes of an incomplete character */
    uint32_t n_held;
} detokenizer;

/* at_start: true when the stream begins a text (not the continuation of a prompt). */
void detokenizer_init(detokenizer *d, const vocab *vocab, bool at_start, bool skip_special);
/* Appends the text that this token completes to *text (malloc'ed, grown with realloc, always
 * NUL-terminated, *n its length, *capacity its size; start from NULL, 0, 0). Bytes that can never
 * become valid UTF-8 are replaced by U+FFFD. False only when memory runs out. */
bool detokenizer_push(detokenizer *d, uint32_t id, char **text, size_t *n, size_t *capacity);
/* End of the stream: held bytes come out as U+FFFD. */
bool detokenizer_finish(detokenizer *d, char **text, size_t *n, size_t *capacity);

#endif

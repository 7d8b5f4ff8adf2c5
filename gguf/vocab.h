/* Vocabulary of a GGUF file: token strings, types, special ids; the base of the tokenisers.
 *
 * Ownership: a vocab copies what it needs; the gguf_file may be closed after vocab_load.
 * Threads: immutable after vocab_load. */
#ifndef OUTRIDER_GGUF_VOCAB_H
#define OUTRIDER_GGUF_VOCAB_H

#include "gguf.h"

enum vocab_model {
    VOCAB_BPE, /* tokenizer.ggml.model = gpt2 */
    VOCAB_SPM, /* tokenizer.ggml.model = llama */
};

enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

typedef struct vocab vocab;

/* Reads tokenizer.ggml.*; refuses an unknown tokeniser model or pre-split pattern by name. */
bool vocab_load(const gguf_file *file, vocab **out, gguf_error *error);
/* Frees and sets *vocab to NULL; NULL is allowed. */
void vocab_free(vocab **vocab);

enum vocab_model vocab_model_kind(const vocab *vocab);
const char *vocab_pre_name(const vocab *vocab); /* "" for SPM */
uint32_t vocab_size(const vocab *vocab);
/* The token's string as stored in the file (byte-level BPE still mapped, SPM with U+2581). */
gguf_string vocab_token(const vocab *vocab, uint32_t id);
enum token_type vocab_token_type(const vocab *vocab, uint32_t id);
/* Special ids; -1 when the file has none. */
int32_t vocab_bos(const vocab *vocab);
int32_t vocab_eos(const vocab *vocab);
int32_t vocab_eot(const vocab *vocab);
int32_t vocab_unknown(const vocab *vocab);
int32_t vocab_pad(const vocab *vocab);
bool vocab_adds_bos(const vocab *vocab); /* a prompt's text begins with BOS */
bool vocab_adds_eos(const vocab *vocab);
/* True for tokens that end a generation: EOS, EOT, EOM, and control tokens of well-known names such
 * as <|im_end|>, <|eot_id|>, <|endoftext|>, <end_of_turn>. */
bool vocab_is_stop(const vocab *vocab, uint32_t id);
/* Compares token strings id by id, and BOS and EOS. False and a message that names the first
 * difference when a draft with `draft` could not propose for `target`. */
bool vocab_compatible(const vocab *target, const vocab *draft, gguf_error *error);

#endif

/* What a vocabulary holds. Private to gguf/: filled by vocab.c, read by tokenizer.c, bpe.c, spm.c.
 *
 * Ownership: everything here belongs to the vocab; token strings lie in `text`. */
#ifndef OUTRIDER_GGUF_VOCAB_DATA_H
#define OUTRIDER_GGUF_VOCAB_DATA_H

#include "bpe.h"
#include "pretokenize.h"
#include "special.h"
#include "string_index.h"
#include "vocab.h"

struct vocab {
    enum vocab_model model;
    uint32_t n_tokens;
    char *text;
    gguf_string *tokens;
    uint8_t *types;     /* enum token_type */
    bool *stops;        /* the token ends a generation */
    size_t longest;     /* bytes of the longest token */
    string_index index; /* token string to id; of equal strings the last, as llama.cpp has it */

    int32_t bos, eos, eot, unknown, pad; /* -1: none */
    bool adds_bos, adds_eos;

    special_set user_defined; /* found in every text */
    special_set specials;     /* these and control tokens: found with TOKENIZE_PARSE_SPECIAL */

    /* Byte-level BPE */
    const split_rule *rule;
    pretokenizer *splitter;
    bpe_merges *merges;

    /* SPM */
    float *scores;
    int32_t byte_ids[256]; /* of the tokens <0x00>..<0xFF>; -1: none */
    bool adds_space_prefix;
};

#endif

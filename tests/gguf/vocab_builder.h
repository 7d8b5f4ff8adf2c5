/* Makes vocabulary-only GGUF files, good and bad ones, for the tests and the fuzzer of tokenisers.
 *
 * Append keys in any order, then load. Zeroed is empty; builder_free afterwards. */
#ifndef OUTRIDER_TESTS_VOCAB_BUILDER_H
#define OUTRIDER_TESTS_VOCAB_BUILDER_H

#include "build_gguf.h"
#include "vocab.h"

typedef struct vocab_builder {
    struct builder keys;
    uint64_t n_keys;
} vocab_builder;

void builder_string(vocab_builder *builder, const char *key, const char *value, size_t length);
void builder_u32(vocab_builder *builder, const char *key, uint32_t value);
void builder_bool(vocab_builder *builder, const char *key, bool value);
void builder_strings(vocab_builder *builder, const char *key, const gguf_string *values, size_t n);
void builder_i32s(vocab_builder *builder, const char *key, const int32_t *values, size_t n);
void builder_f32s(vocab_builder *builder, const char *key, const float *values, size_t n);
void builder_free(vocab_builder *builder);

/* Writes the file (in memory) and opens it. Aborts when that fails. */
gguf_file *builder_open(const vocab_builder *builder);
/* The same, and loads the vocabulary from it. */
bool builder_load(const vocab_builder *builder, vocab **out, gguf_error *error);

/* Opens a file and loads its vocabulary. */
bool load_vocab_file(const char *path, vocab **out, gguf_error *error);

#endif

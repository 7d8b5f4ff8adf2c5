/* Whole models for tests: a context with validation on, the models of the source tree, sessions,
 * and generations as lists of token ids. Failures end the Check test at once. */
#ifndef OUTRIDER_TEST_MODELS_H
#define OUTRIDER_TEST_MODELS_H

#include "outrider/outrider.h"

/* Paths below the source tree, whose root is the environment's OUTRIDER_SOURCE_ROOT (set by meson).
 */
#define MODEL_TARGET "apps/models/outrider-demo-target.gguf"
#define MODEL_DRAFT "apps/models/outrider-demo-draft.gguf"
#define MODEL_RANDOM_DRAFT "tests/data/models/random-draft.gguf"
#define MODEL_STORIES "tests/data/models/stories260K-f32.gguf"

const char *source_path(const char *below);
/* Validation and synchronisation validation are on, unless without_layers; messages are printed. */
otr_context *open_context(void);
extern bool without_layers;
/* Fails the test when validation had something to say. */
void close_context(otr_context **context);
otr_model *load_model(otr_context *context, const char *path_below);
/* device, separate: as in otr_model_params. */
otr_model *load_model_on(otr_context *context, const char *path_below, const char *device,
                         bool separate);
otr_session *open_session(otr_model *target, otr_model *draft, uint32_t n_ctx);
/* SwiftShader: ten times slower than lavapipe. */
bool device_is_slow(otr_context *context);

/* Rewinds the session, appends the prompt and generates; returns the number of tokens in ids. */
size_t generate_ids(otr_session *session, const int32_t *prompt, size_t n_prompt,
                    const otr_generate_params *params, int32_t *ids, size_t capacity,
                    otr_stats *stats);
/* Rows of logits as they come: kept, or compared bit by bit with another table. `values` is to be
 * freed. */
typedef struct logits_table {
    float *values; /* [rows][n_vocab] */
    size_t n_rows;
    const struct logits_table *expected; /* NULL: this is the first */
} logits_table;
/* An otr_logits_callback; user is the table. Fails the test where a row differs. */
bool keep_or_compare(size_t row, const float *logits, uint32_t n_vocab, void *user);
/* A small deterministic random generator for test cases. */
uint32_t next_random(uint64_t *state);

#endif

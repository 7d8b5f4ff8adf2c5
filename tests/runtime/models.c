/* Shared set-up of the tests with whole models. */
#include "models.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *source_path(const char *below)
{
    static char path[4][1024];
    static unsigned next;
    const char *root = getenv("OUTRIDER_SOURCE_ROOT");
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", root ? root : ".", below);
    return out;
}

static void print_log(otr_log_level level, const char *message, void *user)
{
    (void)user;
    fprintf(stderr, "log %d: %s\n", (int)level, message);
}

bool without_layers;

otr_context *open_context(void)
{
    otr_context_params params = otr_context_params_default();
    otr_context *context = NULL;
    params.validation = !without_layers &&
                        !getenv("OUTRIDER_VULKAN_LOADER"); /* the mock has none */
    params.log = print_log;
    params.log_level = OTR_LOG_WARNING;
    ck_assert_int_eq(otr_context_create(&params, &context), OTR_OK);
    return context;
}

void close_context(otr_context **context)
{
    ck_assert_uint_eq(otr_validation_message_count(*context), 0);
    otr_context_destroy(context);
}

otr_model *load_model(otr_context *context, const char *path_below)
{
    return load_model_on(context, path_below, NULL, false);
}

otr_model *load_model_on(otr_context *context, const char *path_below, const char *device,
                         bool separate)
{
    otr_model_params params = otr_model_params_default();
    otr_model *model = NULL;
    params.path = source_path(path_below);
    params.device = device;
    params.separate_device = separate;
    ck_assert_int_eq(otr_model_load(context, &params, &model), OTR_OK);
    return model;
}

otr_session *open_session(otr_model *target, otr_model *draft, uint32_t n_ctx)
{
    otr_session_params params = otr_session_params_default();
    otr_session *session = NULL;
    params.n_ctx = n_ctx;
    ck_assert_int_eq(otr_session_create(target, draft, &params, &session), OTR_OK);
    return session;
}

bool device_is_slow(otr_context *context)
{
    otr_device_info info = {.size = sizeof info};
    uint32_t index;
    ck_assert_int_eq(otr_device_find(context, NULL, &index), OTR_OK);
    ck_assert_int_eq(otr_device_describe(context, index, &info), OTR_OK);
    const char *debug = getenv("OUTRIDER_DEBUG"); /* the kernels of GPUs are slow on all of them */
    return strstr(info.name, "SwiftShader") != NULL || (debug && strstr(debug, "gpu"));
}

size_t generate_ids(otr_session *session, const int32_t *prompt, size_t n_prompt,
                    const otr_generate_params *params, int32_t *ids, size_t capacity,
                    otr_stats *stats)
{
    size_t n_tokens;
    otr_stats unused = {.size = sizeof unused};
    ck_assert_int_eq(otr_session_rewind(session, 0), OTR_OK);
    ck_assert_int_eq(otr_session_append(session, prompt, n_prompt, NULL, NULL), OTR_OK);
    ck_assert_int_eq(otr_generate(session, params, NULL, NULL, stats ? stats : &unused), OTR_OK);
    const int32_t *tokens = otr_session_tokens(session, &n_tokens);
    ck_assert_uint_ge(n_tokens, n_prompt);
    ck_assert_uint_le(n_tokens - n_prompt, capacity);
    memcpy(ids, tokens + n_prompt, (n_tokens - n_prompt) * sizeof *ids);
    return n_tokens - n_prompt;
}

uint32_t next_random(uint64_t *state)
{
    /* SplitMix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

bool keep_or_compare(size_t row, const float *logits, uint32_t n_vocab, void *user)
{
    logits_table *t = user;
    size_t n_bytes = n_vocab * sizeof *logits;
    ck_assert_uint_eq(row, t->n_rows);
    if (t->expected) {
        if (memcmp(t->expected->values + row * n_vocab, logits, n_bytes) != 0)
            ck_abort_msg("row %zu differs", row);
    } else {
        t->values = realloc(t->values, (row + 1) * n_bytes);
        ck_assert_ptr_nonnull(t->values);
        memcpy(t->values + row * n_vocab, logits, n_bytes);
    }
    t->n_rows++;
    return true;
}

/* The smallest useful program: writes text with a target and a draft model.
 *   cc example.c $(pkg-config --cflags --libs outrider)
 *   ./a.out target.gguf draft.gguf "Once upon a time" */
#include <outrider/outrider.h>

#include <stdio.h>
#include <string.h>

static void print_log(otr_log_level level, const char *message, void *user)
{
    fprintf(stderr, "%s\n", message);
}

static bool print_text(const char *text, size_t n_bytes, void *user)
{
    return fwrite(text, 1, n_bytes, stdout) == n_bytes && fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    otr_context_params context_params = otr_context_params_default();
    otr_session_params session_params = otr_session_params_default();
    otr_generate_params generate_params = otr_generate_params_default();
    otr_context *context = NULL;
    otr_model *models[2] = {NULL, NULL}; /* target, draft */
    otr_session *session = NULL;
    otr_stats stats = {.size = sizeof stats};
    int32_t ids[512];
    size_t n_ids = 0;

    if (argc != 4)
        return fprintf(stderr, "usage: %s TARGET.gguf DRAFT.gguf PROMPT\n", argv[0]), 2;
    context_params.log = print_log;
    context_params.log_level = OTR_LOG_WARNING;
    otr_result result = otr_context_create(&context_params, &context);
    for (int i = 0; i < 2 && result == OTR_OK; i++) {
        otr_model_params params = otr_model_params_default();
        params.path = argv[1 + i];
        result = otr_model_load(context, &params, &models[i]);
    }
    if (result == OTR_OK)
        result = otr_session_create(models[0], models[1], &session_params, &session);
    if (result == OTR_OK)
        result = otr_tokenize(models[0], argv[3], strlen(argv[3]), false, true, ids, 512, &n_ids);
    if (result == OTR_OK)
        result = otr_session_append(session, ids, n_ids < 512 ? n_ids : 512, NULL, NULL);
    generate_params.max_tokens = 100;
    if (result == OTR_OK)
        result = otr_generate(session, &generate_params, print_text, NULL, &stats);
    if (result == OTR_OK) /* a speed-up of 0 means that the run was too short to measure it */
        printf("\n%.1f tokens/s, speed-up %.2f\n", stats.tokens_per_second, stats.speedup);
    otr_session_destroy(&session);
    otr_model_destroy(&models[1]);
    otr_model_destroy(&models[0]);
    otr_context_destroy(&context);
    return result != OTR_OK;
}

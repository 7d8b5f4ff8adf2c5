/* Context and models of one command: see engine.h. */
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demo.h"
#include "progress.h"
#include "report_file.h"

static int find_paths(engine *e, const engine_params *params)
{
    int code = EXIT_CODE_OK;

    e->target_path = params->model ? strdup(params->model) : demo_path(DEMO_TARGET, &code);
    if (!e->target_path)
        return code ? code : fail_memory();
    if (params->draft)
        e->draft_path = strdup(params->draft);
    else if (!params->model && params->with_demo_draft)
        e->draft_path = demo_path(DEMO_DRAFT, &code);
    else
        return EXIT_CODE_OK;
    if (!e->draft_path)
        return code ? code : fail_memory();
    return EXIT_CODE_OK;
}

static int load(engine *e, const char *path, const char *device, bool separate, otr_model **model)
{
    otr_model_params params = otr_model_params_default();
    const char *slash = strrchr(path, '/');
    char label[256];
    progress shown;
    otr_result result;

    snprintf(label, sizeof(label), "loading %s", slash ? slash + 1 : path);
    shown = progress_begin(label, !e->quiet && progress_wanted());
    params.path = path;
    params.device = device;
    params.separate_device = separate;
    params.on_progress = progress_update;
    params.progress_user = &shown;
    result = otr_model_load(e->context, &params, model);
    progress_end(&shown);
    return result == OTR_OK ? EXIT_CODE_OK : fail_result(&e->log, e->context, result);
}

static int load_draft(engine *e, const char *selector)
{
    /* By number: a part of a name may fit several devices. */
    uint32_t index = e->target_info.device_index;
    char device[16];
    otr_result result = OTR_OK;

    if (selector)
        result = otr_device_find(e->context, selector, &index);
    e->draft_device.size = sizeof(e->draft_device);
    if (result == OTR_OK)
        result = otr_device_describe(e->context, index, &e->draft_device);
    if (result != OTR_OK)
        return fail_result(&e->log, e->context, result);
    snprintf(device, sizeof(device), "%" PRIu32, index);
    return load(e, e->draft_path, device, selector && index == e->target_info.device_index,
                &e->draft);
}

int engine_open(engine *e, const engine_params *params)
{
    otr_context_params context_params;
    otr_result result;
    int code;

    memset(e, 0, sizeof(*e));
    log_sink_init(&e->log, params->quiet);
    e->quiet = params->quiet;
    code = find_paths(e, params);
    if (code)
        return code;
    context_params = log_sink_context_params(&e->log, params->validation);
    if (params->verbose)
        context_params.log_level = OTR_LOG_DEBUG;
    result = otr_context_create(&context_params, &e->context);
    if (result != OTR_OK)
        return fail_result(&e->log, NULL, result);
    code = load(e, e->target_path, params->device, false, &e->target);
    if (code)
        return code;
    e->target_info.size = sizeof(e->target_info);
    e->device.size = sizeof(e->device);
    result = otr_model_describe(e->target, &e->target_info);
    if (result == OTR_OK)
        result = otr_device_describe(e->context, e->target_info.device_index, &e->device);
    if (result != OTR_OK)
        return fail_result(&e->log, e->context, result);
    return e->draft_path ? load_draft(e, params->draft_device) : EXIT_CODE_OK;
}

/* The path is of no part of a split model, "NAME-00001-of-00003.gguf". */
static int check_parts(const char *path, const char *model)
{
    static const char form[] = "-%05u-of-%05u.gguf";
    size_t n = strlen(model), n_suffix = strlen("-00001-of-00003.gguf");
    unsigned part, count;
    char suffix[64];
    int code = EXIT_CODE_OK;

    if (n < n_suffix || sscanf(model + n - n_suffix, "-%5u-of-%5u.gguf", &part, &count) != 2)
        return EXIT_CODE_OK;
    snprintf(suffix, sizeof(suffix), form, part, count);
    if (strcmp(suffix, model + n - n_suffix) != 0)
        return EXIT_CODE_OK;
    for (part = 1; part <= count && !code; part++) {
        char *other = strdup(model);
        bool is_there;

        if (!other)
            return fail_memory();
        snprintf(suffix, sizeof(suffix), form, part, count);
        memcpy(other + n - n_suffix, suffix, n_suffix);
        is_there = access(other, F_OK) == 0;
        code = report_file_check_apart(path, (const char *const *)&other, 1);
        free(other);
        if (!is_there) /* the model can't be loaded */
            break;
    }
    return code;
}

int engine_check_output(const engine_params *params, const char *path)
{
    engine e = {0};
    int code;

    if (!path || strcmp(path, "-") == 0)
        return EXIT_CODE_OK;
    code = find_paths(&e, params);
    if (!code) {
        const char *const models[] = {e.target_path, e.draft_path};

        code = report_file_check_apart(path, models, 2);
        for (size_t i = 0; i < 2 && !code; i++)
            code = models[i] ? check_parts(path, models[i]) : EXIT_CODE_OK;
    }
    free(e.target_path);
    free(e.draft_path);
    return code;
}

int engine_close(engine *e, int code)
{
    otr_model_destroy(&e->draft);
    otr_model_destroy(&e->target);
    otr_context_destroy(&e->context);
    free(e->target_path);
    free(e->draft_path);
    return log_sink_close(&e->log, code);
}

otr_result engine_find_device(const otr_context_params *params, const char *selector,
                              otr_context **context, otr_device_info *info)
{
    uint32_t index = 0;
    otr_result result = otr_context_create(params, context);

    info->size = sizeof(*info);
    if (result == OTR_OK)
        result = otr_device_find(*context, selector, &index);
    if (result == OTR_OK)
        result = otr_device_describe(*context, index, info);
    return result;
}

int engine_check_validation(const engine *e, int code)
{
    uint64_t n = e->context ? otr_validation_message_count(e->context) : 0;

    if (code != EXIT_CODE_OK || n == 0)
        return code;
    return fail(EXIT_CODE_FAILED, "the validation layers gave %" PRIu64 " message%s", n,
                n == 1 ? "" : "s");
}

int engine_tokenize(engine *e, const char *bytes, size_t n_bytes, int32_t **ids, size_t *n_ids)
{
    /* Hardly a text has more tokens than bytes; the second try serves the others. */
    size_t capacity = n_bytes + 8;
    otr_result result;

    *ids = NULL;
    for (int attempt = 0; attempt < 2; attempt++) {
        free(*ids);
        *ids = malloc(capacity * sizeof(**ids));
        if (!*ids)
            return fail_memory();
        result = otr_tokenize(e->target, bytes, n_bytes, true, true, *ids, capacity, n_ids);
        if (result != OTR_OK)
            return fail_result(&e->log, e->context, result);
        if (*n_ids <= capacity)
            break;
        capacity = *n_ids;
    }
    return EXIT_CODE_OK;
}

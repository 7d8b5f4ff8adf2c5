/* Overlap of the demo pair on one device: see device_overlap.h. */
#include "device_overlap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "demo.h"
#include "interrupt.h"
#include "progress.h"

#define CONTEXT_TOKENS 64

/* After a step: its error, else Ctrl-C. */
static int check_step(log_sink *log, const otr_context *context, otr_result result)
{
    if (result != OTR_OK)
        return fail_result(log, context, result);
    return interrupt_signal() ? EXIT_CODE_SIGNAL + interrupt_signal() : EXIT_CODE_OK;
}

static int load(log_sink *log, otr_context *context, const char *name, const char *device,
                bool separate, otr_model **model)
{
    otr_model_params params = otr_model_params_default();
    int code = EXIT_CODE_OK;
    char *path = demo_path(name, &code);
    progress shown = progress_begin("", false); /* only for Ctrl-C */
    otr_result result;

    if (!path)
        return code;
    params.path = path;
    params.device = device;
    params.separate_device = separate;
    params.on_progress = progress_update;
    params.progress_user = &shown;
    result = otr_model_load(context, &params, model);
    free(path);
    return check_step(log, context, result);
}

static int measure(log_sink *log, otr_context *context, uint32_t index, bool separate,
                   otr_overlap *out)
{
    otr_session_params params = otr_session_params_default();
    otr_model *target = NULL, *draft = NULL;
    otr_session *session = NULL;
    otr_result result = OTR_OK;
    char device[16];
    int code;

    snprintf(device, sizeof(device), "%" PRIu32, index);
    params.n_ctx = CONTEXT_TOKENS;
    out->size = sizeof(*out);
    code = load(log, context, DEMO_TARGET, device, false, &target);
    if (!code)
        code = load(log, context, DEMO_DRAFT, device, separate, &draft);
    if (!code)
        result = otr_session_create(target, draft, &params, &session);
    interrupt_watch(session);
    if (!code)
        code = check_step(log, context, result);
    if (!code)
        code = check_step(log, context, otr_session_measure_overlap(session, out));
    interrupt_watch(NULL);
    otr_session_destroy(&session);
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    return code;
}

int device_overlap_measure(log_sink *log, otr_context *context, uint32_t index, device_overlap *out)
{
    int code = measure(log, context, index, false, &out->shared);

    return code ? code : measure(log, context, index, true, &out->separate);
}

static void append(text *t, const char *name, const otr_overlap *o)
{
    text_printf(t, "     overlap  %.2f %s: target %.2f ms, draft %.2f ms, together %.2f ms\n",
                o->overlap, name, o->target_seconds * 1e3, o->draft_seconds * 1e3,
                o->together_seconds * 1e3);
}

void device_overlap_append(text *t, const device_overlap *o)
{
    append(t, "shared", &o->shared);
    append(t, "opened twice", &o->separate);
}

static json_t *json_of(const otr_overlap *o)
{
    return json_pack("{s:f,s:f,s:f,s:f}", "overlap", o->overlap, "target_s", o->target_seconds,
                     "draft_s", o->draft_seconds, "together_s", o->together_seconds);
}

json_t *device_overlap_json(const device_overlap *o)
{
    return json_pack("{s:o,s:o}", "shared", json_of(&o->shared), "separate", json_of(&o->separate));
}

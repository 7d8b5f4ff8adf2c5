/* Context and models of one command: opened in order, with messages and progress, closed together.
 *
 * Used by run, eval, bench, measure and tune. */
#ifndef OUTRIDER_APPS_ENGINE_H
#define OUTRIDER_APPS_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <outrider/outrider.h>

#include "message.h"

typedef struct engine_params {
    const char *model; /* NULL: the demo target */
    const char *draft; /* NULL: none, or the demo draft with the demo target if with_demo_draft */
    bool with_demo_draft;
    const char *device;       /* NULL: the default */
    const char *draft_device; /* NULL: the target's, shared; naming that one opens it anew */
    bool verbose;             /* what the library logs while it works */
    bool validation;
    bool quiet; /* no warnings, no progress */
} engine_params;

typedef struct engine {
    log_sink log;
    otr_context *context;
    otr_model *target, *draft; /* draft may be NULL */
    char *target_path, *draft_path;
    otr_model_info target_info;
    otr_device_info device, draft_device; /* draft_device: with a draft */
    bool quiet;
} engine;

/* Returns an exit code; unless it is EXIT_CODE_OK a message was printed. engine_close in any case.
 */
int engine_open(engine *e, const engine_params *params);
/* Before engine_open: refuses a path to write to that is one of the models' files (NULL and "-" are
 * none). An exit code, with a message. */
int engine_check_output(const engine_params *params, const char *path);
/* Returns `code`, or EXIT_CODE_FAILED when that was OK but closing met an error (which is printed).
 */
int engine_close(engine *e, int code);
/* For commands without a model: a context, and the device that the selector names. *context is to be
 * destroyed in any case. */
otr_result engine_find_device(const otr_context_params *params, const char *selector,
                              otr_context **context, otr_device_info *info);
/* EXIT_CODE_FAILED and a message when `code` is OK but the validation layers complained. */
int engine_check_validation(const engine *e, int code);

/* Ids of a text, BOS first if the model asks for it, control tokens parsed. *ids is to be freed. */
int engine_tokenize(engine *e, const char *bytes, size_t n_bytes, int32_t **ids, size_t *n_ids);

#endif

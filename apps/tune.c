/* `outrider tune`: measures the kernels' workgroup shapes on a device, and keeps the best. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "engine.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "text.h"

struct settings {
    const char *model, *device;
    double seconds;
    bool reset, json, quiet, validation;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"-m", "--model"}, OPTION_TEXT, AT(model), "FILE", 0, 0,
     "model whose kernels are measured, GGUF (default: the demo target)"},
    {{"-dev", "--device"}, OPTION_TEXT, AT(device), "NAME", 0, 0,
     "index, UUID or part of a name: see 'outrider devices'"},
    {{"--seconds"}, OPTION_NUMBER, AT(seconds), "N", 0, 3600,
     "time for each choice, at least (default 1)"},
    {{"--reset"}, OPTION_SET, AT(reset), NULL, 0, 0, "remove what an earlier tune stored"},
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0, "print one JSON object"},
    {{"-q", "--quiet"}, OPTION_SET, AT(quiet), NULL, 0, 0, "no progress or warnings"},
    {{"--validate"}, OPTION_SET, AT(validation), NULL, 0, 0,
     "run under the Vulkan validation layers"},
};
/* clang-format on */

static const command_line line = {
    .name = "tune",
    .usage = "[-m FILE] [--device NAME] [--json]\n"
             "       outrider tune --reset [--device NAME]",
    .about =
        "Measures how the work of each kernel is best cut on a device, with the weights of a "
        "model\n"
        "that you use there, and stores the result beside the pipeline cache, for every model on\n"
        "that device. What is default stays unless another choice is clearly better than the "
        "noise.\n"
        "Texts stay the same: only times change. Give the machine nothing else to do meanwhile.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes =
        "The times are those of the kernels that a setting shapes, in passes of 1 and 17 rows\n"
        "and in a prefill.\n"
        "--json: {device, model, changed, results: [{setting, choice, default, chosen,\n"
        "decode_s, rows_s, prefill_s, ratio, detail}]}; ratio is the time by the default's, null\n"
        "for what the device refuses: detail says how.\n"
        "With --reset: {device, removed}.\n",
};

struct results {
    const struct settings *settings;
    text table;
    json_t *array;
    char setting[64]; /* of the row before */
    uint64_t n_settings, n_changed;
    bool out_of_memory;
};

/* Null where there is no measurement. */
static json_t *number_json(double number)
{
    return number > 0 ? json_real(number) : json_null();
}

static void add_time(text *t, double seconds)
{
    if (seconds > 0)
        text_printf(t, " %9.3f", seconds * 1e3);
    else
        text_printf(t, " %9s", "");
}

/* Held back until the end: nothing is printed of what is not stored. */
static void on_result(const otr_tune_result *result, void *user)
{
    struct results *r = user;
    bool is_new = strcmp(r->setting, result->setting) != 0;

    r->n_settings += is_new;
    r->n_changed += result->chosen && !result->is_default;
    snprintf(r->setting, sizeof(r->setting), "%s", result->setting);
    if (r->settings->json) {
        json_t *object = json_pack(
            "{s:s,s:s,s:b,s:b,s:o,s:o,s:o,s:o,s:o}", "setting", result->setting, "choice",
            result->choice, "default", result->is_default, "chosen", result->chosen, "decode_s",
            number_json(result->decode_s), "rows_s", number_json(result->rows_s), "prefill_s",
            number_json(result->prefill_s), "ratio", number_json(result->ratio), "detail",
            json_text(result->detail, strlen(result->detail)));

        r->out_of_memory |= json_array_append_new(r->array, object) != 0;
        return;
    }
    text_printf(&r->table, "%-18s %-16s", is_new ? result->setting : "", result->choice);
    add_time(&r->table, result->decode_s);
    add_time(&r->table, result->rows_s);
    add_time(&r->table, result->prefill_s);
    if (result->is_default)
        text_printf(&r->table, "          default");
    else if (result->ratio <= 0) /* refused by the device */
        text_printf(&r->table, " %8s", "-");
    else
        text_printf(&r->table, " %+6.1f %%", (result->ratio - 1) * 100);
    text_printf(&r->table, "%s%s", result->chosen && !result->is_default ? "  chosen" : "",
                result->detail[0] ? "  " : "");
    text_append_printable(&r->table, result->detail, strlen(result->detail), 0);
    text_printf(&r->table, "\n");
}

static int print(engine *e, struct results *r)
{
    text name = {0};

    if (r->out_of_memory || r->table.failed)
        return fail_memory();
    if (r->settings->json)
        return output_json(json_pack("{s:o,s:o,s:I,s:O}", "device",
                                     json_text(e->device.name, strlen(e->device.name)), "model",
                                     json_text(e->target_info.name, strlen(e->target_info.name)),
                                     "changed", (json_int_t)r->n_changed, "results", r->array))
                   ? EXIT_CODE_OK
                   : EXIT_CODE_FAILED;
    text_append_printable(&name, e->device.name, strlen(e->device.name), 0);
    output_printf("%-18s %-16s %9s %9s %9s\n%s", "", "times in ms of", "1 row", "17 rows",
                  "prefill", text_string(&r->table));
    output_printf("%" PRIu64 " of %" PRIu64 " settings changed for %s; stored\n", r->n_changed,
                  r->n_settings, text_string(&name));
    text_free(&name);
    return EXIT_CODE_OK;
}

static int tune(engine *e, struct results *r)
{
    otr_tune_params params = otr_tune_params_default();
    progress shown = progress_begin("measuring", !e->quiet && progress_wanted());
    otr_result result;
    int code;

    params.seconds = r->settings->seconds;
    params.on_progress = progress_update;
    params.progress_user = &shown;
    result = otr_tune(e->target, &params, on_result, r);
    progress_end(&shown);
    if (result == OTR_OK) {
        log_sink_flush(&e->log); /* choices that the device refused are no failure */
        return print(e, r);
    }
    code = fail_result(&e->log, e->context, result);
    return result == OTR_ERROR_IO ? EXIT_CODE_FAILED : code; /* our own file, not the user's */
}

static int reset(const struct settings *settings)
{
    otr_context_params params;
    otr_device_info info;
    otr_context *context = NULL;
    otr_result result;
    log_sink log;
    bool existed = false;
    int code = EXIT_CODE_OK;

    log_sink_init(&log, true); /* that a file is of no use is no news to who removes it */
    params = log_sink_context_params(&log, settings->validation);
    result = engine_find_device(&params, settings->device, &context, &info);
    if (result == OTR_OK)
        result = otr_tune_reset(context, info.index, &existed);
    if (result != OTR_OK) {
        code = fail_result(&log, context, result);
        code = result == OTR_ERROR_IO ? EXIT_CODE_FAILED : code;
    } else if (settings->json) {
        code = output_json(json_pack("{s:o,s:b}", "device", json_text(info.name, strlen(info.name)),
                                     "removed", existed))
                   ? EXIT_CODE_OK
                   : EXIT_CODE_FAILED;
    } else {
        text name = {0};

        text_append_printable(&name, info.name, strlen(info.name), 0);
        output_printf(existed ? "the tuning of %s was removed\n" : "there was no tuning of %s\n",
                      text_string(&name));
        text_free(&name);
    }
    code = output_finish(code);
    otr_context_destroy(&context);
    return log_sink_close(&log, code);
}

int command_tune(int argc, char **argv)
{
    struct settings settings = {.seconds = 1};
    struct results r = {.settings = &settings};
    engine_params params;
    engine e;
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    if (settings.reset && settings.model)
        return fail(EXIT_CODE_USAGE, "--reset is of a device: it takes no model");
    if (settings.reset)
        return reset(&settings);
    params = (engine_params){
        .model = settings.model,
        .device = settings.device,
        .validation = settings.validation,
        .quiet = settings.quiet,
    };
    r.array = json_array();
    code = r.array ? engine_open(&e, &params) : fail_memory();
    if (!r.array)
        return code;
    if (!code)
        code = tune(&e, &r);
    code = engine_check_validation(&e, code);
    code = output_finish(engine_close(&e, code));
    json_decref(r.array);
    text_free(&r.table);
    return code;
}

/* `outrider selftest`: checks every kernel on a device against CPU references. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "engine.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "text.h"

struct settings {
    const char *device;
    bool json, quiet, validation;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"-dev", "--device"}, OPTION_TEXT, AT(device), "NAME", 0, 0,
     "index, UUID or part of a name: see 'outrider devices'"},
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0, "print one JSON object"},
    {{"-q", "--quiet"}, OPTION_SET, AT(quiet), NULL, 0, 0, "only failures and the summary"},
    {{"--validate"}, OPTION_SET, AT(validation), NULL, 0, 0,
     "run under the Vulkan validation layers"},
};
/* clang-format on */

static const command_line line = {
    .name = "selftest",
    .usage = "[--device NAME] [--json]",
    .about =
        "Runs every kernel on a device and compares it with a CPU reference in double precision.\n"
        "The error is the largest difference, as a share of what is allowed.\n"
        "Where kernels of the device's tier fail, the lower tiers are tested until one passes; "
        "that\n"
        "is kept beside the pipeline cache, and later runs use the device at that tier at most. "
        "A\n"
        "self-test that passes ends that.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes =
        "Exits with 0 when all passed at the device's own tier, with 1 when a check failed, even\n"
        "where a lower tier passes.\n"
        "--json: {device, tier, passing_tier, passed, failed, skipped, results: [{kernel, tier,\n"
        "result, max_error, detail}]}; tier is the one that was tested, first of all the "
        "device's\n"
        "own; passing_tier is the highest that passes, or null; result is passed, failed or\n"
        "skipped.\n",
};

#define MAX_TIERS 4 /* 0 to 3 */

/* The checks at one tier. */
struct tier_counts {
    int32_t tier;
    uint64_t n_passed, n_failed, n_skipped;
    bool fits; /* no kernel of the tier failed */
};

struct results {
    const struct settings *settings;
    struct tier_counts tiers[MAX_TIERS]; /* [n_tiers], as they were tested: the highest first */
    uint32_t n_tiers;
    json_t *array;
    bool out_of_memory;
};

static struct tier_counts *counts_of(struct results *r, int32_t tier)
{
    bool is_new = r->n_tiers == 0 || r->tiers[r->n_tiers - 1].tier != tier;

    if (is_new && r->n_tiers < MAX_TIERS) {
        if (r->n_tiers > 0 && !r->settings->json)
            output_printf("tier %" PRId32 " fails; what tier %" PRId32 " does:\n",
                          r->tiers[r->n_tiers - 1].tier, tier);
        r->tiers[r->n_tiers++] = (struct tier_counts){.tier = tier, .fits = true};
    }
    return &r->tiers[r->n_tiers - 1];
}

static bool on_result(const otr_selftest_result *result, void *user)
{
    struct results *r = user;
    const char *verdict = result->skipped ? "skipped" : result->passed ? "passed" : "failed";
    struct tier_counts *counts = counts_of(r, result->tier);
    text detail = {0};

    counts->n_skipped += result->skipped;
    counts->n_passed += !result->skipped && result->passed;
    counts->n_failed += !result->skipped && !result->passed;
    counts->fits = counts->fits && (result->skipped || result->passed || !result->counts);
    if (r->settings->json) {
        /* A kernel that gave NaN has no error that JSON can hold. */
        json_t *error = result->max_error < 1e300 ? json_real(result->max_error) : json_null();
        json_t *object = json_pack("{s:o,s:i,s:s,s:o,s:o}", "kernel",
                                   json_text(result->kernel, strlen(result->kernel)), "tier",
                                   (int)result->tier, "result", verdict, "max_error", error,
                                   "detail", json_text(result->detail, strlen(result->detail)));

        r->out_of_memory |= json_array_append_new(r->array, object) != 0;
        return !r->out_of_memory && !interrupt_signal();
    }
    if (r->settings->quiet && (result->passed || result->skipped))
        return !interrupt_signal();
    text_append_printable(&detail, result->detail, strlen(result->detail), 0);
    if (result->skipped)
        output_printf("%-8s %-40s %s\n", verdict, result->kernel, text_string(&detail));
    else
        output_printf("%-8s %-40s error %8.3g %s\n", verdict, result->kernel, result->max_error,
                      text_string(&detail));
    text_free(&detail);
    return output_flush() && !interrupt_signal();
}

static json_t *summary_json(const struct results *r, const otr_device_info *info)
{
    const struct tier_counts *last = &r->tiers[r->n_tiers - 1];
    json_int_t n_passed = 0, n_failed = 0, n_skipped = 0;

    for (uint32_t i = 0; i < r->n_tiers; i++) {
        n_passed += (json_int_t)r->tiers[i].n_passed;
        n_failed += (json_int_t)r->tiers[i].n_failed;
        n_skipped += (json_int_t)r->tiers[i].n_skipped;
    }
    return json_pack("{s:o,s:i,s:o,s:I,s:I,s:I,s:O}", "device",
                     json_text(info->name, strlen(info->name)), "tier", (int)r->tiers[0].tier,
                     "passing_tier", last->fits ? json_integer(last->tier) : json_null(), "passed",
                     n_passed, "failed", n_failed, "skipped", n_skipped, "results", r->array);
}

/* Tests of at least one tier were made. */
static bool print_summary(const struct results *r, const otr_device_info *info)
{
    text name = {0};

    if (r->settings->json)
        return output_json(summary_json(r, info));
    text_append_printable(&name, info->name, strlen(info->name), 0);
    for (uint32_t i = 0; i < r->n_tiers; i++)
        output_printf("%" PRIu64 " passed, %" PRIu64 " failed, %" PRIu64
                      " skipped on %s, tier %" PRId32 "\n",
                      r->tiers[i].n_passed, r->tiers[i].n_failed, r->tiers[i].n_skipped,
                      text_string(&name), r->tiers[i].tier);
    text_free(&name);
    return true;
}

int command_selftest(int argc, char **argv)
{
    struct settings settings = {0};
    struct results r = {.settings = &settings};
    otr_context_params params;
    otr_device_info info;
    otr_context *context = NULL;
    otr_result result;
    log_sink log;
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    log_sink_init(&log, settings.quiet);
    params = log_sink_context_params(&log, settings.validation);
    r.array = json_array();
    result = engine_find_device(&params, settings.device, &context, &info);
    if (result == OTR_OK) {
        result = otr_selftest(context, info.index, on_result, &r);
        if (r.out_of_memory)
            code = fail_memory();
        else if ((result == OTR_OK || result == OTR_ERROR_SELFTEST) && !print_summary(&r, &info))
            code = EXIT_CODE_FAILED;
    }
    if (result != OTR_OK)
        code = fail_result(&log, context, result);
    if (code == EXIT_CODE_OK && params.validation && otr_validation_message_count(context))
        code = fail(EXIT_CODE_FAILED, "the validation layers gave %" PRIu64 " message(s)",
                    otr_validation_message_count(context));
    code = output_finish(code);
    json_decref(r.array);
    otr_context_destroy(&context);
    return log_sink_close(&log, code);
}

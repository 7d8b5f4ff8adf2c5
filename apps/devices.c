/* `outrider devices`: lists the Vulkan devices, what they can do, and which one is used. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "device_overlap.h"
#include "devices.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "report.h"
#include "text.h"

struct settings {
    bool json, quiet, overlap;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0, "print one JSON object"},
    {{"--overlap"}, OPTION_SET, AT(overlap), NULL, 0, 0,
     "measure what target and draft do at once on each device"},
    {{"-q", "--quiet"}, OPTION_SET, AT(quiet), NULL, 0, 0, "no warnings"},
};
/* clang-format on */

static const command_line line = {
    .name = "devices",
    .usage = "[--json] [--overlap]",
    .about =
        "Lists the Vulkan devices. '*' marks the one that is used when none is named: discrete\n"
        "before integrated before virtual GPUs; a CPU device only when there is nothing else.\n"
        "--device of the other commands takes the index, the UUID or a part of the name.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes =
        "Tiers: 0 the least that Vulkan 1.1 promises, 1 subgroup arithmetic and 16-bit storage,\n"
        "2 fast 8-bit dot products, 3 cooperative matrices.\n"
        "--overlap runs the demo pair's target (5 rows) and draft (4 steps) alone and together: 0 "
        "is\n"
        "the sum of their times, 1 is the longer one. Shared: as run does it, the draft on a "
        "second\n"
        "queue if the device has one. Opened twice: what 'run --draft-device' gives for a draft "
        "on\n"
        "the target's device. In JSON: overlap {shared, separate}, each {overlap, target_s, "
        "draft_s,\n"
        "together_s}.\n",
};

static void add_uuid(text *t, const uint8_t uuid[16])
{
    for (int i = 0; i < 16; i++)
        text_printf(t, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void add_text(text *t, const char *s)
{
    text_append_printable(t, s, strlen(s), 0);
}

static void add_queues(text *t, const otr_device_info *info)
{
    const size_t size = sizeof(info->queue_families[0]);
    uint32_t n = info->n_queue_families;

    n = n < OTR_MAX_QUEUE_FAMILIES ? n : OTR_MAX_QUEUE_FAMILIES;
    for (uint32_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n; same++)
            if (memcmp(&info->queue_families[i], &info->queue_families[i + same], size) != 0)
                break;
        text_printf(t, "%s", i ? ", " : "");
        if (same > 1)
            text_printf(t, "%" PRIu32 " families of ", same);
        text_printf(t, "%" PRIu32, info->queue_families[i].n_queues);
        text_printf(t, "%s%s%s", info->queue_families[i].compute ? " compute" : "",
                    info->queue_families[i].graphics ? " graphics" : "",
                    info->queue_families[i].transfer ? " transfer" : "");
    }
}

static void add_heaps(text *t, const otr_device_info *info)
{
    for (uint32_t i = 0; i < info->n_heaps && i < OTR_MAX_HEAPS; i++)
        text_printf(t, "%s%s%s", i ? ", " : "", bytes_text(info->heaps[i].size_bytes).s,
                    info->heaps[i].device_local ? " (device)" : "");
}

static void add_tuning(text *t, const otr_tuning_info *tuning)
{
    text_printf(t, "     tuning   %s, class %s",
                tuning->is_tuned ? "as 'outrider tune' chose" : "default", tuning->device_class);
    if (tuning->problem[0]) {
        text_printf(t, "; what is stored is not used: ");
        add_text(t, tuning->problem);
    }
    text_printf(t, "\n");
}

/* tuning: of a usable device, else NULL. */
static bool print_device(const otr_device_info *info, const otr_tuning_info *tuning,
                         const device_overlap *overlap)
{
    text t = {0};
    bool written;

    text_printf(&t, "%" PRIu32 "%s ", info->index, info->is_default ? "*" : " ");
    add_text(&t, info->name);
    text_printf(&t, "\n     type     %s, vendor ", device_type_name(info->type));
    add_text(&t, info->vendor);
    if (info->tier >= 0)
        text_printf(&t, "\n     tier     %" PRId32, info->tier);
    else
        text_printf(&t, "\n     tier     none, can't be used: ");
    if (info->tier < 0)
        add_text(&t, info->problem);
    text_printf(&t, "\n     driver   ");
    add_text(&t, info->driver_name);
    text_printf(&t, " ");
    add_text(&t, info->driver_info);
    text_printf(&t, ", Vulkan %" PRIu32 ".%" PRIu32 ".%" PRIu32, info->api_version >> 22 & 0x7f,
                info->api_version >> 12 & 0x3ff, info->api_version & 0xfff);
    text_printf(&t, "\n     uuid     ");
    add_uuid(&t, info->uuid);
    text_printf(&t, "\n     queues   ");
    add_queues(&t, info);
    text_printf(&t, "\n     memory   ");
    add_heaps(&t, info);
    text_printf(&t,
                "\n     limits   subgroup %" PRIu32 ", workgroup %" PRIu32
                ", shared memory %s, binding %s%s%s\n",
                info->subgroup_size, info->max_workgroup_invocations,
                bytes_text(info->max_shared_memory_bytes).s,
                bytes_text(info->max_storage_binding_bytes).s,
                info->has_timeline_semaphores ? "" : ", no timeline semaphores",
                info->timestamp_valid_bits ? "" : ", no timestamps");
    if (tuning)
        add_tuning(&t, tuning);
    if (overlap)
        device_overlap_append(&t, overlap);
    if (info->same_as >= 0)
        text_printf(&t, "     note     the same device as %" PRId32 " under another driver\n",
                    info->same_as);
    if (info->note[0]) {
        text_printf(&t, "     note     ");
        add_text(&t, info->note);
        text_printf(&t, "\n");
    }
    if (info->type == OTR_DEVICE_CPU)
        text_printf(&t, "     note     this is the CPU, not a GPU: shaders run on the processor\n");
    written = t.failed ? false : output_write(text_string(&t), t.n);
    text_free(&t);
    return written;
}

static json_t *queue_array(const otr_device_info *info)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < info->n_queue_families && i < OTR_MAX_QUEUE_FAMILIES; i++)
        json_array_append_new(array, json_pack("{s:I,s:b,s:b,s:b}", "count",
                                               (json_int_t)info->queue_families[i].n_queues,
                                               "compute", (int)info->queue_families[i].compute,
                                               "graphics", (int)info->queue_families[i].graphics,
                                               "transfer", (int)info->queue_families[i].transfer));
    return array;
}

static json_t *heap_array(const otr_device_info *info)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < info->n_heaps && i < OTR_MAX_HEAPS; i++)
        json_array_append_new(array, json_pack("{s:I,s:b}", "size_bytes",
                                               (json_int_t)info->heaps[i].size_bytes,
                                               "device_local", (int)info->heaps[i].device_local));
    return array;
}

static json_t *json_of(const char *s)
{
    return json_text(s, strlen(s));
}

json_t *device_json(const otr_device_info *info)
{
    text uuid = {0};
    json_t *object;

    add_uuid(&uuid, info->uuid);
    object = json_pack(
        "{s:I,s:o,s:o,s:I,s:I,s:s,s:o,s:o,s:I,s:I,s:s,s:i,s:o,s:o,s:o,s:b,s:I,s:I,s:I,s:I,s:b,s:I,"
        "s:o,"
        "s:o}",
        "index", (json_int_t)info->index, "name", json_of(info->name), "vendor",
        json_of(info->vendor), "vendor_id", (json_int_t)info->vendor_id, "device_id",
        (json_int_t)info->device_id, "type", device_type_name(info->type), "driver_name",
        json_of(info->driver_name), "driver_info", json_of(info->driver_info), "driver_version",
        (json_int_t)info->driver_version, "api_version", (json_int_t)info->api_version, "uuid",
        text_string(&uuid), "tier", (int)info->tier, "problem",
        info->tier < 0 ? json_of(info->problem) : json_null(), "note",
        info->note[0] ? json_of(info->note) : json_null(), "same_as",
        info->same_as >= 0 ? json_integer(info->same_as) : json_null(), "default",
        (int)info->is_default, "subgroup_size", (json_int_t)info->subgroup_size,
        "max_workgroup_invocations", (json_int_t)info->max_workgroup_invocations,
        "max_shared_memory_bytes", (json_int_t)info->max_shared_memory_bytes,
        "max_storage_binding_bytes", (json_int_t)info->max_storage_binding_bytes,
        "timeline_semaphores", (int)info->has_timeline_semaphores, "timestamp_valid_bits",
        (json_int_t)info->timestamp_valid_bits, "queue_families", queue_array(info), "heaps",
        heap_array(info));
    text_free(&uuid);
    return object;
}

json_t *tuning_json(const otr_tuning_info *tuning)
{
    return json_pack("{s:s,s:b,s:o}", "class", tuning->device_class, "tuned", (int)tuning->is_tuned,
                     "problem", tuning->problem[0] ? json_of(tuning->problem) : json_null());
}

static int show_device(log_sink *log, otr_context *context, const otr_device_info *info,
                       const struct settings *settings, json_t *array)
{
    bool usable = info->tier >= 0, measured = settings->overlap && usable;
    otr_tuning_info tuning = {.size = sizeof(tuning)};
    device_overlap overlap;
    json_t *object;
    otr_result result = usable ? otr_device_tuning(context, info->index, &tuning) : OTR_OK;
    int code = EXIT_CODE_OK;

    if (result != OTR_OK)
        return fail_result(log, context, result);
    if (measured)
        code = device_overlap_measure(log, context, info->index, &overlap);
    if (code)
        return code;
    if (!settings->json) {
        print_device(info, usable ? &tuning : NULL, measured ? &overlap : NULL);
        return EXIT_CODE_OK;
    }
    object = device_json(info);
    json_object_set_new(object, "tuning", usable ? tuning_json(&tuning) : json_null());
    if (measured)
        json_object_set_new(object, "overlap", device_overlap_json(&overlap));
    return json_array_append_new(array, object) ? fail_memory() : EXIT_CODE_OK;
}

int command_devices(int argc, char **argv)
{
    struct settings settings = {0};
    otr_context_params params;
    otr_context *context = NULL;
    otr_result result;
    log_sink log;
    json_t *array = NULL;
    uint32_t n, n_usable = 0;
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    log_sink_init(&log, settings.quiet);
    params = log_sink_context_params(&log, false);
    result = otr_context_create(&params, &context);
    if (result != OTR_OK) {
        code = fail_result(&log, NULL, result);
        goto done;
    }
    n = otr_device_count(context);
    array = json_array();
    for (uint32_t i = 0; i < n; i++) {
        otr_device_info info = {.size = sizeof(info)};

        result = otr_device_describe(context, i, &info);
        if (result != OTR_OK) {
            code = fail_result(&log, context, result);
            goto done;
        }
        n_usable += info.tier >= 0;
        code = show_device(&log, context, &info, &settings, array);
        if (code)
            goto done;
    }
    if (settings.json && !output_json(json_pack("{s:O}", "devices", array)))
        code = EXIT_CODE_FAILED;
    if (code == EXIT_CODE_OK && n == 0)
        code = fail(EXIT_CODE_NO_DEVICE, "no Vulkan device; install your GPU's Vulkan driver, or "
                                         "Mesa's for the CPU (Debian: mesa-vulkan-drivers)");
    else if (code == EXIT_CODE_OK && n_usable == 0)
        code = fail(EXIT_CODE_NO_DEVICE, "none of the devices can be used; see the reason above");
    code = output_finish(code);
done:
    json_decref(array);
    otr_context_destroy(&context);
    log_sink_free(&log);
    return code;
}

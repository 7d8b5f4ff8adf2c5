/* Reads a recorded trace (simulate_trace.h). The file is untrusted: every value is checked. */
#include "simulate_trace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "message.h"

#define MAX_MS 1e6

static bool is_time(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) > 0 &&
           json_number_value(value) <= MAX_MS;
}

static bool is_id(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= INT32_MAX;
}

/* Row counts that weren't measured get what the controller would take them for. */
static bool read_times(const json_t *list, recorded_trace *out)
{
    controller c;
    controller_params params = controller_params_default();

    controller_init(&c, &params);
    if (!json_is_array(list) || json_array_size(list) > CONTROLLER_MAX_ROWS ||
        !is_time(json_array_get(list, 0)))
        return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (is_time(value))
            controller_record_pass(&c, (uint32_t)i + 1, json_number_value(value));
        else if (!json_is_null(value))
            return false;
    }
    for (uint32_t n = 1; n <= CONTROLLER_MAX_ROWS; n++)
        out->target_ms[n - 1] = controller_target_ms(&c, n);
    return true;
}

static const char *read_prompt(const json_t *ids, const json_t *count, recorded_trace *out)
{
    trace *t = &out->trace;

    if (count) {
        if (!is_id(count))
            return "\"prompt_tokens\"";
        t->n_prompt = (uint32_t)json_integer_value(count);
    }
    if (!ids)
        return NULL;
    if (!json_is_array(ids) || (count && json_array_size(ids) != t->n_prompt))
        return "\"prompt\"";
    t->n_prompt = (uint32_t)json_array_size(ids);
    t->prompt = calloc(t->n_prompt ? t->n_prompt : 1, sizeof(*t->prompt));
    for (uint32_t i = 0; t->prompt && i < t->n_prompt; i++) {
        if (!is_id(json_array_get(ids, i)))
            return "\"prompt\"";
        t->prompt[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    }
    return t->prompt ? NULL : "out of memory for \"prompt\"";
}

/* Returns what is wrong, or NULL. */
static const char *read_head(const json_t *line, recorded_trace *out)
{
    const json_t *times = json_object_get(line, "target_ms");
    const json_t *step = json_object_get(line, "draft_ms");
    const json_t *ratio = json_object_get(line, "prefill_ratio");

    if (json_integer_value(json_object_get(line, "trace")) != 1)
        return "no {\"trace\": 1} in the first line";
    if (times && !read_times(times, out))
        return "\"target_ms\"";
    if (step && !is_time(step))
        return "\"draft_ms\"";
    if (ratio && !is_time(ratio))
        return "\"prefill_ratio\"";
    out->draft_ms = json_number_value(step);
    out->prefill_ratio = json_number_value(ratio);
    out->has_costs = times && step;
    return read_prompt(json_object_get(line, "prompt"), json_object_get(line, "prompt_tokens"),
                       out);
}

static const char *read_position(const json_t *line, recorded_trace *out)
{
    const json_t *id = json_object_get(line, "id"), *p = json_object_get(line, "p");
    const json_t *hit = json_object_get(line, "hit");
    trace_position *at = &out->trace.positions[out->trace.n];

    *at = (trace_position){.token = -1, .probability = -1};
    if (id && !is_id(id))
        return "\"id\"";
    if (p && !(json_is_number(p) && json_number_value(p) >= 0 && json_number_value(p) <= 1))
        return "\"p\" (0 to 1)";
    if (hit && !json_is_boolean(hit))
        return "\"hit\"";
    if (id)
        at->token = (int32_t)json_integer_value(id);
    out->has_ids &= id != NULL;
    if (hit) {
        at->hit = json_is_true(hit);
        at->probability = p ? (float)json_number_value(p) : 0.5f;
        out->n_known++;
    }
    out->trace.n++;
    return NULL;
}

static void fill_unknown(recorded_trace *t)
{
    uint64_t random = 1;
    double hits = 0;

    for (size_t i = 0; i < t->trace.n; i++)
        hits += t->trace.positions[i].hit;
    for (size_t i = 0; i < t->trace.n; i++) {
        trace_position *at = &t->trace.positions[i];
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (at->probability >= 0)
            continue;
        double rate = t->n_known ? hits / (double)t->n_known : 0;
        at->hit = (double)(random >> 11) * 0x1p-53 < rate;
        at->probability = (float)rate;
    }
}

int simulate_read_trace(const char *path, recorded_trace *out)
{
    text t = {0};
    size_t n_lines = 1, number = 0;
    int code = input_file(path, &t);

    *out = (recorded_trace){.has_ids = true};
    if (code)
        goto done;
    for (size_t i = 0; i < t.n; i++)
        n_lines += t.data[i] == '\n';
    out->trace.positions = calloc(n_lines, sizeof(*out->trace.positions));
    if (!out->trace.positions) {
        code = fail_memory();
        goto done;
    }
    for (const char *at = text_string(&t), *end; *at && !code; at = *end ? end + 1 : end) {
        json_error_t error;
        const char *wrong;

        end = at + strcspn(at, "\n");
        number++;
        if (end == at)
            continue;
        json_t *line = json_loadb(at, (size_t)(end - at), 0, &error);
        wrong = !json_is_object(line) ? "no JSON object"
                : number == 1         ? read_head(line, out)
                                      : read_position(line, out);
        if (wrong)
            code = fail(EXIT_CODE_INPUT, "%s: line %zu: bad %s", path, number, wrong);
        json_decref(line);
    }
    if (!code && !out->trace.n)
        code = fail(EXIT_CODE_INPUT, "%s has no tokens; 'outrider simulate --help' shows the form",
                    path);
    fill_unknown(out);
done:
    text_free(&t);
    if (code)
        trace_free(&out->trace);
    return code;
}

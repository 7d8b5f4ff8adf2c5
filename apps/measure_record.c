/* Records of `outrider measure` (measure.h) as JSON and back, for --resume. What is read is untrusted:
 * a record that isn't whole, or whose counters don't add up, is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "output.h"

/* The counters of a run by name. */
#define COUNTERS(x)                                                                                \
    x(emitted) x(blocks) x(plain_blocks) x(drafted) x(verified) x(accepted) x(discarded)           \
        x(pipelined_blocks)
/* And its times. */
#define TIMES(x) x(seconds) x(ttft_ms) x(blocks_ms) x(off_ms)

static json_t *counts_json(const uint64_t *counts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)counts[i]));
    return list;
}

/* NULL-terminated; null where they aren't kept. */
static json_t *texts_json(char *const *texts)
{
    json_t *list = texts ? json_array() : json_null();

    for (size_t i = 0; texts && texts[i]; i++)
        if (json_array_append_new(list, json_text(texts[i], strlen(texts[i])))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *run_json(const measure_setting *setting, const measure_run *run)
{
    json_t *o = json_object(), *latency = json_array();
    char name[24];
    int bad = json_object_set_new(o, "setting", json_string(measure_setting_name(setting, name)));

#define PUT(field) bad |= json_object_set_new(o, #field, json_integer((json_int_t)run->field));
    COUNTERS(PUT)
#undef PUT
#define PUT(field) bad |= json_object_set_new(o, #field, json_real(run->field));
    TIMES(PUT)
#undef PUT
    for (size_t i = 0; i < run->n_tokens; i++) /* to the microsecond */
        bad |= json_array_append_new(latency,
                                     json_real(round(1e3 * (double)run->latency_ms[i]) / 1e3));
    bad |= json_object_set_new(o, "verified_by_position",
                               counts_json(run->verified_by_position, OTR_MAX_DRAFT));
    bad |= json_object_set_new(o, "accepted_by_position",
                               counts_json(run->accepted_by_position, OTR_MAX_DRAFT));
    bad |= json_object_set_new(o, "latency_ms", latency);
    bad |= json_object_set_new(o, "origins", json_string(run->origins));
    bad |= json_object_set_new(o, "rejected", texts_json(run->rejected));
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

json_t *measure_record_json(const measure *m, const measure_record *record)
{
    const measure_prompt *prompt = &m->data.prompts[record->prompt];
    json_t *o = json_object(), *rows = json_array(), *runs = json_array();
    int bad = json_object_set_new(o, "prompt", json_integer((json_int_t)record->prompt));

    bad |= json_object_set_new(o, "task", json_text(prompt->task, strlen(prompt->task)));
    bad |= json_object_set_new(o, "source", json_text(prompt->source, strlen(prompt->source)));
    bad |= json_object_set_new(o, "prompt_tokens", json_integer((json_int_t)record->n_ids));
    for (size_t i = 0; i < MEASURE_MAX_ROWS; i++)
        bad |= json_array_append_new(rows, json_real(record->row_ms[i]));
    bad |= json_object_set_new(o, "row_ms", rows);
    bad |= json_object_set_new(o, "draft_step_ms",
                               m->e->draft ? json_real(record->draft_ms) : json_null());
    bad |= json_object_set_new(o, "draft_prefill_ms",
                               m->e->draft ? json_real(record->draft_prefill_ms) : json_null());
    for (size_t i = 0; i < m->n_settings; i++)
        bad |= json_array_append_new(runs, run_json(&m->settings[i], &record->runs[i]));
    bad |= json_object_set_new(o, "runs", runs);
    bad |= json_object_set_new(o, "pieces", texts_json(record->pieces));
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

/* --------------------------------------------------------------------------------- reading */

static bool read_time(const json_t *o, const char *key, double *out)
{
    const json_t *value = json_object_get(o, key);

    *out = json_number_value(value);
    return json_is_number(value) && *out >= 0 && *out < 1e12;
}

static bool read_count(const json_t *value, uint64_t *out)
{
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) <= INT32_MAX;
}

static bool read_positions(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *list = json_object_get(o, key);
    bool ok = json_array_size(list) == OTR_MAX_DRAFT;

    for (size_t i = 0; i < OTR_MAX_DRAFT && ok; i++)
        ok = read_count(json_array_get(list, i), &out[i]);
    return ok;
}

static bool add_up(const measure_run *run)
{
    uint64_t verified = 0, accepted = 0;

    for (size_t i = 0; i < OTR_MAX_DRAFT; i++) {
        verified += run->verified_by_position[i];
        accepted += run->accepted_by_position[i];
    }
    return run->emitted >= 2 && run->n_tokens == run->emitted - 1 && run->seconds > 0 &&
           run->blocks > 0 && run->drafted >= run->verified && run->verified >= run->accepted &&
           run->emitted + run->discarded == 1 + run->accepted + run->blocks &&
           run->plain_blocks + run->pipelined_blocks <= run->blocks && verified == run->verified &&
           accepted == run->accepted;
}

/* A list of n texts, or null. */
static bool read_texts(const json_t *list, size_t n, char ***texts)
{
    if (!json_is_array(list))
        return json_is_null(list);
    if (json_array_size(list) != n)
        return false;
    *texts = calloc(n + 1, sizeof(**texts));
    for (size_t i = 0; *texts && i < n; i++) {
        const char *s = json_string_value(json_array_get(list, i));

        (*texts)[i] = s ? strdup(s) : NULL;
        if (!(*texts)[i])
            return false;
    }
    return *texts != NULL;
}

static bool read_run(const measure_setting *setting, const json_t *o, measure_run *run)
{
    const json_t *latency = json_object_get(o, "latency_ms");
    const json_t *origins = json_object_get(o, "origins");
    const char *typed = json_string_value(json_object_get(o, "setting"));
    char name[24];
    size_t n_rejected = 0;
    bool ok = typed && strcmp(typed, measure_setting_name(setting, name)) == 0;

#define TAKE(field) ok = read_count(json_object_get(o, #field), &run->field) && ok;
    COUNTERS(TAKE)
#undef TAKE
#define TAKE(field) ok = read_time(o, #field, &run->field) && ok;
    TIMES(TAKE)
#undef TAKE
    ok = ok && read_positions(o, "verified_by_position", run->verified_by_position) &&
         read_positions(o, "accepted_by_position", run->accepted_by_position);
    run->n_tokens = run->capacity = json_array_size(latency);
    if (!ok || !run->n_tokens || json_string_length(origins) != run->n_tokens + 1)
        return false;
    run->latency_ms = calloc(run->n_tokens, sizeof(*run->latency_ms));
    run->origins = strdup(json_string_value(origins));
    if (!run->latency_ms || !run->origins ||
        strspn(run->origins, (char[]){ORIGIN_FIRST, ORIGIN_ACCEPTED, ORIGIN_REJECTED, ORIGIN_BONUS,
                                      ORIGIN_PLAIN, '\0'}) != run->n_tokens + 1)
        return false;
    for (size_t i = 0; i < run->n_tokens; i++) {
        const json_t *value = json_array_get(latency, i);

        if (!json_is_number(value) || !(json_number_value(value) >= 0))
            return false;
        run->latency_ms[i] = (float)json_number_value(value);
    }
    for (size_t i = 0; i <= run->n_tokens; i++)
        n_rejected += run->origins[i] == ORIGIN_REJECTED;
    return add_up(run) && read_texts(json_object_get(o, "rejected"), n_rejected, &run->rejected);
}

bool measure_record_read(const measure *m, const json_t *object, measure_record *record)
{
    const json_t *runs = json_object_get(object, "runs"), *rows = json_object_get(object, "row_ms");
    uint64_t prompt = 0, n_ids = 0;
    bool ok = read_count(json_object_get(object, "prompt"), &prompt) &&
              prompt < m->data.n_prompts &&
              read_count(json_object_get(object, "prompt_tokens"), &n_ids) &&
              json_array_size(runs) == m->n_settings && json_array_size(rows) == MEASURE_MAX_ROWS;

    *record = (measure_record){.prompt = (size_t)prompt, .n_ids = (size_t)n_ids};
    for (size_t i = 0; i < MEASURE_MAX_ROWS && ok; i++) {
        record->row_ms[i] = json_number_value(json_array_get(rows, i));
        ok = record->row_ms[i] > 0 && record->row_ms[i] < 1e9;
    }
    if (m->e->draft)
        ok = ok && read_time(object, "draft_step_ms", &record->draft_ms) &&
             read_time(object, "draft_prefill_ms", &record->draft_prefill_ms);
    for (size_t i = 0; i < m->n_settings && ok; i++)
        ok = read_run(&m->settings[i], json_array_get(runs, i), &record->runs[i]) &&
             record->runs[i].emitted == record->runs[0].emitted;
    ok = ok &&
         read_texts(json_object_get(object, "pieces"), record->runs[0].emitted, &record->pieces);
    if (!ok)
        measure_record_free(record);
    return ok;
}

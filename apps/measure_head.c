/* What `outrider measure` (measure.h) measured on what: the first part of its result, by which --resume tells
 * whether it is the same measurement. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "drafting.h"
#include "identity.h"
#include "measure.h"
#include "output.h"

const char *measure_setting_name(const measure_setting *setting, char name[24])
{
    if (!setting->drafters)
        snprintf(name, 24, "plain");
    else if (setting->draft_max == OTR_DRAFT_AUTO)
        snprintf(name, 24, "auto");
    else
        snprintf(name, 24, "%sK=%" PRIu32, setting->drafters == OTR_DRAFTER_NGRAM ? "ngram " : "",
                 setting->draft_max);
    return name;
}

/* 0.8, not 0.800000012: what is read back is to be equal. */
static double as_typed(float value)
{
    char digits[32];

    snprintf(digits, sizeof(digits), "%.6g", (double)value);
    return strtod(digits, NULL);
}

json_t *measure_head(const measure *m)
{
    json_t *o = json_object(), *settings = json_array(), *tasks = json_array();
    char hash[17], name[24];
    int bad = json_object_set_new(o, "schema", json_string(MEASURE_SCHEMA));

    bad |= !identity_add(o, m->e);
    snprintf(hash, sizeof(hash), "%016" PRIx64, measure_data_hash(&m->data));
    for (size_t i = 0; i < m->n_settings; i++)
        bad |= json_array_append_new(settings,
                                     json_string(measure_setting_name(&m->settings[i], name)));
    for (size_t i = 0; i < m->data.n_tasks; i++)
        bad |= json_array_append_new(tasks, json_text(m->data.tasks[i], strlen(m->data.tasks[i])));
    bad |= json_object_set_new(o, "data",
                               json_pack("{s:s,s:I,s:o}", "fnv1a64", hash, "prompts",
                                         (json_int_t)m->data.n_prompts, "tasks", tasks));
    bad |= json_object_set_new(
        o, "options",
        json_pack("{s:o,s:s,s:I,s:f,s:I,s:f,s:f,s:I,s:s,s:s,s:b,s:b}", "settings", settings,
                  "auto_drafter", drafters_name(m->settings[m->n_settings - 1].drafters),
                  "max_tokens", (json_int_t)m->n_predict, "temperature",
                  as_typed(m->sampling.temperature), "top_k", (json_int_t)m->sampling.top_k,
                  "top_p", as_typed(m->sampling.top_p), "min_p", as_typed(m->sampling.min_p),
                  "seed", (json_int_t)m->sampling.seed, "cache_type",
                  cache_type_name(m->cache_type), "schedule", schedule_name(m->schedule),
                  "draft_apart", m->is_draft_apart, "ignore_eos", m->ignore_eos));
    bad |= json_object_set_new(o, "draft_device",
                               m->e->draft ? device_json(&m->e->draft_device) : json_null());
    bad |= json_object_set_new(o, "n_ctx", json_integer((json_int_t)m->n_ctx));
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

const char *measure_head_differs(const json_t *mine, const json_t *other)
{
    static const struct {
        const char *object, *key, *what;
    } same[] = {
        {"data", "fnv1a64", "other prompts"},
        {"model", "fnv1a64", "another target"},
        {"draft", "fnv1a64", "another draft"},
        {"device", "uuid", "another device"},
        {"draft_device", "uuid", "another device of the draft"},
        {"driver", "version", "another driver"},
        {"driver", "info", "another driver"},
        {"options", NULL, MEASURE_OTHER_OPTIONS},
        {"n_ctx", NULL, "another context size"},
    };

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        const json_t *a = json_object_get(mine, same[i].object);
        const json_t *b = json_object_get(other, same[i].object);

        if (same[i].key) {
            a = json_object_get(a, same[i].key);
            b = json_object_get(b, same[i].key);
        }
        if ((a || b) && !json_equal(a, b))
            return same[i].what;
    }
    return NULL;
}

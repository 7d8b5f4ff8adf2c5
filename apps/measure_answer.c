/* What all forms of the report of `outrider measure` (measure.h) read from the summary, and the parts of the
 * answer, which they say in the same words. */
#include <math.h>
#include <string.h>

#include "measure.h"

const json_t *measure_find(const json_t *list, const char *key, const char *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *own = json_string_value(json_object_get(item, key));

        if (own && strcmp(own, value) == 0)
            return item;
    }
    return NULL;
}

const char *measure_string(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "?";
}

double measure_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void make_verdict(text *t, const json_t *group)
{
    const char *verdict = measure_string(group, "verdict");

    if (strcmp(verdict, "use") == 0)
        text_printf(t, "use %s", measure_string(group, "setting"));
    else
        text_printf(t, "%s", strcmp(verdict, "dont") == 0 ? "don't" : "auto");
}

static void make_interval(text *t, const json_t *speedup)
{
    double low = measure_number(speedup, "low");

    if (isfinite(low))
        text_printf(t, "95 %%: %.3f to %.3f", low, measure_number(speedup, "high"));
    else
        text_printf(t, "no interval: one prompt");
}

measure_answer measure_answer_of(const json_t *group)
{
    const json_t *speedup = json_object_get(group, "speedup");
    const json_t *latency = json_object_get(group, "latency_ms");
    double predicted = measure_number(group, "speedup_predicted");
    measure_answer a = {.setting = measure_string(group, "setting")};

    make_verdict(&a.verdict, group);
    text_printf(&a.speedup, "%.3f", measure_number(speedup, "estimate"));
    make_interval(&a.interval, speedup);
    if (isfinite(predicted))
        text_printf(&a.prediction, "predicted %.3f for %s", predicted,
                    measure_string(group, "predicted_setting"));
    text_printf(&a.latency, "p99 %.2f to %.2f ms",
                measure_number(json_object_get(latency, "plain"), "p99"),
                measure_number(json_object_get(latency, "setting"), "p99"));
    return a;
}

void measure_answer_free(measure_answer *a)
{
    text_free(&a->verdict);
    text_free(&a->speedup);
    text_free(&a->interval);
    text_free(&a->prediction);
    text_free(&a->latency);
}

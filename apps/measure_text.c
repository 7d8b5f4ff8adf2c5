/* The report of `outrider measure` (measure.h) as text, the answer first, and as CSV. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "measure.h"
#include "report.h"

/* Padded by characters, not bytes. */
static void add_name(text *t, const char *name, size_t width)
{
    text safe = {0};
    size_t shown = 0;

    text_append_printable(&safe, name, strlen(name), 0);
    for (size_t i = 0; i < safe.n; i++)
        shown += ((unsigned char)safe.data[i] & 0xc0) != 0x80;
    text_printf(t, "%s%*s", text_string(&safe), shown < width ? (int)(width - shown) : 0, "");
    text_free(&safe);
}

static void add_number(text *t, double value, int width, int digits)
{
    if (isfinite(value))
        text_printf(t, " %*.*f", width, digits, value);
    else
        text_printf(t, " %*s", width, "-");
}

static size_t name_width(const json_t *summary)
{
    size_t width = 7, i;
    const json_t *task;

    json_array_foreach(json_object_get(summary, "tasks"), i, task)
    {
        size_t n = strlen(measure_string(task, "task"));
        width = n > width ? n : width;
    }
    return width < 24 ? width : 24;
}

/* "code     use K=4: 1.342x plain decoding (95 %: 1.210 to 1.480), predicted 1.361 for K=4; p99 …" */
static void add_answer(text *t, const json_t *o, size_t width)
{
    measure_answer a = measure_answer_of(o);

    add_name(t, measure_string(o, "task"), width);
    text_printf(t, "  %s", text_string(&a.verdict));
    if (strcmp(measure_string(o, "verdict"), "dont") == 0)
        text_printf(t, " (the best is %s)", a.setting);
    text_printf(t, ": %sx (%s)", text_string(&a.speedup), text_string(&a.interval));
    if (a.prediction.n)
        text_printf(t, ", %s", text_string(&a.prediction));
    text_printf(t, "; %s\n", text_string(&a.latency));
    measure_answer_free(&a);
}

static void add_setting(text *t, const json_t *s)
{
    const json_t *speedup = json_object_get(s, "speedup"),
                 *latency = json_object_get(s, "latency_ms");
    bool is_plain = strcmp(measure_string(s, "name"), "plain") == 0;

    text_printf(t, "  %-10s", measure_string(s, "name"));
    add_number(t, is_plain ? NAN : measure_number(speedup, "estimate"), 8, 3);
    add_number(t, is_plain ? NAN : measure_number(speedup, "low"), 6, 3);
    add_number(t, is_plain ? NAN : measure_number(speedup, "high"), 6, 3);
    add_number(t, measure_number(s, "speedup_predicted"), 9, 3);
    add_number(t, 100 * measure_number(s, "prediction_error"), 5, 1);
    add_number(t, measure_number(s, "tokens_per_second"), 8, 1);
    add_number(t, measure_number(s, "tau"), 5, 2);
    add_number(t, measure_number(s, "break_even_tau"), 10, 2);
    add_number(t, measure_number(latency, "p50"), 7, 2);
    add_number(t, measure_number(latency, "p95"), 7, 2);
    add_number(t, measure_number(latency, "p99"), 7, 2);
    add_number(t, measure_number(latency, "max"), 7, 1);
    text_printf(t, "\n");
}

static void add_list(text *t, const char *label, const json_t *list, size_t from, double factor,
                     int digits)
{
    text_printf(t, "  %s", label);
    for (size_t i = from; i < json_array_size(list); i++)
        add_number(t, factor * json_number_value(json_array_get(list, i)), 0, digits);
    text_printf(t, "\n");
}

static void add_table(text *t, const json_t *o)
{
    const json_t *alpha = json_object_get(o, "alpha"), *setting;
    size_t i;

    text_printf(t, "\n");
    add_name(t, measure_string(o, "task"), 0);
    text_printf(t, ", %" JSON_INTEGER_FORMAT " prompts: ",
                json_integer_value(json_object_get(o, "prompts")));
    if (isfinite(measure_number(alpha, "estimate")))
        text_printf(t, "acceptance %.1f %%", 100 * measure_number(alpha, "estimate"));
    else
        text_printf(t, "nothing drafted was checked");
    if (isfinite(measure_number(alpha, "low")))
        text_printf(t, " (95 %%: %.1f to %.1f)", 100 * measure_number(alpha, "low"),
                    100 * measure_number(alpha, "high"));
    if (isfinite(measure_number(o, "c")))
        text_printf(t, ", a draft step costs %.3f plain steps", measure_number(o, "c"));
    text_printf(t, ", auto was off %.0f %% of the time\n  outrider run %s\n",
                100 * measure_number(o, "share_off"), measure_string(o, "run_options"));
    text_printf(t, "  %-10s %8s %6s %6s %9s   ± %% %8s %5s %10s %7s %7s %7s %7s\n", "", "speed-up",
                "95 %", "to", "predicted", "tokens/s", "tau", "break-even", "p50 ms", "p95", "p99",
                "max");
    json_array_foreach(json_object_get(o, "settings"), i, setting) add_setting(t, setting);
    add_list(t, "acceptance by position, %:", json_object_get(o, "acceptance_by_position"), 0, 100,
             1);
    add_list(t, "verify cost v(2), v(3), …:", json_object_get(o, "verify_cost"), 1, 1, 2);
}

static void add_head(text *t, const json_t *summary)
{
    const json_t *device = json_object_get(summary, "device");
    const json_t *driver = json_object_get(summary, "driver");

    add_name(t, measure_string(json_object_get(summary, "model"), "name"), 0);
    if (json_is_object(json_object_get(summary, "draft"))) {
        text_printf(t, " with the draft ");
        add_name(t, measure_string(json_object_get(summary, "draft"), "name"), 0);
    } else {
        text_printf(t, " without a draft");
    }
    text_printf(t, ", ");
    add_name(t, measure_string(device, "name"), 0);
    text_printf(t, ", ");
    add_name(t, measure_string(driver, "name"), 0);
    text_printf(t, " ");
    add_name(t, measure_string(driver, "info"), 0);
    text_printf(t, "\n%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " prompts measured\n",
                json_integer_value(json_object_get(summary, "measured")),
                json_integer_value(json_object_get(json_object_get(summary, "data"), "prompts")));
}

void measure_text(text *t, const json_t *summary)
{
    const json_t *overall = json_object_get(summary, "overall"), *task;
    const json_t *tasks = json_object_get(summary, "tasks");
    size_t width = name_width(summary), i;

    if (!json_is_object(overall)) {
        text_printf(t, "no prompt was measured\n");
        return;
    }
    json_array_foreach(tasks, i, task) add_answer(t, task, width);
    if (json_array_size(tasks) != 1)
        add_answer(t, overall, width);
    text_printf(t, "\n");
    add_head(t, summary);
    json_array_foreach(tasks, i, task) add_table(t, task);
    if (json_array_size(tasks) > 1)
        add_table(t, overall);
}

/* ------------------------------------------------------------------------------------- CSV */

static void add_cell(text *t, double value)
{
    if (isfinite(value))
        text_printf(t, ",%.9g", value);
    else
        text_printf(t, ",");
}

static void add_quoted(text *t, const char *s)
{
    text_append(t, "\"", 1);
    for (; *s; s++)
        text_append(t, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
    text_append(t, "\"", 1);
}

static void add_interval(text *t, const json_t *x)
{
    add_cell(t, measure_number(x, "estimate"));
    add_cell(t, measure_number(x, "low"));
    add_cell(t, measure_number(x, "high"));
}

static const char *const setting_numbers[] = {
    "speedup_predicted", "prediction_error", "tokens_per_second", "tau",
    "verify_cost",       "break_even_tau",   "share_off"};
static const char *const latency_numbers[] = {"p50", "p95", "p99", "max"};
static const char *const counter_numbers[] = {"emitted",   "blocks",          "plain_blocks",
                                              "drafted",   "verified",        "accepted",
                                              "discarded", "pipelined_blocks"};
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void add_rows(text *t, const json_t *o)
{
    const json_t *s;
    size_t i;

    json_array_foreach(json_object_get(o, "settings"), i, s)
    {
        add_quoted(t, measure_string(o, "task"));
        text_printf(t, ",%" JSON_INTEGER_FORMAT ",%s,%" JSON_INTEGER_FORMAT ",%s,%s",
                    json_integer_value(json_object_get(o, "prompts")), measure_string(o, "verdict"),
                    json_integer_value(json_object_get(o, "k")), measure_string(s, "name"),
                    measure_string(s, "drafter"));
        add_interval(t, json_object_get(s, "speedup"));
        add_interval(t, json_object_get(s, "alpha"));
        add_cell(t, measure_number(o, "c"));
        for (size_t k = 0; k < COUNT(setting_numbers); k++)
            add_cell(t, measure_number(s, setting_numbers[k]));
        for (size_t k = 0; k < COUNT(latency_numbers); k++)
            add_cell(t, measure_number(json_object_get(s, "latency_ms"), latency_numbers[k]));
        for (size_t k = 0; k < COUNT(counter_numbers); k++)
            add_cell(t, measure_number(json_object_get(s, "counters"), counter_numbers[k]));
        text_printf(t, "\r\n");
    }
}

void measure_csv(text *t, const json_t *summary)
{
    const json_t *task;
    size_t i;

    text_printf(t, "task,prompts,verdict,k,setting,drafter,speedup,speedup_low,speedup_high,alpha,"
                   "alpha_low,alpha_high,c");
    for (size_t k = 0; k < COUNT(setting_numbers); k++)
        text_printf(t, ",%s", setting_numbers[k]);
    for (size_t k = 0; k < COUNT(latency_numbers); k++)
        text_printf(t, ",%s_ms", latency_numbers[k]);
    for (size_t k = 0; k < COUNT(counter_numbers); k++)
        text_printf(t, ",%s", counter_numbers[k]);
    text_printf(t, "\r\n");
    json_array_foreach(json_object_get(summary, "tasks"), i, task) add_rows(t, task);
    if (json_is_object(json_object_get(summary, "overall")))
        add_rows(t, json_object_get(summary, "overall"));
}

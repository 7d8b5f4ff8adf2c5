/* The rows of `outrider compare`: see compare.h. What is read is untrusted; a number that isn't there is
 * shown as "-". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "compare.h"
#include "measure.h"

static const char *string_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "-";
}

static compare_row *add_row(compare_table *table, const char *label, bool is_heading)
{
    static compare_row lost; /* when memory ran out: written, never shown */

    if (table->n_rows == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        compare_row *grown = realloc(table->rows, capacity * sizeof(*grown));

        if (!grown) {
            table->failed = true;
            return &lost;
        }
        table->rows = grown;
        table->capacity = capacity;
    }
    compare_row *row = &table->rows[table->n_rows++];
    *row = (compare_row){.is_heading = is_heading};
    text_append_printable(&row->label, label, strlen(label), 0);
    return row;
}

static void add_number(text *t, double value, int digits, const char *unit)
{
    if (isfinite(value))
        text_printf(t, "%.*f%s", digits, value, unit);
    else
        text_printf(t, "-");
}

static void add_ratio(text *t, double value, double base)
{
    if (isfinite(value) && base > 0)
        text_printf(t, " (%.2fx)", value / base);
}

/* --------------------------------------------------------------------------------- measure */

/* NULL: overall. */
static const json_t *find_task(const json_t *root, const char *name)
{
    return name ? measure_find(json_object_get(root, "tasks"), "task", name)
                : json_object_get(root, "overall");
}

static const json_t *find_setting(const json_t *task, const char *name)
{
    return measure_find(json_object_get(task, "settings"), "name", name);
}

static void add_interval(text *t, const json_t *x, double factor, int digits, const char *unit)
{
    double low = factor * measure_number(x, "low");

    add_number(t, factor * measure_number(x, "estimate"), digits, unit);
    if (isfinite(low))
        text_printf(t, " (%.*f to %.*f)", digits, low, digits, factor * measure_number(x, "high"));
}

static void put_verdict(text *t, const json_t *task, const json_t *base)
{
    measure_answer a = measure_answer_of(task);

    (void)base;
    text_append_printable(t, text_string(&a.verdict), a.verdict.n, 0);
    if (strcmp(string_of(task, "verdict"), "dont") == 0) {
        text_printf(t, ", best ");
        text_append_printable(t, a.setting, strlen(a.setting), 0);
    }
    measure_answer_free(&a);
}

static void put_speedup(text *t, const json_t *task, const json_t *base)
{
    (void)base;
    add_interval(t, json_object_get(task, "speedup"), 1, 3, "x");
}

static void put_predicted(text *t, const json_t *task, const json_t *base)
{
    (void)base;
    add_number(t, measure_number(task, "speedup_predicted"), 3, "x");
}

static void put_acceptance(text *t, const json_t *task, const json_t *base)
{
    (void)base;
    add_interval(t, json_object_get(task, "alpha"), 100, 1, " %");
}

static void put_cost(text *t, const json_t *task, const json_t *base)
{
    (void)base;
    add_number(t, measure_number(task, "c"), 3, "");
}

static void put_rate(text *t, const json_t *task, const json_t *base, const char *setting)
{
    double rate = measure_number(find_setting(task, setting), "tokens_per_second");

    add_number(t, rate, 1, "");
    add_ratio(t, rate, measure_number(find_setting(base, setting), "tokens_per_second"));
}

static void put_plain_rate(text *t, const json_t *task, const json_t *base)
{
    put_rate(t, task, base, "plain");
}

static void put_auto_rate(text *t, const json_t *task, const json_t *base)
{
    put_rate(t, task, base, "auto");
}

static void put_p99(text *t, const json_t *task, const json_t *base)
{
    const json_t *latency = json_object_get(task, "latency_ms");

    (void)base;
    add_number(t, measure_number(json_object_get(latency, "plain"), "p99"), 2, "");
    text_printf(t, " to ");
    add_number(t, measure_number(json_object_get(latency, "auto"), "p99"), 2, "");
}

static void add_task(compare_table *table, const compare_result *results, size_t n,
                     const char *name)
{
    static const struct {
        const char *label;
        void (*put)(text *t, const json_t *task, const json_t *base);
    } lines[] = {
        {"verdict", put_verdict},
        {"speed-up", put_speedup},
        {"predicted, best K", put_predicted},
        {"acceptance", put_acceptance},
        {"draft step c", put_cost},
        {"plain tokens/s", put_plain_rate},
        {"auto tokens/s", put_auto_rate},
        {"p99 ms, plain to auto", put_p99},
    };

    add_row(table, name ? name : "overall", true);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        compare_row *row = add_row(table, lines[i].label, false);
        size_t column = 0;

        for (size_t k = 0; k < n; k++) {
            const json_t *task = find_task(results[k].root, name);

            if (results[k].refused.n)
                continue;
            if (json_is_object(task))
                lines[i].put(&row->cells[column], task, find_task(results[0].root, name));
            else
                text_printf(&row->cells[column], "-");
            column++;
        }
    }
}

static void add_measure_rows(compare_table *table, const compare_result *results, size_t n)
{
    const json_t *tasks = json_object_get(results[0].root, "tasks"), *task;
    size_t i;

    json_array_foreach(tasks, i, task) add_task(table, results, n, string_of(task, "task"));
    if (json_array_size(tasks) != 1)
        add_task(table, results, n, NULL);
}

/* ----------------------------------------------------------------------------------- bench */

static const json_t *find_test(const json_t *root, const json_t *like)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(root, "results"), i, entry)
    {
        if (strcmp(string_of(entry, "test"), string_of(like, "test")) == 0 &&
            json_equal(json_object_get(entry, "rows"), json_object_get(like, "rows")))
            return entry;
    }
    return NULL;
}

static void put_test(text *t, const json_t *entry, const json_t *base)
{
    double rate = measure_number(entry, "tokens_per_second");

    add_number(t, rate, 1, "");
    if (entry == base || !isfinite(rate))
        return;
    add_ratio(t, rate, measure_number(base, "tokens_per_second"));
    if (!(measure_number(entry, "min_s") > measure_number(base, "max_s")) &&
        !(measure_number(base, "min_s") > measure_number(entry, "max_s")))
        text_printf(t, " ~");
}

static void add_bench_rows(compare_table *table, const compare_result *results, size_t n)
{
    const json_t *base;
    size_t i;

    add_row(table, "tokens/s (~: the spreads overlap)", true);
    json_array_foreach(json_object_get(results[0].root, "results"), i, base)
    {
        char label[64];
        size_t column = 0;

        snprintf(label, sizeof(label), "%.40s %" JSON_INTEGER_FORMAT, string_of(base, "test"),
                 json_integer_value(json_object_get(base, "rows")));
        compare_row *row = add_row(table, label, false);
        for (size_t k = 0; k < n; k++) {
            if (!results[k].refused.n)
                put_test(&row->cells[column++], find_test(results[k].root, base), base);
        }
    }
}

void compare_make_table(compare_table *table, const compare_result *results, size_t n)
{
    for (size_t i = 0; i < n; i++)
        table->n_columns += results[i].refused.n == 0;
    if (strcmp(string_of(results[0].root, "schema"), BENCH_SCHEMA) == 0)
        add_bench_rows(table, results, n);
    else
        add_measure_rows(table, results, n);
    for (size_t i = 0; i < table->n_rows; i++) {
        table->failed |= table->rows[i].label.failed;
        for (size_t k = 0; k < table->n_columns; k++)
            table->failed |= table->rows[i].cells[k].failed;
    }
}

void compare_free_table(compare_table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        text_free(&table->rows[i].label);
        for (size_t k = 0; k < COMPARE_MAX; k++)
            text_free(&table->rows[i].cells[k]);
    }
    free(table->rows);
    *table = (compare_table){0};
}

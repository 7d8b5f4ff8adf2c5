/* Results of `outrider bench`: the table, the JSON object, and two of them side by side. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "identity.h"
#include "options.h"
#include "output.h"
#include "report.h"
#include "text.h"

const char *bench_test_name(enum bench_test test)
{
    static const char *const names[] = {
        [BENCH_DECODE] = "decode", [BENCH_VERIFY] = "verify",       [BENCH_PREFILL] = "prefill",
        [BENCH_DRAFT] = "draft",   [BENCH_SPECULATE] = "speculate",
    };

    return names[test];
}

/* ------------------------------------------------------------------------------- numbers */

typedef struct spread {
    double median, least, most;
} spread;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static spread spread_of(const bench_result *r)
{
    qsort(r->seconds, r->n, sizeof(*r->seconds), compare_doubles);
    return (spread){
        .median = (r->seconds[(r->n - 1) / 2] + r->seconds[r->n / 2]) / 2,
        .least = r->seconds[0],
        .most = r->seconds[r->n - 1],
    };
}

static double tokens_per_second(const bench_result *r, double seconds)
{
    return seconds > 0 ? (double)r->tokens / seconds : 0;
}

static double bytes_per_second(const bench_result *r, double seconds)
{
    return seconds > 0 ? (double)r->weight_bytes / seconds : 0;
}

/* --------------------------------------------------------------------------------- table */

static void add_row(text *t, const bench_report *report, const bench_result *r)
{
    spread s = spread_of(r);
    char name[32], share[64] = "";

    if (r->test == BENCH_SPECULATE && r->rows)
        snprintf(name, sizeof(name), "speculate K=%" PRIu32, r->rows);
    else if (r->test == BENCH_SPECULATE)
        snprintf(name, sizeof(name), "speculate off");
    else
        snprintf(name, sizeof(name), "%s %" PRIu32, bench_test_name(r->test), r->rows);
    text_printf(t, "%-14s %10s %10s %10s %10.1f", name, time_text(1e3 * s.median).s,
                time_text(1e3 * s.least).s, time_text(1e3 * s.most).s,
                tokens_per_second(r, s.median));
    if (r->weight_bytes) {
        double bandwidth = bytes_per_second(r, s.median);

        if (report->copy_bytes_per_second > 0)
            snprintf(share, sizeof(share), "%.0f %%",
                     100.0 * bandwidth / report->copy_bytes_per_second);
        text_printf(t, " %8.2f %6s %10" PRIu32 " %8.0f", bandwidth / 1e9, share, r->dispatches,
                    1e6 * r->host_seconds);
    } else if (r->acceptance >= 0) {
        text_printf(t, "   acceptance %.1f %%", 100.0 * r->acceptance);
    }
    text_printf(t, "\n");
}

bool bench_print(const bench_report *report)
{
    const engine *e = report->e;
    otr_tuning_info tuning = {.size = sizeof(tuning)};
    text t = {0};
    bool ok;

    text_append_printable(&t, e->target_info.name, strlen(e->target_info.name), 0);
    text_printf(&t, ", %s, %s parameters, %s\n", e->target_info.formats,
                count_text(e->target_info.n_parameters).s,
                bytes_text(e->target_info.weight_bytes).s);
    text_append_printable(&t, e->device.name, strlen(e->device.name), 0);
    text_printf(&t, ", ");
    text_append_printable(&t, e->device.driver_name, strlen(e->device.driver_name), 0);
    text_printf(&t, " ");
    text_append_printable(&t, e->device.driver_info, strlen(e->device.driver_info), 0);
    text_printf(&t, ", tier %" PRId32, e->device.tier);
    if (otr_device_tuning(e->context, e->device.index, &tuning) == OTR_OK)
        text_printf(&t, ", %s tuning", tuning.is_tuned ? "own" : "default");
    text_printf(&t, ", copies %.1f GB/s\n", report->copy_bytes_per_second / 1e9);
    text_printf(&t, "%-14s %10s %10s %10s %10s %8s %6s %10s %8s\n", "test", "median", "least",
                "most", "tokens/s", "GB/s", "copies", "dispatches", "host us");
    for (size_t i = 0; i < report->n_results; i++)
        add_row(&t, report, &report->results[i]);
    ok = !t.failed && output_write(text_string(&t), t.n);
    text_free(&t);
    return ok;
}

/* ---------------------------------------------------------------------------------- JSON */

static json_t *result_json(const bench_result *r)
{
    spread s = spread_of(r);
    bool is_pass = r->weight_bytes != 0;

    return json_pack(
        "{s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:o,s:o}", "test", bench_test_name(r->test),
        "rows", (json_int_t)r->rows, "repeats", (json_int_t)r->n, "median_s", s.median, "min_s",
        s.least, "max_s", s.most, "tokens_per_second", tokens_per_second(r, s.median),
        "weight_bytes", is_pass ? json_integer((json_int_t)r->weight_bytes) : json_null(),
        "bytes_per_second", is_pass ? json_real(bytes_per_second(r, s.median)) : json_null(),
        "dispatches", is_pass ? json_integer((json_int_t)r->dispatches) : json_null(), "host_us",
        is_pass ? json_real(1e6 * r->host_seconds) : json_null(), "acceptance",
        r->acceptance >= 0 ? json_real(r->acceptance) : json_null());
}

json_t *bench_json(const bench_report *report)
{
    json_t *object = json_object(), *results = json_array();
    int bad = json_object_set_new(object, "schema", json_string(BENCH_SCHEMA));

    for (size_t i = 0; i < report->n_results; i++)
        bad |= json_array_append_new(results, result_json(&report->results[i]));
    bad |= !identity_add(object, report->e);
    bad |= json_object_set_new(object, "depth", json_integer((json_int_t)report->depth));
    bad |= json_object_set_new(object, "cache_type",
                               json_string(cache_type_name(report->cache_type)));
    bad |= json_object_set_new(object, "verify", json_string(otr_verify_string(report->verify)));
    bad |= json_object_set_new(object, "copy_bytes_per_second",
                               json_real(report->copy_bytes_per_second));
    bad |= json_object_set_new(object, "results", results);
    if (bad) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---------------------------------------------------------------------------- comparison */

static json_t *read_results(const char *path, int *code)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    const char *schema = json_string_value(json_object_get(root, "schema"));

    if (!root)
        *code = fail(EXIT_CODE_INPUT, "%s is no JSON file: %s", path, error.text);
    else if (!schema || strcmp(schema, BENCH_SCHEMA) != 0 ||
             !json_is_array(json_object_get(root, "results")))
        *code = fail(EXIT_CODE_INPUT, "%s was not written by 'outrider bench --json'", path);
    if (!*code)
        return root;
    json_decref(root);
    return NULL;
}

static void add_side(text *t, const char *letter, const char *path, json_t *root)
{
    const json_t *tuned = json_object_get(
        json_object_get(json_object_get(root, "device"), "tuning"), "tuned");
    const char *device = json_string_value(
        json_object_get(json_object_get(root, "device"), "name"));
    const char *driver = json_string_value(
        json_object_get(json_object_get(root, "driver"), "info"));
    const char *model = json_string_value(json_object_get(json_object_get(root, "model"), "name"));
    const char *cache = json_string_value(json_object_get(root, "cache_type"));
    const char *parts[] = {path, model, device, driver};

    text_printf(t, "%s", letter);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        text_printf(t, i ? ", " : ": ");
        if (parts[i])
            text_append_printable(t, parts[i], strlen(parts[i]), 0);
    }
    cache = cache ? cache : cache_type_name(OTR_CACHE_F16);
    text_printf(t, ", depth %lld, cache ",
                (long long)json_integer_value(json_object_get(root, "depth")));
    text_append_printable(t, cache, strlen(cache), 0);
    if (tuned) /* not in results of programs that didn't tell */
        text_printf(t, ", %s tuning", json_is_true(tuned) ? "own" : "default");
    text_printf(t, "\n");
}

/* The entry of the same test and rows, NULL without one. */
static json_t *find_result(json_t *results, json_t *like)
{
    const char *test = json_string_value(json_object_get(like, "test"));
    size_t i;
    json_t *entry;

    json_array_foreach(results, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "test"));
        if (name && test && strcmp(name, test) == 0 &&
            json_integer_value(json_object_get(entry, "rows")) ==
                json_integer_value(json_object_get(like, "rows")))
            return entry;
    }
    return NULL;
}

static double milliseconds(json_t *entry, const char *key)
{
    return 1e3 * json_number_value(json_object_get(entry, key));
}

static void add_pair(text *t, json_t *a, json_t *b)
{
    const char *test = json_string_value(json_object_get(a, "test"));
    double a_ms = milliseconds(a, "median_s"), b_ms = milliseconds(b, "median_s");
    bool apart = milliseconds(b, "min_s") > milliseconds(a, "max_s") ||
                 milliseconds(a, "min_s") > milliseconds(b, "max_s");

    text name = {0};

    text_append_printable(&name, test ? test : "?", strlen(test ? test : "?"), 0);
    text_printf(t, "%-10s %5lld %10s %10s", text_string(&name),
                (long long)json_integer_value(json_object_get(a, "rows")), time_text(a_ms).s,
                time_text(b_ms).s);
    text_free(&name);
    if (a_ms > 0 && b_ms > 0)
        text_printf(t, " %6.2fx%s\n", a_ms / b_ms, apart ? "" : "  (spreads overlap)");
    else
        text_printf(t, " %7s\n", "-");
}

int bench_compare(const char *first, const char *second)
{
    int code = EXIT_CODE_OK;
    json_t *a = read_results(first, &code), *b = code ? NULL : read_results(second, &code);
    json_t *results = json_object_get(a, "results"), *entry;
    text t = {0};
    size_t i, n_pairs = 0;

    if (code)
        goto done;
    add_side(&t, "A", first, a);
    add_side(&t, "B", second, b);
    text_printf(&t, "%-10s %5s %10s %10s %7s\n", "test", "rows", "A", "B", "A / B");
    json_array_foreach(results, i, entry)
    {
        json_t *other = find_result(json_object_get(b, "results"), entry);
        if (other)
            add_pair(&t, entry, other);
        n_pairs += other != NULL;
    }
    if (!n_pairs)
        code = fail(EXIT_CODE_INPUT, "%s and %s have no test in common", first, second);
    else if (t.failed)
        code = fail_memory();
    else if (!output_write(text_string(&t), t.n))
        code = EXIT_CODE_FAILED;
done:
    text_free(&t);
    json_decref(b);
    json_decref(a);
    return code;
}

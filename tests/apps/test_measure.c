/* `outrider measure` on a device: the numbers of text, JSON, CSV and HTML are the same, follow from what was
 * measured of each prompt, and add up; what is measured is what was asked for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure_folder.h"

static double counter(const json_t *setting, const char *key)
{
    return number(json_object_get(setting, "counters"), key);
}

static void check_counters(const json_t *group)
{
    double prompts = number(group, "prompts");
    const json_t *s;
    size_t i;

    json_array_foreach(json_object_get(group, "settings"), i, s)
    {
        ck_assert_double_ge(counter(s, "drafted"), counter(s, "verified"));
        ck_assert_double_ge(counter(s, "verified"), counter(s, "accepted"));
        ck_assert_double_eq(counter(s, "emitted"), prompts + counter(s, "accepted") +
                                                       counter(s, "blocks") -
                                                       counter(s, "discarded"));
        if (i == 0)
            ck_assert_double_eq(counter(s, "plain_blocks"), counter(s, "blocks"));
        else
            ck_assert_double_eq(
                counter(s, "emitted"),
                counter(json_array_get(json_object_get(group, "settings"), 0), "emitted"));
    }
}

static void check_sums(const json_t *root)
{
    static const char *const names[] = {"emitted",  "blocks",   "plain_blocks", "drafted",
                                        "verified", "accepted", "discarded"};
    const json_t *overall = json_object_get(json_object_get(root, "overall"), "settings");
    const json_t *tasks = json_object_get(root, "tasks"), *task;
    double prompts = 0;
    size_t i;

    for (size_t s = 0; s < json_array_size(overall); s++)
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            double sum = 0;

            json_array_foreach(tasks, i, task)
                sum += counter(json_array_get(json_object_get(task, "settings"), s), names[k]);
            ck_assert_double_eq(sum, counter(json_array_get(overall, s), names[k]));
        }
    json_array_foreach(tasks, i, task) prompts += number(task, "prompts");
    ck_assert_double_eq(prompts, number(json_object_get(root, "overall"), "prompts"));
}

/* Again from the times of the prompts. */
static void check_speedups(const json_t *root, const json_t *task)
{
    const json_t *settings = json_object_get(task, "settings"), *prompt;
    size_t i;

    for (size_t s = 1; s < json_array_size(settings); s++) {
        double sum = 0, squares = 0, n = 0, mean, half, logs[64];
        const json_t *x = json_object_get(json_array_get(settings, s), "speedup");

        json_array_foreach(json_object_get(root, "prompts"), i, prompt)
        {
            const json_t *runs = json_object_get(prompt, "runs");

            if (!json_equal(json_object_get(prompt, "task"), json_object_get(task, "task")))
                continue;
            logs[(int)n] = log(number(json_array_get(runs, 0), "seconds") /
                               number(json_array_get(runs, s), "seconds"));
            sum += logs[(int)n];
            n++;
        }
        mean = sum / n;
        for (int k = 0; k < (int)n; k++)
            squares += (logs[k] - mean) * (logs[k] - mean);
        half = 4.30265 * sqrt(squares / 2 / 3); /* three prompts a task */
        ck_assert_double_eq(n, 3);
        ck_assert_double_le(fabs(log(number(x, "estimate")) - mean), 1e-6);
        ck_assert_double_le(fabs(log(number(x, "high")) - mean - half), 1e-4);
        ck_assert_double_le(fabs(mean - log(number(x, "low")) - half), 1e-4);
    }
}

static const json_t *run_of(const json_t *prompt, size_t setting)
{
    return json_array_get(json_object_get(prompt, "runs"), setting);
}

/* The logarithm of what a prompt's own acceptance makes of the costs of all of the group. */
static double predict_by_model(const json_t *prompt, size_t setting, double v, double c, int k)
{
    const json_t *run = run_of(prompt, setting);
    double alpha = number(run, "accepted") / number(run, "verified"), tokens = 1, survival = 1;
    double plain = json_number_value(json_array_get(json_object_get(prompt, "row_ms"), 0));

    for (int i = 0; i < k; i++)
        tokens += survival *= alpha;
    return -log((v + k * c) / tokens +
                number(prompt, "draft_prefill_ms") / plain / (number(run, "emitted") - 1));
}

/* Again from counters and single passes; how far a prompt is from what the others of its task predict. The
 * group is a task, or all. */
static void check_predictions(const json_t *root, const json_t *group, bool is_task)
{
    const json_t *settings = json_object_get(group, "settings"), *prompt;
    const json_t *used[16];
    size_t n = 0, i;

    json_array_foreach(json_object_get(root, "prompts"), i, prompt)
    {
        if (!is_task || json_equal(json_object_get(prompt, "task"), json_object_get(group, "task")))
            used[n++] = prompt;
        ck_assert_uint_le(n, 16);
    }
    for (size_t s = 1; s + 1 < json_array_size(settings); s++) {
        const json_t *setting = json_array_get(settings, s);
        int k = (int)number(setting, "draft_max");
        double rows = 0, plain = 0, draft_ms = 0, predicted[16], mean = 0, squares = 0;

        for (i = 0; i < n; i++) {
            const json_t *row_ms = json_object_get(used[i], "row_ms");

            rows += json_number_value(json_array_get(row_ms, (size_t)k));
            plain += json_number_value(json_array_get(row_ms, 0));
            draft_ms += number(used[i], "draft_step_ms");
        }
        for (i = 0; i < n; i++) {
            predicted[i] = predict_by_model(used[i], s, rows / plain, draft_ms / plain, k);
            mean += predicted[i] / (double)n;
        }
        for (i = 0; i < n; i++) {
            double others = 0, n_others = 0, measured;

            for (size_t j = 0; j < n; j++)
                if (j != i && json_equal(json_object_get(used[i], "task"),
                                         json_object_get(used[j], "task"))) {
                    others += predicted[j];
                    n_others++;
                }
            measured = log(number(run_of(used[i], 0), "seconds") /
                           number(run_of(used[i], s), "seconds"));
            squares += pow(measured - others / n_others, 2) / (double)n;
        }
        ck_assert_double_le(fabs(log(number(setting, "speedup_predicted")) - mean), 1e-6);
        ck_assert_double_le(fabs(number(setting, "prediction_error") - expm1(sqrt(squares))), 1e-6);
    }
}

/* The cell of a row of CSV whose first five are given; only the first is quoted here. */
static double csv_number(const char *row, int column)
{
    const char *at = strstr(row + 1, "\",") + 1;

    for (int i = 1; i < column; i++)
        at = strchr(at + 1, ',');
    ck_assert_int_eq(*at, ',');
    return at[1] == ',' || at[1] == '\r' ? (double)NAN : strtod(at + 1, NULL);
}

static void check_same(double a, double b)
{
    ck_assert_msg((isnan(a) && isnan(b)) || fabs(a - b) <= 1e-8 * fabs(b), "%.10g, not %.10g", a,
                  b);
}

static void check_csv(const json_t *root, const char *content)
{
    const char *row = strchr(content, '\n') + 1;
    size_t n_groups = json_array_size(json_object_get(root, "tasks")) + 1;

    for (size_t i = 0; i < n_groups; i++) {
        const json_t *group = i + 1 < n_groups ? json_array_get(json_object_get(root, "tasks"), i)
                                               : json_object_get(root, "overall");
        const json_t *s;
        size_t k;

        json_array_foreach(json_object_get(group, "settings"), k, s)
        {
            const json_t *latency = json_object_get(s, "latency_ms");

            check_same(csv_number(row, 1), number(group, "prompts"));
            check_same(csv_number(row, 3), number(group, "k"));
            check_same(csv_number(row, 6), number(json_object_get(s, "speedup"), "estimate"));
            check_same(csv_number(row, 7), number(json_object_get(s, "speedup"), "low"));
            check_same(csv_number(row, 9), number(json_object_get(s, "alpha"), "estimate"));
            check_same(csv_number(row, 12), number(group, "c"));
            check_same(csv_number(row, 13), number(s, "speedup_predicted"));
            check_same(csv_number(row, 14), number(s, "prediction_error"));
            check_same(csv_number(row, 15), number(s, "tokens_per_second"));
            check_same(csv_number(row, 16), number(s, "tau"));
            check_same(csv_number(row, 22), number(latency, "p99"));
            check_same(csv_number(row, 24), counter(s, "emitted"));
            check_same(csv_number(row, 30), counter(s, "discarded"));
            row = strchr(row, '\n') + 1;
        }
    }
    ck_assert_int_eq(*row, '\0');
}

static void expect(const char *content, const char *format, double value)
{
    char wanted[64];

    snprintf(wanted, sizeof(wanted), format, value);
    ck_assert_msg(strstr(content, wanted) != NULL, "no '%s' in:\n%.4000s", wanted, content);
}

/* What a page shows of a group stands in the text with the same digits. */
static void check_shown(const json_t *group, const char *text, const char *page)
{
    const json_t *s, *speedup = json_object_get(group, "speedup");
    size_t i;

    expect(text, ": %.3fx", number(speedup, "estimate"));
    expect(text, "(95 %%: %.3f to ", number(speedup, "low"));
    expect(page, "<b>%.3f×</b>", number(speedup, "estimate"));
    expect(page, "95 %%: %.3f to ", number(speedup, "low"));
    json_array_foreach(json_object_get(group, "settings"), i, s)
    {
        const json_t *latency = json_object_get(s, "latency_ms");

        expect(text, " %.1f ", number(s, "tokens_per_second"));
        expect(page, "<td>%.1f</td>", number(s, "tokens_per_second"));
        expect(text, " %.2f ", number(latency, "p99"));
        expect(page, "<td>%.2f</td>", number(latency, "p99"));
        if (i)
            expect(text, " %.3f ", number(json_object_get(s, "speedup"), "estimate"));
        if (i)
            expect(page, "<td>%.3f</td>", number(json_object_get(s, "speedup"), "estimate"));
        if (!isnan(number(s, "prediction_error"))) {
            expect(text, " %.1f ", 100 * number(s, "prediction_error"));
            expect(page, "<td>%.1f</td>", 100 * number(s, "prediction_error"));
        }
    }
}

/* As many texts as tokens that replaced a drafted one, and some where there must be. */
static void check_rejected(const json_t *root, bool must_be)
{
    const json_t *prompt, *run;
    size_t i, k, n_all = 0;

    json_array_foreach(json_object_get(root, "prompts"), i, prompt)
        json_array_foreach(json_object_get(prompt, "runs"), k, run)
    {
        const char *at = json_string_value(json_object_get(run, "origins"));
        size_t n = 0;

        for (; *at; at++)
            n += *at == 'r';
        ck_assert(json_is_array(json_object_get(run, "rejected")));
        ck_assert_uint_eq(json_array_size(json_object_get(run, "rejected")), n);
        n_all += n;
    }
    ck_assert(n_all > 0 || !must_be);
}

START_TEST(test_reports_agree)
{
    struct program_result r;
    char *page, *table;
    json_t *root, *task;
    size_t i;

    begin();
    write_prompts(3);
    r = MEASURE("--json", json, "--csv", csv, "--html", html, "--validate");
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_str_eq(r.err, "");
    root = load(json);
    page = read_file(html);
    table = read_file(csv);
    ck_assert_str_eq(json_string_value(json_object_get(root, "schema")), "outrider-measure-1");
    ck_assert(json_is_true(json_object_get(root, "finished")));
    ck_assert_uint_eq(json_array_size(json_object_get(root, "tasks")), 2);
    json_array_foreach(json_object_get(root, "tasks"), i, task)
    {
        const char *verdict = json_string_value(json_object_get(task, "verdict"));
        double k = number(task, "k");

        ck_assert(strcmp(verdict, "use") == 0    ? k == 2 || k == 5 || k == -1
                  : strcmp(verdict, "dont") == 0 ? k == 0
                                                 : strcmp(verdict, "auto") == 0 && k == -1);
        check_counters(task);
        check_speedups(root, task);
        check_predictions(root, task, true);
        check_shown(task, r.out, page);
        ck_assert_uint_eq(json_array_size(json_object_get(task, "verify_cost")), 17);
        ck_assert_double_gt(number(task, "c"), 0);
    }
    check_counters(json_object_get(root, "overall"));
    check_predictions(root, json_object_get(root, "overall"), false);
    check_sums(root);
    check_csv(root, table);
    check_shown(json_object_get(root, "overall"), r.out, page);
    /* The answer is first, one line each. */
    ck_assert_int_eq(strncmp(r.out, "<b>\"&'=x", 8), 0);
    /* One file that loads nothing and runs nothing; texts are escaped. */
    ck_assert_ptr_null(strstr(page, "<script"));
    ck_assert_ptr_null(strstr(page, "http:"));
    ck_assert_ptr_null(strstr(page, "https:"));
    ck_assert_ptr_null(strstr(page, "<b>\"&"));
    ck_assert_ptr_nonnull(strstr(page, "&lt;b&gt;&quot;&amp;&#39;=x"));
    ck_assert_ptr_nonnull(strstr(page, "prefers-color-scheme:dark"));
    ck_assert_ptr_nonnull(strstr(page, "</html>"));
    ck_assert_ptr_nonnull(strstr(page, "class=\"strip\""));
    check_rejected(root, false);
    free(page);
    free(table);
    json_decref(root);
    program_free(&r);
    end();
}
END_TEST

/* Plain text, one prompt: no interval, and no verdict but auto. */
START_TEST(test_text_and_stdout)
{
    struct program_result r;
    char task[128];
    json_t *root, *only;

    begin();
    write_file(data, "Once upon a time there was a cat.\nIt sat on a mat and was happy.\n");
    snprintf(task, sizeof(task), "cats=%s", data);
    r = RUN("measure", "-m", target, "-md", draft, "--task", task, "--prompts", "1", "--draft-max",
            "3", "-n", "8", "--ignore-eos", "--json", "-", "--no-text");
    root = program_json(&r, 0);
    ck_assert_str_eq(r.err, "");
    only = json_array_get(json_object_get(root, "tasks"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(only, "task")), "cats");
    ck_assert_str_eq(json_string_value(json_object_get(only, "verdict")), "auto");
    ck_assert(json_is_null(json_object_get(json_object_get(only, "speedup"), "low")));
    ck_assert(json_is_null(
        json_object_get(json_array_get(json_object_get(root, "prompts"), 0), "pieces")));
    json_decref(root);
    program_free(&r);
    end();
}
END_TEST

/* From the counters and single passes of the prompts, with v of a block's mean rows. */
static double predict_by_ngram(const json_t *root, size_t setting)
{
    const json_t *prompts = json_object_get(root, "prompts"), *prompt;
    double rows_ms[17] = {0}, sum = 0;
    size_t i;

    json_array_foreach(prompts, i, prompt) for (size_t k = 0; k < 17; k++)
        rows_ms[k] += json_number_value(json_array_get(json_object_get(prompt, "row_ms"), k));
    json_array_foreach(prompts, i, prompt)
    {
        const json_t *run = json_array_get(json_object_get(prompt, "runs"), setting);
        double plain = number(run, "plain_blocks"), drafting = number(run, "blocks") - plain;
        double drafted = drafting > 0 ? number(run, "drafted") / drafting : 0;
        int below = (int)drafted;
        double ms = rows_ms[below] + (drafted - below) * (rows_ms[below + 1] - rows_ms[below]);

        sum += log((number(run, "accepted") + number(run, "blocks")) /
                   (plain + drafting * ms / rows_ms[0]));
    }
    return exp(sum / (double)json_array_size(prompts));
}

static void check_without_draft(const json_t *root)
{
    static const char *const names[] = {"plain", "ngram K=4", "ngram K=8", "auto"};
    const json_t *overall = json_object_get(root, "overall");
    const json_t *settings = json_object_get(overall, "settings");
    double k = number(overall, "k"), drafted = 0;
    char options[64];

    ck_assert_uint_eq(json_array_size(settings), 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(json_string_value(json_object_get(json_array_get(settings, i), "name")),
                         names[i]);
    for (size_t i = 1; i < 3; i++) {
        const json_t *s = json_array_get(settings, i);

        drafted += counter(s, "drafted");
        ck_assert_double_le(fabs(log(number(s, "speedup_predicted") / predict_by_ngram(root, i))),
                            1e-6);
        check_same(number(s, "break_even_tau"), number(s, "verify_cost"));
    }
    ck_assert_double_gt(drafted, 0);
    ck_assert(json_is_null(json_object_get(root, "draft")));
    ck_assert(json_is_null(json_object_get(overall, "c")));
    ck_assert(json_is_null(
        json_object_get(json_array_get(json_object_get(root, "prompts"), 0), "draft_step_ms")));
    snprintf(options, sizeof(options), "--draft-max %.0f%s", k, k != 0 ? " --drafter ngram" : "");
    ck_assert_str_eq(json_string_value(json_object_get(overall, "run_options")), options);
}

/* n-gram lookup alone: a verdict, a prediction, and no cost of a draft. */
START_TEST(test_without_draft)
{
    struct program_result r;
    char *page;
    json_t *root;

    begin();
    write_file(data, "{\"prompt\": \"One two three. One two three. One two three. One two\"}\n"
                     "{\"prompt\": \"Lily saw a cat. Tom saw a cat. Lily saw a cat. Tom\"}\n");
    r = RUN("measure", "-m", target, "--data", data, "-n", "24", "--temp", "0", "--ignore-eos",
            "--json", json, "--html", html);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_str_eq(r.err, "");
    root = load(json);
    page = read_file(html);
    check_without_draft(root);
    check_counters(json_object_get(root, "overall"));
    check_shown(json_object_get(root, "overall"), r.out, page);
    ck_assert_ptr_nonnull(strstr(r.out, "without a draft"));
    ck_assert_ptr_nonnull(strstr(page, "class=\"ring"));
    ck_assert_ptr_nonnull(strstr(page, "where a ring is above the line"));
    /* One task needs no sum. */
    ck_assert_ptr_null(strstr(page, "<bdi>overall</bdi>"));
    check_rejected(root, true);
    ck_assert_ptr_nonnull(strstr(strstr(page, "class=\"strip\""), "<del>"));
    ck_assert_ptr_null(strstr(r.out, "nan"));
    ck_assert_ptr_null(strstr(page, "nan"));
    free(page);
    program_free(&r);
    json_decref(root);
    /* A draft that isn't to be loaded, and gone on with. */
    r = RUN("measure", "-m", target, "-md", draft, "--draft-max", "0", "--data", data, "-n", "24",
            "--temp", "0", "--ignore-eos", "--resume", json);
    ck_assert_msg(r.code == 0, "%s", r.err);
    program_free(&r);
    end();
}
END_TEST

/* Auto has the drafters that are measured, and so has what is to be run. */
START_TEST(test_drafters_of_auto)
{
    static const struct {
        const char *ngram, *drafter;
    } cases[] = {{NULL, "model"}, {"3", "both"}};

    begin();
    write_prompts(1);
    for (size_t i = 0; i < 2; i++) {
        struct program_result r = RUN("measure", "-m", target, "-md", draft, "--data", data,
                                      "--draft-max", "2", "-n", "16", "--ignore-eos", "--json",
                                      json, cases[i].ngram ? "--ngram" : NULL, cases[i].ngram);
        const json_t *settings, *last;
        char options[64];
        json_t *root;

        ck_assert_msg(r.code == 0, "%s", r.err);
        root = load(json);
        settings = json_object_get(json_object_get(root, "overall"), "settings");
        last = json_array_get(settings, json_array_size(settings) - 1);
        ck_assert_uint_eq(json_array_size(settings), 3 + i);
        ck_assert_str_eq(json_string_value(json_object_get(last, "drafter")), cases[i].drafter);
        ck_assert_str_eq(
            json_string_value(json_object_get(json_object_get(root, "options"), "auto_drafter")),
            cases[i].drafter);
        if (number(json_object_get(root, "overall"), "k") < 0) {
            snprintf(options, sizeof(options), "--draft-max -1 --drafter %s", cases[i].drafter);
            ck_assert_str_eq(
                json_string_value(json_object_get(json_object_get(root, "overall"), "run_options")),
                options);
        }
        json_decref(root);
        program_free(&r);
    }
    end();
}
END_TEST

/* What is measured is what was asked for: the draft on a queue of its own, ahead of the target, or not. */
START_TEST(test_schedule)
{
    static const char *const schedules[] = {"serial", "pipelined"};

    begin();
    write_prompts(1);
    for (size_t i = 0; i < 2; i++) {
        struct program_result r = MEASURE("--schedule", schedules[i], "--draft-device", "0",
                                          "--json", json, "--html", html);
        const json_t *options, *setting;
        json_t *root;

        ck_assert_msg(r.code == 0, "%s", r.err);
        root = load(json);
        options = json_object_get(root, "options");
        setting = json_array_get(json_object_get(json_object_get(root, "overall"), "settings"), 1);
        ck_assert_str_eq(json_string_value(json_object_get(options, "schedule")), schedules[i]);
        ck_assert(json_is_true(json_object_get(options, "draft_apart")));
        ck_assert(json_is_object(json_object_get(root, "draft_device")));
        ck_assert_int_eq(counter(setting, "pipelined_blocks") > 0, i == 1);
        ck_assert_int_eq(isnan(number(setting, "speedup_predicted")) != 0, i == 1);
        ck_assert_int_eq(isnan(number(setting, "break_even_tau")) != 0, i == 1);
        ck_assert_double_gt(number(setting, "verify_cost"), 0);
        json_decref(root);
        program_free(&r);
    }
    EXPECT_REFUSED(MEASURE("--resume", json, "--draft-device", "0"), 3, json, "other options");
    EXPECT_REFUSED(MEASURE("--schedule", "never"), 2, "--schedule");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_reports_agree,    test_text_and_stdout, test_without_draft,
                                  test_drafters_of_auto, test_schedule,        NULL};

    return measure_test("measure", tests);
}

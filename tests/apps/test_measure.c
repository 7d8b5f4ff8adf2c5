/* `outrider measure` and `outrider compare` on a device: the numbers of text, JSON, CSV and HTML are the
 * same, counters add up, bad input and outputs are refused before the work, and what was measured
 * survives Ctrl-C and is gone on with.
 *
 * TEST_TARGET and TEST_DRAFT name the models. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

static const char *target, *draft;
static char folder[64];
static char *data, *json, *csv, *html;

#define HOSTILE "<b>\\\"&'=x"

static char *in_folder(const char *name)
{
    char *path = NULL;

    ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
    return path;
}

static void write_file(const char *path, const char *content)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(content, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *content = calloc(1, 1 << 22);

    ck_assert_msg(f != NULL, "no file %s", path);
    ck_assert_ptr_nonnull(content);
    ck_assert_uint_lt(fread(content, 1, (1 << 22) - 1, f), (1 << 22) - 1);
    fclose(f);
    return content;
}

static void begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/outrider-measure-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    data = in_folder("prompts.jsonl");
    json = in_folder("result.json");
    csv = in_folder("result.csv");
    html = in_folder("result.html");
}

static void end(void)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            /* Nothing half-written is left. */
            ck_assert_ptr_null(strstr(entry->d_name, ".part"));
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    closedir(dir);
    rmdir(folder);
    free(data);
    free(json);
    free(csv);
    free(html);
}

static void write_prompts(int n_each)
{
    char content[32768];
    int n = 0;

    for (int i = 0; i < n_each; i++) {
        n += snprintf(
            content + n, sizeof(content) - (size_t)n,
            "{\"task\": \"" HOSTILE "\", \"prompt\": \"One day %d\", \"max_tokens\": 14}\n"
            "{\"task\": \"tales\", \"prompt\": \"Lily saw the %d\", \"temperature\": 0}\n",
            i, i);
        ck_assert_int_lt(n, (int)sizeof(content));
    }
    write_file(data, content);
}

#define MEASURE(...)                                                                               \
    RUN("measure", "-m", target, "-md", draft, "--data", data, "--draft-max", "2,5", "-n", "16",   \
        "--ignore-eos", __VA_ARGS__)

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    ck_assert_msg(root != NULL, "%s: %s", path, error.text);
    return root;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static double counter(const json_t *setting, const char *key)
{
    return number(json_object_get(setting, "counters"), key);
}

/* ----------------------------------------------------------------------------------- numbers */

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
            check_same(csv_number(row, 14), number(s, "tokens_per_second"));
            check_same(csv_number(row, 15), number(s, "tau"));
            check_same(csv_number(row, 21), number(latency, "p99"));
            check_same(csv_number(row, 23), counter(s, "emitted"));
            check_same(csv_number(row, 29), counter(s, "discarded"));
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
        check_shown(task, r.out, page);
        ck_assert_uint_eq(json_array_size(json_object_get(task, "verify_cost")), 17);
        ck_assert_double_gt(number(task, "c"), 0);
    }
    check_counters(json_object_get(root, "overall"));
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
    snprintf(options, sizeof(options), "--draft-max %.0f%s", k, k > 0 ? " --drafter ngram" : "");
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

/* ----------------------------------------------------------------------------------- refusals */

static void refuse_data(const char *content, const char *line, const char *why)
{
    write_file(data, content);
    EXPECT_REFUSED(MEASURE("--json", json), 3, data, line, why);
    ck_assert_int_ne(access(json, F_OK), 0);
}

START_TEST(test_bad_input)
{
    char longest[4096];

    begin();
    refuse_data("", "", "is empty");
    refuse_data("\n\n", "", "has no prompts");
    refuse_data("{\"prompt\": \"x\"}\n\n{\"prompt\": \n", "line 3", "");
    refuse_data("{\"prompt\": \"x\"}\nhello\n", "line 2", "");
    refuse_data("{\"text\": \"x\"}\n", "line 1", "no \"prompt\"");
    refuse_data("{\"prompt\": 3}\n", "line 1", "no string");
    refuse_data("{\"prompt\": \"\"}\n", "line 1", "empty");
    refuse_data("{\"prompt\": \"x\"}\n{\"messages\": []}\n", "line 2", "chat template");
    refuse_data("{\"prompt\": \"x\", \"max_tokens\": 1}\n", "line 1", "max_tokens");
    refuse_data("{\"prompt\": \"x\", \"temperature\": -1}\n", "line 1", "temperature");
    refuse_data("{\"prompt\": \"x\", \"task\": \"\"}\n", "line 1", "task");
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "{\"prompt\": \"", 12);
    memcpy(longest + sizeof(longest) - 4, "\"}\n", 4);
    refuse_data(longest, "line 1", "context");
    EXPECT_REFUSED(RUN("measure", "--data", "/nonexistent"), 3, "/nonexistent");
    EXPECT_REFUSED(RUN("measure"), 2, "--data");
    EXPECT_REFUSED(RUN("measure", "-m", target, "--data", data, "--draft-max", "2"), 2, "-md");
    EXPECT_REFUSED(RUN("measure", "--data", data, "--draft-max", "0,2"), 2, "--draft-max");
    EXPECT_REFUSED(RUN("measure", "--task", "x"), 2, "NAME=PATH");
    EXPECT_REFUSED(RUN("measure", "--data", data, "--budget", "5x"), 2, "--budget");
    EXPECT_REFUSED(RUN("measure", "--data", data, "--draft-max", "17"), 2, "--draft-max");
    EXPECT_REFUSED(RUN("measure", "--data", data, "--json", "-", "--csv", "-"), 2, "one of");
    end();
}
END_TEST

START_TEST(test_cannot_write)
{
    char *small, *filler, *old;
    struct program_result r;
    FILE *f;

    begin();
    write_prompts(2);
    EXPECT_REFUSED(MEASURE("--json", "/nonexistent/x.json"), 1, "/nonexistent/x.json");
    EXPECT_REFUSED(MEASURE("--html", folder), 1, folder, "directory");
    small = in_folder("small");
    ck_assert_int_eq(mkdir(small, 0700), 0);
    if (mount("tmpfs", small, "tmpfs", 0, "size=8k") != 0) {
        printf("a full disk needs the right to mount: not tested (%s)\n", strerror(errno));
    } else {
        filler = in_folder("small/filler");
        old = in_folder("small/old.json");
        write_file(old, "{}\n");
        f = fopen(filler, "w");
        ck_assert_ptr_nonnull(f);
        while (fputc('x', f) != EOF && fflush(f) == 0)
            continue;
        fclose(f);
        r = MEASURE("--json", old);
        unlink(filler);
        char *kept = read_file(old);
        ck_assert_str_eq(kept, "{}\n");
        free(kept);
        umount(small);
        EXPECT_REFUSED(r, 1, old, "No space left");
        free(filler);
        free(old);
    }
    rmdir(small);
    free(small);
    end();
}
END_TEST

/* A disk that fills after the work began: the text is still given, nothing half-written. */
START_TEST(test_result_without_a_place)
{
    struct program_result r;

    begin();
    write_prompts(2);
    r = MEASURE("--csv", "/dev/full");
    ck_assert_int_eq(r.code, 1);
    ck_assert_ptr_nonnull(strstr(r.err, "/dev/full"));
    ck_assert_ptr_nonnull(strstr(r.err, "No space left"));
    ck_assert_ptr_nonnull(strstr(r.out, "overall"));
    program_free(&r);
    end();
}
END_TEST

/* ------------------------------------------------------------------------- ending and going on */

START_TEST(test_interrupt_and_resume)
{
    struct program_result r;
    json_t *before, *after, *other, *kept;
    size_t n_before;

    begin();
    write_prompts(200);
    const char *const arguments[] = {"measure", "-m",           target,        "-md", draft,
                                     "--data",  data,           "--draft-max", "2,5", "-n",
                                     "16",      "--ignore-eos", "--json",      json,  NULL};
    r = program_run(
        &(struct program_call){.arguments = arguments, .signal = SIGINT, .signal_after_s = 5});
    ck_assert_int_eq(r.code, 130);
    ck_assert_str_eq(r.err, "");
    before = load(json);
    n_before = json_array_size(json_object_get(before, "prompts"));
    ck_assert_uint_gt(n_before, 0);
    ck_assert_uint_lt(n_before, 400);
    ck_assert_double_eq(number(before, "measured"), (double)n_before);
    ck_assert(json_is_false(json_object_get(before, "finished")));
    ck_assert_ptr_nonnull(strstr(r.out, "overall"));
    program_free(&r);

    r = MEASURE("--resume", json, "--budget", "1s");
    ck_assert_msg(r.code == 0, "%s", r.err);
    program_free(&r);
    after = load(json);
    kept = json_object_get(after, "prompts");
    ck_assert_uint_gt(json_array_size(kept), n_before);
    for (size_t i = 0; i < n_before; i++)
        ck_assert(json_equal(json_array_get(kept, i),
                             json_array_get(json_object_get(before, "prompts"), i)));
    json_decref(after);

    /* Another measurement, and a damaged one. */
    write_prompts(201);
    EXPECT_REFUSED(MEASURE("--resume", json), 3, json, "other prompts");
    write_prompts(200);
    EXPECT_REFUSED(MEASURE("--resume", json, "-s", "7"), 3, json, "other options");
    other = json_array_get(
        json_object_get(json_array_get(json_object_get(before, "prompts"), 0), "runs"), 1);
    json_object_set_new(other, "accepted", json_integer(1000));
    ck_assert_int_eq(json_dump_file(before, json, 0), 0);
    EXPECT_REFUSED(MEASURE("--resume", json), 3, json, "prompt 1 in it is damaged");
    EXPECT_REFUSED(MEASURE("--resume", data), 3, data);
    json_decref(before);
    end();
}
END_TEST

/* ------------------------------------------------------------------------------------- compare */

static void put(json_t *root, const char *object, const char *key, const char *value)
{
    json_object_set_new(json_object_get(root, object), key, json_string(value));
}

START_TEST(test_compare)
{
    struct program_result r;
    char *other = NULL, *page;
    json_t *root;

    begin();
    other = in_folder("other.json");
    write_prompts(2);
    r = MEASURE("--json", json, "-q");
    ck_assert_msg(r.code == 0, "%s", r.err);
    program_free(&r);
    root = load(json);
    put(root, "device", "name", "GPU <i>");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    r = RUN("compare", json, other, "--html", html);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "plain tokens/s"));
    ck_assert_ptr_nonnull(strstr(r.out, "(1.00x)"));
    ck_assert_ptr_nonnull(strstr(r.out, "GPU <i>"));
    page = read_file(html);
    ck_assert_ptr_nonnull(strstr(page, "GPU &lt;i&gt;"));
    ck_assert_ptr_null(strstr(page, "<i>"));
    free(page);
    program_free(&r);

    put(root, "draft", "fnv1a64", "0123456789abcdef");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "another file of the draft's name");
    put(root, "draft", "name", "another");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "both its models and its device");
    put(root, "data", "fnv1a64", "0123456789abcdef");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "other prompts", "0123456789abcdef");
    json_object_set_new(root, "schema", json_string("outrider-measure-9"));
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "another schema", "outrider-measure-9");
    EXPECT_REFUSED(RUN("compare", other, json), 3, other, "outrider-measure-9");
    EXPECT_REFUSED(RUN("compare", json), 2, "2 to 16");
    EXPECT_REFUSED(RUN("compare", json, data), 3, data);
    EXPECT_REFUSED(RUN("compare", json, "/nonexistent"), 3, "/nonexistent");
    json_decref(root);

    r = RUN("bench", "-m", target, "--json", "-r", "1", "-n", "4", "--rows", "2", "-p", "4");
    ck_assert_int_eq(r.code, 0);
    write_file(other, r.out);
    program_free(&r);
    r = RUN("compare", other, other);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "decode 1"));
    program_free(&r);
    EXPECT_REFUSED(RUN("compare", json, other), 3, "another schema");
    free(other);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_reports_agree,
                                  test_text_and_stdout,
                                  test_without_draft,
                                  test_schedule,
                                  test_bad_input,
                                  test_cannot_write,
                                  test_result_without_a_place,
                                  test_interrupt_and_resume,
                                  test_compare,
                                  NULL};

    target = getenv("TEST_TARGET");
    draft = getenv("TEST_DRAFT");
    if (!target || !draft) {
        fprintf(stderr, "TEST_TARGET and TEST_DRAFT name no models\n");
        return EXIT_FAILURE;
    }
    return program_test("measure", tests, 300);
}

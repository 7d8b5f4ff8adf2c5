/* Prompts of `outrider measure`: JSON lines, text cut into pieces at characters, folders; tasks take
 * turns. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite.h"
#include "measure_data.h"
#include "utf8.h"

static char folder[64];

static const char *write_file(const char *name, const char *content, size_t n)
{
    static char path[160];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(content, 1, n, f), n);
    fclose(f);
    return path;
}

static void begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/outrider-data-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void end(void)
{
    char command[160];

    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

static measure_data read_all(const char *file, const char *task, int64_t prompts, int64_t bytes)
{
    measure_data_params params = {
        .files = {.items = &file, .n = file != NULL},
        .tasks = {.items = &task, .n = task != NULL},
        .prompts = prompts,
        .bytes = bytes,
    };
    measure_data data = {0};

    ck_assert_int_eq(measure_data_read(&data, &params), 0);
    return data;
}

START_TEST(test_lines)
{
    static const char lines[] = "{\"prompt\": \"a1\", \"task\": \"a\"}\r\n\n"
                                "{\"prompt\": \"a2\", \"task\": \"a\", \"max_tokens\": 9}\n"
                                "{\"prompt\": \"none\", \"temperature\": 0}\n"
                                "{\"prompt\": \"a3 \\u00e9\", \"task\": \"a\"}";
    static const char *const order[] = {"a1", "none", "a2", "a3 \xc3\xa9"};
    measure_data data, again;

    begin();
    data = read_all(write_file("p.jsonl", lines, strlen(lines)), NULL, 12, 400);
    ck_assert_uint_eq(data.n_tasks, 2);
    ck_assert_uint_eq(data.n_prompts, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(data.prompts[i].text, order[i]);
    ck_assert_str_eq(data.prompts[1].task, "all");
    ck_assert(data.prompts[1].temperature == 0 && data.prompts[0].temperature < 0);
    ck_assert_int_eq(data.prompts[2].max_tokens, 9);
    ck_assert_ptr_nonnull(strstr(data.prompts[2].source, "p.jsonl: line 3"));
    again = read_all(write_file("p.jsonl", lines, strlen(lines)), NULL, 1, 1);
    ck_assert(measure_data_hash(&again) == measure_data_hash(&data));
    again.prompts[3].text[0] = 'b';
    ck_assert(measure_data_hash(&again) != measure_data_hash(&data));
    measure_data_free(&again);
    measure_data_free(&data);
    end();
}
END_TEST

/* Characters of two, three and four bytes, no lines: any cut falls into one, for most lengths. */
START_TEST(test_text_is_cut_at_characters)
{
    char content[3000];
    size_t n = 0;

    begin();
    while (n + 9 <= sizeof(content)) {
        memcpy(content + n, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9);
        n += 9;
    }
    for (int64_t bytes = 1; bytes < 40; bytes++) {
        measure_data data = read_all(write_file("text", content, n), NULL, 7, bytes);

        ck_assert_uint_le(data.n_prompts, 7);
        ck_assert(bytes < 4 || data.n_prompts == 7);
        for (size_t i = 0; i < data.n_prompts; i++) {
            const measure_prompt *p = &data.prompts[i];

            ck_assert_uint_le(p->n_bytes, (size_t)bytes);
            ck_assert_uint_gt(p->n_bytes, 0);
            ck_assert_uint_eq(utf8_find_invalid(p->text, p->n_bytes), p->n_bytes);
        }
        measure_data_free(&data);
    }
    end();
}
END_TEST

START_TEST(test_text_and_folder)
{
    static const char lines[] =
        "first line of it\nsecond line of it\nthird line of it\nlast line\n";
    char task[160];
    measure_data data;

    begin();
    data = read_all(write_file("b.txt", lines, strlen(lines)), NULL, 2, 6);
    ck_assert_uint_eq(data.n_prompts, 2);
    ck_assert_str_eq(data.prompts[0].text, "first ");
    ck_assert_str_eq(data.prompts[1].text, "third "); /* the line after the piece's beginning */
    ck_assert_str_eq(data.prompts[0].task, "b.txt");
    measure_data_free(&data);
    /* One prompt, however short: its half. */
    data = read_all(write_file("a.txt", "tiny", 4), NULL, 12, 400);
    ck_assert_uint_eq(data.n_prompts, 1);
    ck_assert_str_eq(data.prompts[0].text, "ti");
    measure_data_free(&data);

    write_file(".hidden", "no", 2);
    write_file("empty", "", 0);
    snprintf(task, sizeof(task), "%s/sub", folder);
    ck_assert_int_eq(mkdir(task, 0700), 0);
    snprintf(task, sizeof(task), "both=%s", folder);
    data = read_all(NULL, task, 2, 6);
    ck_assert_uint_eq(data.n_prompts, 2);
    ck_assert_str_eq(data.prompts[0].task, "both");
    ck_assert_ptr_nonnull(strstr(data.prompts[0].source, "/a.txt: byte 0"));
    ck_assert_ptr_nonnull(strstr(data.prompts[1].source, "/b.txt: byte 0"));
    measure_data_free(&data);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("measure data");
    TCase *tcase = tcase_create("measure data");

    tcase_add_test(tcase, test_lines);
    tcase_add_test(tcase, test_text_is_cut_at_characters);
    tcase_add_test(tcase, test_text_and_folder);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* What `outrider measure` reads and writes, on a device: bad input and outputs are refused before the work, and
 * what was measured survives Ctrl-C and a full disk, and is gone on with. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../folder.h"
#include "measure_folder.h"

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

static void expect_content(const char *path, const char *content)
{
    char *kept = read_file(path);

    ck_assert_str_eq(kept, content);
    free(kept);
}

/* Neither what is read nor another report is replaced. */
START_TEST(test_inputs_stay)
{
    char *content, *link, *respelt, task[128];

    begin();
    write_prompts(1);
    content = read_file(data);
    link = in_folder("link");
    ck_assert_int_eq(symlink(data, link), 0);
    snprintf(task, sizeof(task), "x=%s", data);
    respelt = in_folder("./result.csv");
    ck_assert_str_eq(strrchr(respelt, '/'), strrchr(csv, '/'));
    EXPECT_REFUSED(MEASURE("--json", data), 2, data, "is read");
    EXPECT_REFUSED(MEASURE("--csv", link), 2, link, "is read");
    EXPECT_REFUSED(RUN("measure", "-m", target, "--task", task, "--html", data), 2, data);
    EXPECT_REFUSED(MEASURE("--csv", csv, "--html", csv), 2, csv, "another report");
    /* Neither is there yet, and each is spelt in its own way. */
    EXPECT_REFUSED(MEASURE("--csv", csv, "--html", respelt), 2, respelt, "another report");
    EXPECT_REFUSED(MEASURE("--resume", json, "--html", json), 2, json);
    expect_content(data, content);
    EXPECT_REFUSED(RUN("compare", data, data, "--html", data), 2, data);
    expect_content(data, content);
    free(content);
    free(link);
    free(respelt);
    end();
}
END_TEST

/* Each file of a folder is read, and so is a demo model that nobody named. */
START_TEST(test_files_of_folders_stay)
{
    static const char *const words = "One day a cat sat on a mat.\n";
    char *texts, *first, *last, task[128], setting[128];

    begin();
    texts = in_folder("texts");
    first = in_folder("texts/a.txt");
    last = in_folder("texts/b.txt");
    ck_assert_int_eq(mkdir(texts, 0700), 0);
    write_file(first, words);
    write_file(last, words);
    snprintf(task, sizeof(task), "x=%s", texts);
    EXPECT_REFUSED(RUN("measure", "-m", target, "--data", texts, "--csv", last), 2, last,
                   "is read");
    EXPECT_REFUSED(RUN("measure", "-m", target, "--task", task, "--json", first), 2, first,
                   "is read");
    /* One that the wanted prompts don't reach. */
    EXPECT_REFUSED(RUN("measure", "-m", target, "--data", texts, "--prompts", "1", "--html", last),
                   2, last, "is read");
    expect_content(first, words);
    expect_content(last, words);
    unlink(first);
    unlink(last);
    rmdir(texts);
    free(first);
    free(last);
    free(texts);

    write_prompts(1);
    first = in_folder("outrider-demo-target.gguf");
    last = in_folder("outrider-demo-draft.gguf");
    write_file(first, words);
    write_file(last, words);
    snprintf(setting, sizeof(setting), "OUTRIDER_MODELS=%s", folder);
    for (size_t i = 0; i < 2; i++) {
        const char *path = i ? last : first;

        EXPECT_REFUSED(
            program_run(&(struct program_call){
                .arguments = (const char *const[]){"measure", "--data", data, "--csv", path, NULL},
                .environment = (const char *const[]){setting, NULL},
            }),
            2, path, "is read");
        expect_content(path, words);
    }
    free(first);
    free(last);
    end();
}
END_TEST

/* A small disk in the folder; false, with a word about it, without the right to mount one. */
static bool mount_small(const char *path, const char *size)
{
    ck_assert_int_eq(mkdir(path, 0700), 0);
    if (mount("tmpfs", path, "tmpfs", 0, size) == 0)
        return true;
    printf("a full disk needs the right to mount: not tested (%s)\n", strerror(errno));
    return false;
}

static void unmount_small(char *path)
{
    umount(path);
    rmdir(path);
    free(path);
}

START_TEST(test_cannot_write)
{
    char *small, *filler, *old;
    FILE *f;

    begin();
    write_prompts(2);
    EXPECT_REFUSED(MEASURE("--json", "/nonexistent/x.json"), 1, "/nonexistent/x.json");
    EXPECT_REFUSED(MEASURE("--html", folder), 1, folder, "directory");
    small = in_folder("small");
    if (mount_small(small, "size=8k")) {
        filler = in_folder("small/filler");
        old = in_folder("small/old.json");
        write_file(old, "{}\n");
        f = fopen(filler, "w");
        ck_assert_ptr_nonnull(f);
        while (fputc('x', f) != EOF && fflush(f) == 0)
            continue;
        fclose(f);
        EXPECT_REFUSED(MEASURE("--json", old), 1, old, "No space left");
        expect_content(old, "{}\n");
        ck_assert_uint_eq(folder_count(small), 2);
        free(filler);
        free(old);
    }
    unmount_small(small);
    end();
}
END_TEST

/* A device that is full only when it is written to: the text is still given. */
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

/* A disk with room for the trial before the work, but not for the result: the old file stays, nothing
 * half-written does, and text and CSV are given. */
START_TEST(test_disk_fills)
{
    char *small, *old;
    struct program_result r;

    begin();
    write_prompts(25);
    small = in_folder("small");
    if (mount_small(small, "size=96k")) {
        old = in_folder("small/old.json");
        write_file(old, "{}\n");
        r = MEASURE("--json", old, "--csv", csv);
        ck_assert_int_eq(r.code, 1);
        ck_assert_ptr_nonnull(strstr(r.err, old));
        ck_assert_ptr_nonnull(strstr(r.err, "No space left"));
        ck_assert_ptr_nonnull(strstr(r.out, "overall"));
        ck_assert_int_eq(access(csv, F_OK), 0);
        expect_content(old, "{}\n");
        ck_assert_uint_eq(folder_count(small), 1);
        program_free(&r);
        free(old);
    }
    unmount_small(small);
    end();
}
END_TEST

/* ------------------------------------------------------------------------- ending and going on */

/* The result without a field, or with another value; NULL: none. */
static void refuse_changed(const char *where, const char *key, json_t *value, const char *named)
{
    json_t *root = load(json), *object = root;
    char *changed = in_folder("changed.json");

    if (strcmp(where, "options") == 0)
        object = json_object_get(root, where);
    if (strcmp(where, "prompt") == 0 || strcmp(where, "run") == 0)
        object = json_array_get(json_object_get(root, "prompts"), 0);
    if (strcmp(where, "run") == 0)
        object = json_array_get(json_object_get(object, "runs"), 1);
    if (value)
        ck_assert_int_eq(json_object_set_new(object, key, value), 0);
    else
        ck_assert_int_eq(json_object_del(object, key), 0);
    ck_assert_int_eq(json_dump_file(root, changed, 0), 0);
    EXPECT_REFUSED(MEASURE("--resume", changed), 3, changed, "another version of outrider", named,
                   "start a new file");
    json_decref(root);
    free(changed);
}

static void refuse_other_versions(void)
{
    refuse_changed("", "version", json_string("0.0.1"), "0.0.1");
    refuse_changed("", "version", NULL, "none");
    refuse_changed("", "schema", json_string("outrider-measure-2"), "outrider-measure-2");
    refuse_changed("", "draft_device", NULL, "'draft_device'");
    refuse_changed("", "prompts", NULL, "'prompts'");
    refuse_changed("options", "auto_drafter", NULL, "'auto_drafter'");
    refuse_changed("prompt", "pieces", NULL, "'pieces'");
    refuse_changed("run", "rejected", NULL, "'rejected'");
}

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

    refuse_other_versions();
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
    write_file(csv, "{}\n");
    EXPECT_REFUSED(MEASURE("--resume", csv), 3, csv, "was not written by 'outrider measure");
    write_file(csv, "{\"schema\": ");
    EXPECT_REFUSED(MEASURE("--resume", csv), 3, csv);
    json_decref(before);
    end();
}
END_TEST

/* Prompts that are no list, and a second field of one name: refused, and the file stays as it is. */
START_TEST(test_resume_of_damaged)
{
    static const char *const second = ", \"prompts\": 3}";
    struct program_result r;
    char *content, *changed;
    json_t *root;
    size_t n;

    begin();
    write_prompts(1);
    r = MEASURE("--json", json, "-q");
    ck_assert_msg(r.code == 0, "%s", r.err);
    program_free(&r);

    content = read_file(json);
    n = (size_t)(strrchr(content, '}') - content);
    changed = malloc(n + strlen(second) + 1);
    ck_assert_ptr_nonnull(changed);
    memcpy(changed, content, n);
    strcpy(changed + n, second);
    write_file(json, changed);
    EXPECT_REFUSED(MEASURE("--resume", json), 3, json, "duplicate", "prompts");
    expect_content(json, changed);
    free(changed);

    root = json_loads(content, 0, NULL);
    ck_assert_int_eq(json_object_set_new(root, "prompts", json_object()), 0);
    changed = json_dumps(root, 0);
    write_file(json, changed);
    EXPECT_REFUSED(MEASURE("--resume", json), 3, json, "'prompts'", "no list");
    expect_content(json, changed);
    free(changed);
    free(content);
    json_decref(root);

    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_bad_input,
                                  test_inputs_stay,
                                  test_files_of_folders_stay,
                                  test_cannot_write,
                                  test_result_without_a_place,
                                  test_disk_fills,
                                  test_interrupt_and_resume,
                                  test_resume_of_damaged,
                                  NULL};

    return measure_test("measure files", tests);
}

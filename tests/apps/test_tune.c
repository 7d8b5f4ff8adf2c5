/* `outrider tune` on a device: what it prints and stores, that it is used and can be removed, and
 * that it stores nothing when it can't finish.
 *
 * TEST_TARGET names the model. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

static const char *target;
static char folder[64], setting[96];
static const char *const environment[] = {setting, NULL};

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/outrider-tune-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(setting, sizeof(setting), "OUTRIDER_CACHE_DIR=%s", folder);
}

/* Files whose name ends so; removes them when asked to. */
static int count_files(const char *end, bool removes)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int n = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);

        if (entry->d_name[0] == '.' || length < strlen(end) ||
            strcmp(entry->d_name + length - strlen(end), end) != 0)
            continue;
        n++;
        if (removes)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    return n;
}

static void remove_folder(void)
{
    count_files("", true);
    rmdir(folder);
}

#define TUNE(...)                                                                                  \
    program_run(                                                                                   \
        &(struct program_call){.arguments = (const char *const[]){"tune", __VA_ARGS__, NULL},      \
                               .environment = environment})

/* What `devices` says of the tuning of the device in use; problem: of a stored one, or NULL. */
static void expect_tuned(bool tuned, const char *problem)
{
    struct program_result r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"devices", "--json", NULL}, .environment = environment});
    json_t *object = program_json(&r, 0), *device;
    size_t i, n = 0;

    json_array_foreach(json_object_get(object, "devices"), i, device)
    {
        const json_t *tuning = json_object_get(device, "tuning");
        const json_t *told = json_object_get(tuning, "problem");

        if (!json_is_true(json_object_get(device, "default")))
            continue;
        n++;
        ck_assert_int_eq(json_is_true(json_object_get(tuning, "tuned")), tuned);
        ck_assert_int_eq(json_is_null(told), problem == NULL);
        ck_assert(!problem || strstr(json_string_value(told), problem));
    }
    ck_assert_uint_eq(n, 1);
    json_decref(object);
    program_free(&r);
}

START_TEST(test_json_use_and_reset)
{
    struct program_result r, plain, tuned;
    json_t *object, *result;
    size_t i, n_settings = 0, n_chosen = 0, n_changed = 0;

    make_folder();
    plain = program_run(
        &(struct program_call){.arguments = (const char *const[]){"run", "-m", target, "-p", "One",
                                                                  "-n", "8", "-s", "1", NULL},
                               .environment = environment});
    ck_assert_int_eq(plain.code, 0);
    r = TUNE("-m", target, "--seconds", "0", "--json", "--validate");
    object = program_json(&r, 0);
    ck_assert_str_eq(r.err, "");
    json_array_foreach(json_object_get(object, "results"), i, result)
    {
        bool is_default = json_is_true(json_object_get(result, "default"));
        bool chosen = json_is_true(json_object_get(result, "chosen"));

        ck_assert(json_is_string(json_object_get(result, "setting")));
        ck_assert(json_is_string(json_object_get(result, "choice")));
        ck_assert_double_gt(json_number_value(json_object_get(result, "ratio")), 0);
        ck_assert_str_eq(json_string_value(json_object_get(result, "detail")), "");
        n_settings += is_default;
        n_chosen += chosen;
        n_changed += chosen && !is_default;
    }
    ck_assert_uint_ge(n_settings, 5);
    ck_assert_uint_eq(n_chosen, n_settings);
    ck_assert_uint_eq(json_integer_value(json_object_get(object, "changed")), n_changed);
    json_decref(object);
    program_free(&r);
    ck_assert_int_eq(count_files(".tuning", false), 1);
    expect_tuned(true, NULL);

    /* The same text, without a word about it. */
    tuned = program_run(
        &(struct program_call){.arguments = (const char *const[]){"run", "-m", target, "-p", "One",
                                                                  "-n", "8", "-s", "1", NULL},
                               .environment = environment});
    ck_assert_int_eq(tuned.code, 0);
    ck_assert_str_eq(tuned.out, plain.out);
    ck_assert_ptr_null(strstr(tuned.err, "tuning"));
    program_free(&tuned);
    program_free(&plain);

    r = TUNE("--reset", "--json");
    object = program_json(&r, 0);
    ck_assert(json_is_true(json_object_get(object, "removed")));
    json_decref(object);
    program_free(&r);
    ck_assert_int_eq(count_files(".tuning", false), 0);
    expect_tuned(false, NULL);
    r = TUNE("--reset");
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.out, "there was no tuning of "));
    program_free(&r);
    remove_folder();
}
END_TEST

START_TEST(test_table)
{
    static const char *const texts[] = {
        "prefill rows",          "norm lanes", " default\n", "17 rows",
        "settings changed for ", "; stored\n"};
    struct program_result r;

    make_folder();
    r = TUNE("-m", target, "--seconds", "0");
    ck_assert_int_eq(r.code, 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(strstr(r.out, texts[i]) != NULL, "no '%s' in:\n%s", texts[i], r.out);
    for (const char *at = r.out; *at; at += strcspn(at, "\n") + 1)
        ck_assert_msg(strcspn(at, "\n") <= 92, "long line: %.100s", at);
    program_free(&r);
    /* Another text in it is a warning, and the class's own shapes are used. */
    ck_assert_int_eq(count_files(".tuning", false), 1);
    char command[160];
    snprintf(command, sizeof(command), "for f in %s/*.tuning; do echo junk > $f; done", folder);
    ck_assert_int_eq(system(command), 0);
    r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"run", "-m", target, "-p", "One", "-n", "2", NULL},
        .environment = environment});
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.err, "warning: the tuning in "));
    ck_assert_ptr_nonnull(strstr(r.err, "outrider tune --reset"));
    program_free(&r);
    expect_tuned(false, "its length is wrong");
    r = TUNE("--reset");
    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.err, "");
    ck_assert_ptr_nonnull(strstr(r.out, " was removed\n"));
    program_free(&r);
    remove_folder();
}
END_TEST

START_TEST(test_interrupt)
{
    struct program_result r;

    make_folder();
    r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"tune", "-m", target, "--seconds", "60", NULL},
        .environment = environment,
        .signal = SIGINT,
        .signal_after_s = 2,
    });
    ck_assert_int_eq(r.code, 130);
    ck_assert_str_eq(r.out, "");
    ck_assert_str_eq(r.err, "");
    program_free(&r);
    ck_assert_int_eq(count_files(".tuning", false), 0);
    remove_folder();
}
END_TEST

/* One line, at once, and nothing left. */
START_TEST(test_cannot_store)
{
    static const char *const nowhere[] = {"OUTRIDER_CACHE_DIR=/dev/null/cache", NULL};
    static const char *const none[] = {"OUTRIDER_CACHE_DIR=", NULL};
    const char *const arguments[] = {"tune", "-m", target, NULL};

    EXPECT_REFUSED(
        program_run(&(struct program_call){.arguments = arguments, .environment = nowhere}), 1,
        "/dev/null/cache/", "Not a directory", "OUTRIDER_CACHE_DIR");
    EXPECT_REFUSED(program_run(&(struct program_call){.arguments = arguments, .environment = none}),
                   1, "OUTRIDER_CACHE_DIR");
}
END_TEST

START_TEST(test_full_disk)
{
    char path[96];
    FILE *filler;
    struct program_result r;
    int n_files;

    make_folder();
    if (mount("tmpfs", folder, "tmpfs", 0, "size=4k") != 0) {
        printf("a full disk needs the right to mount: not tested (%s)\n", strerror(errno));
        rmdir(folder);
        return;
    }
    snprintf(path, sizeof(path), "%s/.filler", folder);
    filler = fopen(path, "w");
    ck_assert_ptr_nonnull(filler);
    while (fputc('x', filler) != EOF && fflush(filler) == 0)
        continue;
    fclose(filler);
    r = TUNE("-m", target);
    n_files = count_files("", false);
    umount(folder);
    rmdir(folder);
    ck_assert_int_eq(n_files, 0);
    EXPECT_REFUSED(r, 1, folder, "No space left", "Free some space");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_json_use_and_reset, test_table,     test_interrupt,
                                  test_cannot_store,       test_full_disk, NULL};

    target = getenv("TEST_TARGET");
    if (!target) {
        fprintf(stderr, "TEST_TARGET names no model\n");
        return EXIT_FAILURE;
    }
    return program_test("tune", tests, 300);
}

/* The pipeline cache on disk: written whole or not at all, read only when it is ours, never an
 * error. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "../folder.h"
#include "capture.h"
#include "kernel.h"

static char folder[64];
static char *path; /* of the one file there, once a test has made it */
static capture log_of_test;

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/outrider-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    path = NULL;
}

/* Files in `where`; *path becomes the last one's. */
static int count_files(const char *where)
{
    DIR *dir = opendir(where);
    struct dirent *entry;
    int n = 0;

    if (!dir)
        return 0;
    while ((entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        free(path);
        ck_assert_int_gt(asprintf(&path, "%s/%s", where, entry->d_name), 0);
        n++;
    }
    closedir(dir);
    return n;
}

/* Drivers and layers keep caches of their own there too, when XDG_CACHE_HOME or HOME says so. */
static void tear_down(void)
{
    folder_remove(folder);
    free(path);
}

/* Opens the device, makes a pipeline, closes: what every run of the program does. While the cache
 * is written, files can't grow past `disk_bytes`: write() then fails in the middle, as on a full
 * disk. (Only then, because drivers write to files in memory.) */
static void use_cache_on_disk(const char *where, rlim_t disk_bytes)
{
    otr_context *context = capture_context(&log_of_test, true, where);
    struct rlimit limit = {.rlim_cur = disk_bytes, .rlim_max = RLIM_INFINITY};
    const uint32_t constant = 32;
    VkPipeline pipeline;
    uint32_t index;
    gpu *g;

    ck_assert_int_eq(otr_device_find(context, NULL, &index), OTR_OK);
    ck_assert_int_eq(gpu_open(context, index, false, &g), OTR_OK);
    ck_assert_int_eq(kernel_create(g, "rmsnorm", &constant, 1, true, "test", &pipeline), OTR_OK);
    g->vk.vkDestroyPipeline(g->device, pipeline, NULL);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    gpu_close(&g);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_uint_eq(otr_validation_message_count(context), 0);
    otr_context_destroy(&context);
}

/* NULL: the folder that the environment names. */
static void use_cache(const char *where)
{
    use_cache_on_disk(where, RLIM_INFINITY);
}

static void check_log(const char *text)
{
    ck_assert_msg(capture_has(&log_of_test, text), "no '%s' in:\n%s", text, log_of_test.text);
}

static void check_no_log(const char *text)
{
    ck_assert_msg(!capture_has(&log_of_test, text), "'%s' in:\n%s", text, log_of_test.text);
}

static bool was_loaded(void)
{
    char line[256];

    snprintf(line, sizeof line, "3 pipeline cache %s: ", path);
    return capture_has(&log_of_test, line);
}

/* Inverts a byte of the file; a negative offset counts from its end. */
static void damage(long offset)
{
    FILE *file = fopen(path, "r+b");
    int byte;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    byte = fgetc(file);
    ck_assert_int_ne(byte, EOF);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 0xff, file);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(file_is_written_and_used)
{
    struct stat first, second;

    use_cache(folder);
    check_no_log("1 the pipeline cache");
    ck_assert_int_eq(count_files(folder), 1);
    ck_assert(!was_loaded());
    ck_assert_int_eq(stat(path, &first), 0);
    ck_assert_int_eq(first.st_mode & 0777, 0600);

    use_cache(folder);
    ck_assert(was_loaded());
    ck_assert_int_eq(count_files(folder), 1);
    ck_assert_int_eq(stat(path, &second), 0);
    ck_assert_uint_gt(second.st_size, 0);
}
END_TEST

START_TEST(damaged_files_are_ignored_and_replaced)
{
    /* Offsets of what is inverted: our header's fields, Vulkan's header, the last byte. */
    const struct {
        long offset;
        const char *problem;
    } cases[] = {
        {0, "of another version"},       {8, "of another version"},
        {12, "another driver or build"}, {16, "another driver or build"},
        {24, "its length is wrong"},     {32, "its checksum is wrong"},
        {40, "its checksum is wrong"},   {60, "its checksum is wrong"},
        {-1, "its checksum is wrong"},
    };
    char message[256];

    use_cache(folder);
    ck_assert_int_eq(count_files(folder), 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        damage(cases[i].offset);
        use_cache(folder);
        snprintf(message, sizeof message, "2 pipeline cache %s is ignored: it", path);
        check_log(message);
        check_log(cases[i].problem);
        ck_assert(!was_loaded());
        use_cache(folder);
        ck_assert_msg(was_loaded(), "case %zu was not replaced: %s", i, log_of_test.text);
        ck_assert_int_eq(count_files(folder), 1);
    }
}
END_TEST

START_TEST(cut_files_are_ignored)
{
    struct stat status;

    use_cache(folder);
    ck_assert_int_eq(count_files(folder), 1);
    ck_assert_int_eq(stat(path, &status), 0);
    const off_t lengths[] = {0, 1, 39, 40, 71, status.st_size - 1, status.st_size + 5};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ck_assert_int_eq(truncate(path, lengths[i]), 0);
        use_cache(folder);
        check_log(lengths[i] < 72 ? "it is too short" : "its length is wrong");
        use_cache(folder);
        ck_assert(was_loaded());
    }
}
END_TEST

/* Valid but for another device: all checks of ours pass, only Vulkan's header tells. */
START_TEST(files_of_other_devices_are_ignored)
{
    uint8_t file[4096];
    uint64_t hash = 0xcbf29ce484222325u;
    size_t n;
    FILE *f;

    use_cache(folder);
    ck_assert_int_eq(count_files(folder), 1);
    f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    n = fread(file, 1, sizeof file, f);
    ck_assert_uint_ge(n, 72);
    n = 72;                /* a header of each is enough */
    file[40 + 12] ^= 0xff; /* Vulkan's header: length, version, vendor, device, UUID */
    for (size_t i = 40; i < n; i++)
        hash = (hash ^ file[i]) * 0x100000001b3u;
    const uint64_t n_bytes = n - 40;
    memcpy(file + 24, &n_bytes, 8);
    memcpy(file + 32, &hash, 8);
    rewind(f);
    ck_assert_uint_eq(fwrite(file, 1, n, f), n);
    fclose(f);
    ck_assert_int_eq(truncate(path, (off_t)n), 0);
    use_cache(folder);
    check_log("it is of another device");
}
END_TEST

START_TEST(things_that_are_no_files_are_ignored)
{
    use_cache(folder);
    ck_assert_int_eq(count_files(folder), 1);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* must not wait for a writer */
    use_cache(folder);
    check_log("is ignored: it is no regular file");
    use_cache(folder);
    ck_assert(was_loaded()); /* the rename took the pipe's place */
}
END_TEST

START_TEST(missing_folders_are_made)
{
    char deep[128], inner[128];

    snprintf(deep, sizeof deep, "%s/a/b", folder);
    use_cache(deep);
    ck_assert_int_eq(count_files(deep), 1);
    ck_assert_int_eq(remove(path), 0);
    ck_assert_int_eq(rmdir(deep), 0);
    snprintf(inner, sizeof inner, "%s/a", folder);
    ck_assert_int_eq(rmdir(inner), 0);
}
END_TEST

START_TEST(folders_that_cannot_be_written_are_a_warning)
{
    char file[128], below[160];
    FILE *f;

    /* Root may write to every folder, so these two don't rely on permissions: a folder below a
     * file, and /proc, which takes no folders. */
    snprintf(file, sizeof file, "%s/file", folder);
    f = fopen(file, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    snprintf(below, sizeof below, "%s/cache", file);
    use_cache(below);
    check_log("1 the pipeline cache can't be written");
    check_log("Not a directory");
    use_cache("/proc/outrider");
    check_log("1 the pipeline cache can't be written (/proc/outrider/");
    ck_assert_int_eq(count_files(folder), 1);
}
END_TEST

START_TEST(read_only_folder_is_a_warning)
{
    const bool is_root = geteuid() == 0;

    ck_assert_int_eq(chmod(folder, 0555), 0);
    if (is_root) { /* who may write everywhere: as somebody else then */
        ck_assert_int_eq(setegid(65534), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    }
    use_cache(folder);
    check_log("1 the pipeline cache can't be written");
    check_log("Permission denied");
    ck_assert_int_eq(count_files(folder), 0);
    if (is_root) {
        ck_assert_int_eq(seteuid(0), 0);
        ck_assert_int_eq(setegid(0), 0);
        prctl(PR_SET_DUMPABLE, 1); /* which the change took away, and the leak checker needs */
    }
}
END_TEST

START_TEST(full_disk_is_an_error_and_leaves_nothing)
{
    use_cache_on_disk(folder, 50);
    check_log("0 the pipeline cache can't be written");
    check_log("File too large");
    ck_assert_int_eq(count_files(folder), 0);
}
END_TEST

START_TEST(full_disk_keeps_the_older_file)
{
    struct stat before, after;

    use_cache(folder);
    ck_assert_int_eq(count_files(folder), 1);
    damage(-1); /* so that there is something to write */
    ck_assert_int_eq(stat(path, &before), 0);
    use_cache_on_disk(folder, 50);
    check_log("File too large");
    ck_assert_int_eq(count_files(folder), 1);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    ck_assert_int_eq(before.st_size, after.st_size);
}
END_TEST

START_TEST(environment_names_the_folder)
{
    char where[128];

    setenv("OUTRIDER_CACHE_DIR", folder, 1);
    use_cache(NULL);
    ck_assert_int_eq(count_files(folder), 1);

    unsetenv("OUTRIDER_CACHE_DIR");
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("HOME", "/nonexistent", 1);
    use_cache(NULL);
    snprintf(where, sizeof where, "%s/outrider", folder);
    ck_assert_int_eq(count_files(where), 1);

    ck_assert_int_eq(chdir(folder), 0); /* where the validation layer does use a relative path */
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", folder, 1);
    use_cache(NULL);
    snprintf(where, sizeof where, "%s/.cache/outrider", folder);
    ck_assert_int_eq(count_files(where), 1);
    ck_assert_int_ne(access("relative/outrider", F_OK), 0);
}
END_TEST

START_TEST(cache_can_be_off)
{
    unsetenv("OUTRIDER_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    use_cache(NULL);
    check_log("1 no pipeline cache: none of OUTRIDER_CACHE_DIR, XDG_CACHE_HOME and HOME is set");

    setenv("OUTRIDER_CACHE_DIR", folder, 1);
    use_cache("");
    check_no_log("pipeline cache");
    setenv("OUTRIDER_CACHE_DIR", "", 1);
    use_cache(NULL);
    check_no_log("pipeline cache");
    ck_assert_int_eq(count_files(folder), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pipeline cache");
    TCase *tests = tcase_create("cache");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, file_is_written_and_used);
    tcase_add_test(tests, damaged_files_are_ignored_and_replaced);
    tcase_add_test(tests, cut_files_are_ignored);
    tcase_add_test(tests, files_of_other_devices_are_ignored);
    tcase_add_test(tests, things_that_are_no_files_are_ignored);
    tcase_add_test(tests, missing_folders_are_made);
    tcase_add_test(tests, folders_that_cannot_be_written_are_a_warning);
    tcase_add_test(tests, read_only_folder_is_a_warning);
    tcase_add_test(tests, full_disk_is_an_error_and_leaves_nothing);
    tcase_add_test(tests, full_disk_keeps_the_older_file);
    tcase_add_test(tests, environment_names_the_folder);
    tcase_add_test(tests, cache_can_be_off);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

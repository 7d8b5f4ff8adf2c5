/* `outrider devices` and `selftest` on a device, and that `inspect` tells the truth about what
 * runs. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static int64_t integer(const json_t *object, const char *key)
{
    ck_assert_msg(json_is_integer(json_object_get(object, key)), "%s is no integer", key);
    return json_integer_value(json_object_get(object, key));
}

static void check_overlap(const json_t *o)
{
    double overlap = json_real_value(json_object_get(o, "overlap"));

    ck_assert(json_is_real(json_object_get(o, "overlap")));
    ck_assert(overlap >= 0 && overlap <= 1);
    ck_assert_double_gt(json_real_value(json_object_get(o, "target_s")), 0);
    ck_assert_double_gt(json_real_value(json_object_get(o, "draft_s")), 0);
    ck_assert_double_gt(json_real_value(json_object_get(o, "together_s")), 0);
}

START_TEST(test_overlap)
{
    struct program_result r = RUN("devices", "--overlap", "--json");
    json_t *object = program_json(&r, 0), *device;
    size_t i;

    json_array_foreach(json_object_get(object, "devices"), i, device)
    {
        const json_t *overlap = json_object_get(device, "overlap");
        check_overlap(json_object_get(overlap, "shared"));
        check_overlap(json_object_get(overlap, "separate"));
    }
    json_decref(object);
    program_free(&r);
    r = RUN("devices", "--overlap");
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.out, "opened twice: target "));
    program_free(&r);
    /* Ctrl-C while models load ends it before anything was measured. */
    r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"devices", "--overlap", NULL},
        .signal = SIGINT,
        .signal_after_s = 0.5,
    });
    ck_assert_msg(r.code == 130, "exit code %d: %s", r.code, r.err);
    ck_assert_str_eq(r.out, "");
    ck_assert_str_eq(r.err, "");
    program_free(&r);
}
END_TEST

START_TEST(test_devices)
{
    struct program_result r = RUN("devices", "--json"), shown = RUN("devices");
    json_t *object = program_json(&r, 0), *device;
    size_t i, n_default = 0;

    ck_assert_uint_ge(json_array_size(json_object_get(object, "devices")), 1);
    json_array_foreach(json_object_get(object, "devices"), i, device)
    {
        const char *uuid = json_string_value(json_object_get(device, "uuid"));

        n_default += json_is_true(json_object_get(device, "default"));
        ck_assert_int_eq(integer(device, "index"), (int64_t)i);
        ck_assert_int_ge(integer(device, "tier"), 0);
        ck_assert(json_is_null(json_object_get(device, "problem")));
        const json_t *note = json_object_get(device, "note");
        ck_assert(json_is_null(note) || strstr(shown.out, json_string_value(note)));
        /* The software devices of these tests say what they are. */
        ck_assert_str_eq(json_string_value(json_object_get(device, "type")), "CPU");
        ck_assert_uint_ge(json_array_size(json_object_get(device, "queue_families")), 1);
        ck_assert_uint_ge(json_array_size(json_object_get(device, "heaps")), 1);
        const json_t *tuning = json_object_get(device, "tuning");
        ck_assert_str_eq(json_string_value(json_object_get(tuning, "class")), "software");
        ck_assert(json_is_boolean(json_object_get(tuning, "tuned")));
        ck_assert(json_is_null(json_object_get(tuning, "problem")));
        ck_assert_uint_eq(strlen(uuid), 36);
        ck_assert_ptr_nonnull(strstr(shown.out, uuid));
        ck_assert_ptr_nonnull(
            strstr(shown.out, json_string_value(json_object_get(device, "name"))));
    }
    ck_assert_uint_eq(n_default, 1);
    ck_assert_int_eq(shown.code, 0);
    ck_assert_ptr_nonnull(strstr(shown.out, "* "));
    ck_assert_ptr_nonnull(strstr(shown.out, "this is the CPU, not a GPU"));
    json_decref(object);
    program_free(&shown);
    program_free(&r);
}
END_TEST

START_TEST(test_selftest)
{
    struct program_result r = RUN("selftest", "--json", "--validate");
    json_t *object = program_json(&r, 0), *result;
    size_t i, n_passed = 0;

    ck_assert_int_eq(integer(object, "failed"), 0);
    ck_assert_int_eq(integer(object, "passing_tier"), integer(object, "tier"));
    json_array_foreach(json_object_get(object, "results"), i, result)
    {
        ck_assert_int_eq(integer(result, "tier"), integer(object, "tier"));
        const char *verdict = json_string_value(json_object_get(result, "result"));

        ck_assert_str_ne(verdict, "failed");
        if (strcmp(verdict, "passed") == 0) {
            ck_assert_double_le(json_number_value(json_object_get(result, "max_error")), 1.0);
            n_passed++;
        }
    }
    ck_assert_uint_gt(n_passed, 0);
    ck_assert_int_eq(integer(object, "passed"), (int64_t)n_passed);
    json_decref(object);
    program_free(&r);
    /* Ctrl-C at the first line ends it, and so does a reader that goes away. */
    r = program_run(&(struct program_call){.arguments = (const char *const[]){"selftest", NULL},
                                           .signal = SIGINT});
    ck_assert_int_eq(r.code, 130);
    ck_assert_ptr_null(strstr(r.out, " skipped on "));
    program_free(&r);
    r = program_run(&(struct program_call){.arguments = (const char *const[]){"selftest", NULL},
                                           .reader_leaves = true});
    ck_assert_int_eq(r.code, 141);
    program_free(&r);
    EXPECT_REFUSED(RUN("selftest", "--device", "no such GPU"), 4, "no such GPU");
}
END_TEST

/* What inspect calls able to run loads and writes, and the rest is refused. */
START_TEST(test_inspect_is_right)
{
    DIR *folder = opendir(TEST_DATA "/formats");
    struct dirent *entry;
    size_t n_run = 0, n_refused = 0;

    ck_assert_ptr_nonnull(folder);
    while ((entry = readdir(folder))) {
        char path[1024];
        struct program_result r, tried;
        json_t *object;
        bool runs;

        if (!strstr(entry->d_name, ".gguf"))
            continue;
        snprintf(path, sizeof(path), "%s/%s", TEST_DATA "/formats", entry->d_name);
        r = RUN("inspect", "--json", path);
        tried = RUN("run", "-m", path, "-p", "int", "-n", "1", "-q", "--temp", "0");
        if (r.code == 0) {
            object = program_json(&r, 0);
            runs = json_is_true(json_object_get(object, "runs"));
            json_decref(object);
        } else {
            ck_assert_int_eq(r.code, 3);
            runs = false;
        }
        ck_assert_msg(tried.code == (runs ? 0 : 3), "%s: inspect says %d, run gives %d: %s", path,
                      runs, tried.code, tried.err);
        n_run += runs;
        n_refused += !runs;
        program_free(&tried);
        program_free(&r);
    }
    closedir(folder);
    ck_assert_uint_ge(n_run, 16);
    ck_assert_uint_ge(n_refused, 8);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_devices, test_overlap, NULL};
    const TTest *const long_tests[] = {test_selftest, test_inspect_is_right, NULL};

    return program_test_long("devices", tests, long_tests, 300);
}

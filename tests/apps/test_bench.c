/* `outrider bench` on a device: every test is there and its numbers fit together; results compare
 * with themselves; what can't be compared is refused.
 *
 * TEST_TARGET and TEST_DRAFT name the models. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

static const char *target, *draft;

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

static void check_result(const json_t *entry, const char *test, json_int_t rows, double tokens)
{
    double median = number(entry, "median_s");

    ck_assert_str_eq(json_string_value(json_object_get(entry, "test")), test);
    ck_assert_int_eq(json_integer_value(json_object_get(entry, "rows")), rows);
    ck_assert_int_eq(json_integer_value(json_object_get(entry, "repeats")), 3);
    ck_assert_double_gt(number(entry, "min_s"), 0);
    ck_assert_double_le(number(entry, "min_s"), median);
    ck_assert_double_le(median, number(entry, "max_s"));
    ck_assert_double_le(fabs(number(entry, "tokens_per_second") * median - tokens), 1e-6 * tokens);
    if (strcmp(test, "speculate") == 0) {
        ck_assert(json_is_null(json_object_get(entry, "weight_bytes")));
        ck_assert_int_eq(json_is_number(json_object_get(entry, "acceptance")), rows > 0);
    } else {
        ck_assert_double_gt(number(entry, "dispatches"), 0);
        ck_assert_double_le(
            fabs(number(entry, "bytes_per_second") * median - number(entry, "weight_bytes")),
            1e-6 * number(entry, "weight_bytes"));
        ck_assert_double_lt(number(entry, "host_us"), 1e6 * number(entry, "max_s"));
    }
}

START_TEST(test_json_and_compare)
{
    struct program_result r = RUN("bench", "-m", target, "-md", draft, "--json", "-r", "3", "-n",
                                  "12", "--rows", "2,9", "-p", "20", "--draft-max", "3", "-d", "5",
                                  "-ct", "f16");
    json_t *object = program_json(&r, 0), *results = json_object_get(object, "results");
    char path[] = "/tmp/outrider-bench-XXXXXX";
    int file = mkstemp(path);

    ck_assert_str_eq(r.err, "");
    ck_assert_str_eq(json_string_value(json_object_get(object, "schema")), "outrider-bench-1");
    ck_assert_double_gt(number(object, "copy_bytes_per_second"), 0);
    ck_assert(json_is_string(json_object_get(json_object_get(object, "model"), "fnv1a64")));
    ck_assert(json_is_object(json_object_get(object, "draft")));
    ck_assert(json_is_boolean(
        json_object_get(json_object_get(json_object_get(object, "device"), "tuning"), "tuned")));
    ck_assert_double_eq(number(object, "depth"), 5);
    ck_assert_str_eq(json_string_value(json_object_get(object, "cache_type")), "f16");
    ck_assert_uint_eq(json_array_size(results), 7);
    check_result(json_array_get(results, 0), "decode", 1, 1);
    check_result(json_array_get(results, 1), "verify", 2, 2);
    check_result(json_array_get(results, 2), "verify", 9, 9);
    check_result(json_array_get(results, 3), "prefill", 20, 20);
    check_result(json_array_get(results, 4), "draft", 1, 1);
    check_result(json_array_get(results, 5), "speculate", 3, 11);
    check_result(json_array_get(results, 6), "speculate", 0, 11);
    json_decref(object);

    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, r.out, r.n_out), (ssize_t)r.n_out);
    close(file);
    program_free(&r);
    r = RUN("bench", "--compare", path, path);
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.out, "A: /tmp/outrider-bench-"));
    ck_assert_ptr_nonnull(strstr(r.out, "1.00x"));
    ck_assert_ptr_nonnull(strstr(r.out, " tuning\n"));
    program_free(&r);
    unlink(path);
}
END_TEST

START_TEST(test_table)
{
    struct program_result r = RUN("bench", "-m", target, "-r", "1", "-n", "4", "--rows", "2", "-p",
                                  "4");
    static const char *const lines[] = {"decode 1", "verify 2", "prefill 4", "speculate off"};

    ck_assert_int_eq(r.code, 0);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        ck_assert_msg(strstr(r.out, lines[i]) != NULL, "no '%s' in:\n%s", lines[i], r.out);
    ck_assert_ptr_null(strstr(r.out, "draft"));
    program_free(&r);
}
END_TEST

START_TEST(test_refused)
{
    EXPECT_REFUSED(RUN("bench", "-m", target, "--rows", "18"), 2, "--rows", "18");
    EXPECT_REFUSED(RUN("bench", "-m", target, "--rows", "2,"), 2, "--rows");
    EXPECT_REFUSED(RUN("bench", "-m", target, "-p", "0"), 2, "--prefill");
    EXPECT_REFUSED(RUN("bench", "-m", "/nonexistent.gguf"), 3, "/nonexistent.gguf");
    EXPECT_REFUSED(RUN("bench", "--compare", "/dev/null"), 2, "two files");
    EXPECT_REFUSED(RUN("bench", "--compare", "/dev/null", "/dev/null"), 3, "JSON");
    EXPECT_REFUSED(RUN("bench", "--compare", target, target), 3, "JSON");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_json_and_compare, test_table, test_refused, NULL};

    target = getenv("TEST_TARGET");
    draft = getenv("TEST_DRAFT");
    if (!target || !draft) {
        fprintf(stderr, "TEST_TARGET and TEST_DRAFT name no models\n");
        return EXIT_FAILURE;
    }
    return program_test("bench", tests, 300);
}

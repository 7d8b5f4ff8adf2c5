/* Container reader on files that are right, or wrong by accident: every metadata type, tensors,
 * split models, files that are missing, empty, cut short or something else. Hostile files:
 * test_hostile.c.
 *
 * Usage: test_gguf MODEL... (files that must open) */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build_gguf.h"

static int n_models;
static char **models;

static struct builder b;
static gguf_file *file;
static gguf_error error;

static void expect_error(const char *path, const char *part)
{
    ck_assert_msg(!gguf_open(path, &file, &error), "%s was opened", path);
    ck_assert_ptr_null(file);
    ck_assert_msg(strstr(error.text, part) != NULL, "'%s' is not in: %s", part, error.text);
}

static void open_or_fail(const char *path)
{
    ck_assert_msg(gguf_open(path, &file, &error), "%s", error.text);
}

static void check_integer(const char *name, uint64_t i, bool is_u64, uint64_t as_u64, bool is_i64,
                          int64_t as_i64)
{
    const gguf_key *key = gguf_find(file, name);
    uint64_t natural = 12345;
    int64_t whole = 12345;
    bool flag;
    gguf_string text;
    ck_assert_ptr_nonnull(key);
    ck_assert_msg(gguf_element_u64(file, key, i, &natural) == is_u64, "%s", name);
    ck_assert_uint_eq(natural, is_u64 ? as_u64 : 12345);
    ck_assert_msg(gguf_element_i64(file, key, i, &whole) == is_i64, "%s", name);
    ck_assert_int_eq(whole, is_i64 ? as_i64 : 12345);
    ck_assert(!gguf_element_bool(file, key, i, &flag));
    ck_assert(!gguf_element_string(file, key, i, &text));
}

static void check_float(const char *name, uint64_t i, double expected)
{
    double number;
    uint64_t natural;
    int64_t whole;
    const gguf_key *key = gguf_find(file, name);
    ck_assert_ptr_nonnull(key);
    ck_assert(gguf_element_f64(file, key, i, &number));
    ck_assert_double_eq(number, expected);
    if (key->element_type == GGUF_TYPE_F32 || key->element_type == GGUF_TYPE_F64)
        ck_assert(!gguf_element_u64(file, key, i, &natural) &&
                  !gguf_element_i64(file, key, i, &whole));
}

static void check_string(const char *name, uint64_t i, const char *bytes, size_t length)
{
    gguf_string text;
    double number;
    uint64_t natural;
    const gguf_key *key = gguf_find(file, name);
    ck_assert_ptr_nonnull(key);
    ck_assert(gguf_element_string(file, key, i, &text));
    ck_assert_uint_eq(text.length, length);
    ck_assert(memcmp(text.data, bytes, length) == 0);
    ck_assert(!gguf_element_f64(file, key, i, &number));
    ck_assert(!gguf_element_u64(file, key, i, &natural));
}

START_TEST(test_every_type)
{
    const uint32_t version = _i == 0 ? 2 : 3;
    bool flag;
    build_everything(&b, version);
    open_or_fail(scratch_write(&b, "everything.gguf"));
    ck_assert_uint_eq(gguf_version(file), version);
    ck_assert_uint_eq(gguf_n_keys(file), EVERYTHING_N_KEYS);
    ck_assert_uint_eq(gguf_n_shards(file), 1);
    ck_assert_uint_eq(gguf_size_bytes(file), b.n);
    ck_assert_str_eq(gguf_path(file), scratch_path("everything.gguf"));
    ck_assert_uint_eq(gguf_key_at(file, 0)->name.length, 2);
    ck_assert(memcmp(gguf_key_at(file, 0)->name.data, "u8", 2) == 0);
    check_integer("u8", 0, true, 250, true, 250);
    check_integer("i8", 0, false, 0, true, -5);
    check_integer("u16", 0, true, 65000, true, 65000);
    check_integer("i16", 0, false, 0, true, -300);
    check_integer("u32", 0, true, 4000000000u, true, 4000000000);
    check_integer("i32", 0, false, 0, true, -70000);
    check_integer("u64", 0, true, UINT64_MAX, false, 0);
    check_integer("i64", 0, false, 0, true, INT64_MIN);
    check_integer("array.u8", 2, true, 0, true, 0);
    check_integer("array.i8", 1, false, 0, true, -128);
    check_integer("array.u16", 0, true, 513, true, 513);
    check_integer("array.i16", 1, false, 0, true, -1);
    check_integer("array.u32", 1, true, UINT32_MAX, true, UINT32_MAX);
    check_integer("array.i32", 1, false, 0, true, INT32_MIN);
    check_integer("array.u64", 1, true, UINT64_MAX, false, 0);
    check_integer("array.i64", 1, true, INT64_MAX, true, INT64_MAX);
    check_float("u8", 0, 250);
    check_float("i32", 0, -70000);
    check_float("f32", 0, 0.5);
    check_float("f64", 0, 1e300);
    check_float("array.f32", 1, -2);
    check_float("array.f64", 0, 0.1);
    check_string("string", 0,
                 "a\0\xff"
                 "b",
                 4);
    check_string("string.empty", 0, "", 0);
    check_string("array.string", 0, "one", 3);
    check_string("array.string", 1, "", 0);
    check_string("array.string", 2, "three", 5);
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert(gguf_element_bool(file, gguf_find(file, "array.bool"), i, &flag));
        ck_assert(flag == (i != 1));
    }
    ck_assert_ptr_null(gguf_find(file, "u"));
    ck_assert_ptr_null(gguf_find(file, "u88"));
    ck_assert_ptr_null(gguf_find(file, ""));
    gguf_close(&file);
}
END_TEST

START_TEST(test_elements_past_the_end)
{
    uint64_t natural;
    int64_t whole;
    double number;
    bool flag;
    gguf_string text;
    build_everything(&b, 3);
    open_or_fail(scratch_write(&b, "everything.gguf"));
    for (uint64_t k = 0; k < gguf_n_keys(file); k++) {
        const gguf_key *key = gguf_key_at(file, k);
        const uint64_t past[] = {key->count, key->count + 1, UINT32_MAX, UINT64_MAX};
        for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
            ck_assert(!gguf_element_u64(file, key, past[i], &natural));
            ck_assert(!gguf_element_i64(file, key, past[i], &whole));
            ck_assert(!gguf_element_f64(file, key, past[i], &number));
            ck_assert(!gguf_element_bool(file, key, past[i], &flag));
            ck_assert(!gguf_element_string(file, key, past[i], &text));
        }
    }
    gguf_close(&file);
}
END_TEST

static void expect_message(bool result, const char *name, const char *found)
{
    ck_assert(!result);
    ck_assert_msg(strstr(error.text, name) && strstr(error.text, found), "%s", error.text);
}

START_TEST(test_scalars_by_name)
{
    uint32_t natural = 0;
    float number = 0;
    bool flag = false, present = true;
    gguf_string text = {NULL, 0};
    build_everything(&b, 3);
    open_or_fail(scratch_write(&b, "everything.gguf"));
    ck_assert(gguf_get_u32(file, "absent", 42, &natural, &error) && natural == 42);
    ck_assert(gguf_get_f32(file, "absent", 0.25f, &number, &error) && number == 0.25f);
    ck_assert(gguf_get_bool(file, "absent", true, &flag, &error) && flag);
    ck_assert(gguf_get_string(file, "absent", &text, &present, &error) && !present);

    ck_assert(gguf_get_u32(file, "u32", 1, &natural, &error) && natural == 4000000000u);
    ck_assert(gguf_get_u32(file, "u8", 1, &natural, &error) && natural == 250);
    ck_assert(gguf_get_f32(file, "f32", 1, &number, &error) && number == 0.5f);
    ck_assert(gguf_get_f32(file, "u16", 1, &number, &error) && number == 65000.0f);
    ck_assert(gguf_get_bool(file, "bool", false, &flag, &error) && flag);
    ck_assert(gguf_get_string(file, "string", &text, &present, &error) && present);
    ck_assert_uint_eq(text.length, 4);

    natural = 77;
    expect_message(gguf_get_u32(file, "i32", 1, &natural, &error), "key 'i32'", "i32 -70000");
    expect_message(gguf_get_u32(file, "u64", 1, &natural, &error), "key 'u64'",
                   "u64 18446744073709551615");
    expect_message(gguf_get_u32(file, "f32", 1, &natural, &error), "key 'f32'", "f32 0.5");
    expect_message(gguf_get_u32(file, "array.u32", 1, &natural, &error), "key 'array.u32'",
                   "an array of 2 u32");
    ck_assert_uint_eq(natural, 77);
    expect_message(gguf_get_f32(file, "f64", 1, &number, &error), "key 'f64'", "f64 1e+300");
    expect_message(gguf_get_f32(file, "bool", 1, &number, &error), "key 'bool'", "bool 1");
    expect_message(gguf_get_bool(file, "u8", true, &flag, &error), "key 'u8'", "u8 250");
    expect_message(gguf_get_bool(file, "array.bool", true, &flag, &error), "array.bool", "3 bool");
    expect_message(gguf_get_string(file, "u8", &text, &present, &error), "key 'u8'", "u8 250");
    expect_message(gguf_get_u32(file, "string", 1, &natural, &error), "key 'string'", "a string");
    gguf_close(&file);
}
END_TEST

START_TEST(test_tensors)
{
    static const struct {
        const char *name;
        uint32_t n_dims;
        uint64_t dims[4], n_elements, size_bytes, offset; /* from the start of the data */
        uint8_t first;
    } expected[EVERYTHING_N_TENSORS] = {
        {"first", 1, {5, 1, 1, 1}, 5, 20, 0, 10},
        {"second.weight", 2, {32, 3, 1, 1}, 96, 102, 64, 20},
        {"fourth", 3, {256, 1, 2, 1}, 512, 288, 256, 40},
        {"third", 4, {3, 1, 2, 1}, 6, 12, 192, 30},
    };
    uint8_t data[512];
    build_everything(&b, 3);
    open_or_fail(scratch_write(&b, "everything.gguf"));
    ck_assert_uint_eq(gguf_alignment(file), 64);
    ck_assert_uint_eq(gguf_n_tensors(file), EVERYTHING_N_TENSORS);
    const uint64_t data_start = gguf_tensor_at(file, 0)->offset;
    ck_assert_uint_eq(data_start % 64, 0);
    ck_assert_uint_eq(data_start + 256 + 288, b.n);
    for (uint64_t t = 0; t < EVERYTHING_N_TENSORS; t++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, t);
        ck_assert_ptr_eq(gguf_find_tensor(file, expected[t].name), tensor);
        ck_assert_str_eq(tensor->name, expected[t].name);
        ck_assert_uint_eq(tensor->n_dims, expected[t].n_dims);
        ck_assert(memcmp(tensor->dims, expected[t].dims, sizeof(tensor->dims)) == 0);
        ck_assert_uint_eq(tensor->n_elements, expected[t].n_elements);
        ck_assert_uint_eq(tensor->size_bytes, expected[t].size_bytes);
        ck_assert_uint_eq(tensor->offset, data_start + expected[t].offset);
        ck_assert_uint_eq(tensor->shard, 0);
        ck_assert(gguf_tensor_read(file, tensor, 0, data, tensor->size_bytes, &error));
        for (uint64_t i = 0; i < tensor->size_bytes; i++)
            ck_assert_uint_eq(data[i], (uint8_t)(expected[t].first + i));
        ck_assert(memcmp(gguf_tensor_data(file, tensor), data, tensor->size_bytes) == 0);
    }
    const gguf_tensor *second = gguf_find_tensor(file, "second.weight");
    ck_assert(gguf_tensor_read(file, second, 100, data, 2, &error));
    ck_assert_uint_eq(data[0], 120);
    ck_assert(gguf_tensor_read(file, second, 102, data, 0, &error));
    ck_assert(!gguf_tensor_read(file, second, 100, data, 3, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "second.weight"));
    ck_assert(!gguf_tensor_read(file, second, 103, data, 0, &error));
    ck_assert(!gguf_tensor_read(file, second, 2, data, UINT64_MAX - 1, &error));
    ck_assert_ptr_nonnull(strstr(error.text, "were asked for"));
    ck_assert_ptr_null(gguf_find_tensor(file, "second"));
    gguf_close(&file);
}
END_TEST

/* Alignment of the data when no key gives one, at both ends of the range, and in another width. */
START_TEST(test_alignments)
{
    static const struct {
        uint32_t type; /* UINT32_MAX: no key */
        uint32_t value, expected;
    } cases[] = {
        {UINT32_MAX, 0, 32},       {GGUF_TYPE_U32, 8, 8},   {GGUF_TYPE_U32, 65536, 65536},
        {GGUF_TYPE_U64, 128, 128}, {GGUF_TYPE_I32, 16, 16},
    };
    const uint32_t type = cases[_i].type, expected = cases[_i].expected;
    begin_file(&b, 3, 2, type != UINT32_MAX);
    if (type != UINT32_MAX) {
        put_key(&b, "general.alignment", type);
        put_u32(&b, cases[_i].value);
        if (type == GGUF_TYPE_U64)
            put_u32(&b, 0);
    }
    put_tensor(&b, "a", (const uint64_t[4]){1}, FORMAT_F32, 0);
    put_tensor(&b, "b", (const uint64_t[4]){1}, FORMAT_F32, expected);
    put_padding(&b, expected);
    put_data(&b, 1, 4);
    put_padding(&b, expected);
    put_data(&b, 5, 4);
    open_or_fail(scratch_write(&b, "alignment.gguf"));
    ck_assert_uint_eq(gguf_alignment(file), expected);
    ck_assert_uint_eq(gguf_tensor_data(file, gguf_find_tensor(file, "b"))[0], 5);
    gguf_close(&file);
}
END_TEST

/* Metadata of several windows: names and values must survive the buffer's growth. */
START_TEST(test_large_metadata)
{
    char text[64];
    gguf_string string;
    const uint64_t n = 50000;
    begin_file(&b, 3, 0, 3);
    put_key_string(&b, "before", "early");
    put_key_array(&b, "tokens", GGUF_TYPE_STRING, n);
    for (uint64_t i = 0; i < n; i++) {
        snprintf(text, sizeof(text), "token number %llu", (unsigned long long)i);
        put_string(&b, text);
    }
    put_key_string(&b, "after", "late");
    open_or_fail(scratch_write(&b, "large.gguf"));
    check_string("before", 0, "early", 5);
    check_string("after", 0, "late", 4);
    for (uint64_t i = 0; i < n; i++) {
        int length = snprintf(text, sizeof(text), "token number %llu", (unsigned long long)i);
        ck_assert(gguf_element_string(file, gguf_find(file, "tokens"), i, &string));
        ck_assert_uint_eq(string.length, (size_t)length);
        ck_assert(memcmp(string.data, text, string.length) == 0);
    }
    gguf_close(&file);
}
END_TEST

START_TEST(test_file_cut_short_while_in_use)
{
    uint8_t data[512];
    build_everything(&b, 3);
    const char *path = scratch_write(&b, "cut.gguf");
    open_or_fail(path);
    const gguf_tensor *fourth = gguf_find_tensor(file, "fourth");
    ck_assert_int_eq(truncate(path, (off_t)(fourth->offset + 100)), 0);
    ck_assert(gguf_tensor_read(file, fourth, 0, data, 100, &error));
    ck_assert(!gguf_tensor_read(file, fourth, 0, data, fourth->size_bytes, &error));
    ck_assert(error.is_io);
    ck_assert_msg(strstr(error.text, "cut.gguf") && strstr(error.text, "cut short while in use"),
                  "%s", error.text);
    gguf_close(&file);
}
END_TEST

START_TEST(test_not_a_gguf_file)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *message;
    } cases[] = {
        {"", 0, "the file is empty"},
        {"GG", 2, "cut short"},
        {"GGUF", 4, "cut short"},
        {"GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 23, "cut short"},
        {"X", 1, "not a GGUF file: it starts with 'X'"},
        {"gguf and more text than a header has", 36, "starts with 'gguf'"},
        {"\x1b]0;\n and more text than a header has", 36, "starts with '\\x1b]0;'"},
        {"version https://git-lfs.github.com/spec/v1", 42, "git lfs pull"},
        {"PK\3\4 and more text than a header has", 36, "ZIP archive"},
        {"<!DOCTYPE html> and the rest of the page", 36, "a web page"},
        {"tjgg and more text than a header has", 36, "GGJT"},
    };
    b.n = 0;
    put_bytes(&b, cases[_i].bytes, cases[_i].n);
    expect_error(scratch_write(&b, "other.gguf"), cases[_i].message);
    ck_assert_ptr_nonnull(strstr(error.text, "other.gguf"));
    ck_assert(!error.is_unsupported && !error.is_io);
}
END_TEST

START_TEST(test_paths_that_are_no_files)
{
    expect_error(scratch_path("missing.gguf"), "missing.gguf: No such file or directory");
    ck_assert(error.is_io);
    ck_assert_int_eq(mkdir(scratch_path("folder"), 0700), 0);
    expect_error(scratch_path("folder"), "folder: is a directory");
    ck_assert(error.is_io);
    expect_error(scratch_path("folder/x.gguf"), "No such file or directory");
    ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0600), 0);
    expect_error(scratch_path("pipe"), "pipe: is not a regular file");
    expect_error("", "No such file or directory");
    /* A long path is shortened; the reason is still there. */
    char name[900];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memcpy(name + sizeof(name) - 6, ".gguf", 5);
    expect_error(scratch_path(name), "xxx.gguf: File name too long");
    ck_assert(strlen(error.text) < 250);
    /* No terminal is driven by a file name. */
    expect_error(scratch_path("a\033[2Jb\n.gguf"), "a\\x1b[2Jb\\x0a.gguf: No such file");
}
END_TEST

START_TEST(test_models_open)
{
    for (int i = 0; i < n_models; i++)
        ck_assert_msg(use_everything(models[i], &error), "%s", error.text);
    ck_assert_int_gt(n_models, 0);
}
END_TEST

START_TEST(test_close_of_nothing)
{
    gguf_file *nothing = NULL;
    gguf_close(&nothing);
    gguf_close(NULL);
    ck_assert_ptr_null(nothing);
}
END_TEST

/* ---------------------------------------------------------------------------------- messages */

START_TEST(test_quote)
{
    static const struct {
        const char *text;
        size_t length;
        const char *expected;
    } cases[] = {
        {"plain text", 10, "plain text"},
        {"a\0b", 3, "a\\x00b"},
        {"tab\tline\nend\r\x7f", 14, "tab\\x09line\\x0aend\\x0d\\x7f"},
        {"quotes ' \" \\", 12, "quotes \\x27 \\x22 \\x5c"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", 14,
         "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"\xff\xc3", 2, "\\xff\\xc3"},
        {"\xc0\xaf", 2, "\\xc0\\xaf"},                   /* overlong */
        {"\xed\xa0\x80", 3, "\\xed\\xa0\\x80"},          /* surrogate */
        {"\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"}, /* beyond U+10FFFF */
        {"\xc2\x9b"
         "2J",
         4, "\\xc2\\x9b2J"},                    /* C1 control */
        {"\xe2\x80\xae", 3, "\\xe2\\x80\\xae"}, /* right-to-left override */
        {"\xef\xbb\xbf", 3, "\\xef\\xbb\\xbf"}, /* byte order mark */
        {"", 0, ""},
    };
    char buffer[128];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_str_eq(gguf_quote(buffer, sizeof(buffer), cases[i].text, cases[i].length),
                         cases[i].expected);
}
END_TEST

START_TEST(test_quote_cuts_at_a_character)
{
    char buffer[16];
    ck_assert_str_eq(gguf_quote(buffer, 11, "1234567890", 10), "1234567890");
    ck_assert_str_eq(gguf_quote(buffer, 10, "1234567890", 10), "123456...");
    ck_assert_str_eq(gguf_quote(buffer, 10, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 12),
                     "\xe2\x82\xac\xe2\x82\xac...");
    ck_assert_str_eq(gguf_quote(buffer, 8, "\1\1\1", 3), "\\x01...");
}
END_TEST

START_TEST(test_long_messages_stay_valid)
{
    char text[600];
    for (int shift = 0; shift < 3; shift++) {
        memset(text, 'x', sizeof(text));
        for (size_t i = (size_t)shift; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xe2\x82\xac", 3);
        text[sizeof(text) - 1] = '\0';
        gguf_fail(&error, "%s", text);
        const size_t length = strlen(error.text), whole = (511 - (size_t)shift) / 3 * 3;
        ck_assert_uint_eq(length, whole + (size_t)shift);
    }
    ck_assert(!gguf_refuse(&error, "no %d", 1) && error.is_unsupported && !error.is_io);
    ck_assert(!gguf_no_memory(&error, "x") && error.is_out_of_memory && !error.is_unsupported);
    ck_assert_str_eq(error.text, "out of memory for x");
    ck_assert(!gguf_fail(NULL, "nobody listens") && !gguf_no_memory(NULL, "x"));
}
END_TEST

int main(int argc, char **argv)
{
    n_models = argc - 1;
    models = argv + 1;
    scratch_create();
    Suite *suite = suite_create("gguf");
    TCase *reading = tcase_create("reading");
    tcase_add_loop_test(reading, test_every_type, 0, 2);
    tcase_add_test(reading, test_elements_past_the_end);
    tcase_add_test(reading, test_scalars_by_name);
    tcase_add_test(reading, test_tensors);
    tcase_add_loop_test(reading, test_alignments, 0, 5);
    tcase_add_test(reading, test_large_metadata);
    tcase_add_test(reading, test_file_cut_short_while_in_use);
    tcase_add_test(reading, test_models_open);
    tcase_add_test(reading, test_close_of_nothing);
    tcase_set_timeout(reading, 60);
    suite_add_tcase(suite, reading);
    TCase *mistakes = tcase_create("mistakes");
    tcase_add_loop_test(mistakes, test_not_a_gguf_file, 0, 11);
    tcase_add_test(mistakes, test_paths_that_are_no_files);
    suite_add_tcase(suite, mistakes);
    TCase *messages = tcase_create("messages");
    tcase_add_test(messages, test_quote);
    tcase_add_test(messages, test_quote_cuts_at_a_character);
    tcase_add_test(messages, test_long_messages_stay_valid);
    suite_add_tcase(suite, messages);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    free_builder(&b);
    scratch_remove();
    return n_failed == 0 ? 0 : 1;
}

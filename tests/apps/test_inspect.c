/* `outrider inspect`: what it shows of good files, and what it says of bad ones. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define STORIES TEST_DATA "/models/stories260K-f32.gguf"
#define DEMO_TARGET TEST_MODELS "/outrider-demo-target.gguf"

/* A file of these bytes, removed and freed by drop_file. */
static char *make_file(const void *bytes, size_t n)
{
    char *path = strdup("/tmp/outrider-test-XXXXXX");
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    close(fd);
    return path;
}

static void drop_file(char *path)
{
    unlink(path);
    free(path);
}

struct bytes {
    unsigned char data[4096];
    size_t n;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    ck_assert_uint_le(b->n + n, sizeof(b->data));
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_u32(struct bytes *b, uint32_t v)
{
    put(b, &v, sizeof(v));
}

static void put_u64(struct bytes *b, uint64_t v)
{
    put(b, &v, sizeof(v));
}

static void put_string(struct bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static void put_header(struct bytes *b, uint64_t n_tensors, uint64_t n_keys)
{
    put(b, "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, n_tensors);
    put_u64(b, n_keys);
}

START_TEST(test_text_form)
{
    struct program_result r = RUN("inspect", DEMO_TARGET, "--tensors");

    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_str_eq(r.err, "");
    ck_assert_ptr_nonnull(strstr(r.out, "architecture  \"llama\""));
    ck_assert_ptr_nonnull(strstr(r.out, "Q8_0 99."));
    ck_assert_ptr_nonnull(strstr(r.out, "4096 tokens"));
    ck_assert_ptr_nonnull(strstr(r.out, "GPU           runs"));
    ck_assert_ptr_nonnull(strstr(r.out, "tokenizer.ggml.tokens  string[4096]  [\"!\", "));
    ck_assert_ptr_nonnull(strstr(r.out, ", ...]"));
    ck_assert_ptr_nonnull(strstr(r.out, "token_embd.weight  Q8_0  256 x 4096"));
    /* Arrays are cut: the output is a page, not a vocabulary. */
    ck_assert_uint_lt(r.n_out, 20000);
    program_free(&r);
}
END_TEST

START_TEST(test_json_form)
{
    struct program_result r = RUN("inspect", "--json", "-m", STORIES);
    json_t *object = program_json(&r, 0), *value, *key;
    size_t i;
    double share = 0.0;
    bool found = false;

    ck_assert_int_eq(json_integer_value(json_object_get(object, "version")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(object, "architecture")), "llama");
    ck_assert_int_eq(json_integer_value(json_object_get(object, "n_vocab")), 512);
    ck_assert_str_eq(json_string_value(json_object_get(object, "tokenizer")), "SPM");
    ck_assert(json_is_true(json_object_get(object, "runs")));
    ck_assert(json_is_null(json_object_get(object, "problem")));
    json_array_foreach(json_object_get(object, "formats"), i, value)
    {
        share += json_real_value(json_object_get(value, "share"));
    }
    ck_assert_double_eq_tol(share, 1.0, 1e-6);
    json_array_foreach(json_object_get(object, "metadata"), i, value)
    {
        key = json_object_get(value, "key");
        if (strcmp(json_string_value(key), "tokenizer.ggml.scores") != 0)
            continue;
        found = true;
        ck_assert_str_eq(json_string_value(json_object_get(value, "element_type")), "f32");
        ck_assert_int_eq(json_integer_value(json_object_get(value, "count")), 512);
        ck_assert_uint_eq(json_array_size(json_object_get(value, "first_values")), 8);
    }
    ck_assert(found);
    ck_assert_uint_gt(json_array_size(json_object_get(object, "tensors")), 40);
    json_decref(object);
    program_free(&r);
}
END_TEST

/* Strings that would drive a terminal, break JSON, or exceed a reader's integers. */
START_TEST(test_hostile_strings)
{
    struct bytes b = {.n = 0};
    struct program_result r;
    json_t *object, *keys;
    char *path;

    put_header(&b, 0, 4);
    put_string(&b, "general.architecture");
    put_u32(&b, 8);
    put_string(&b, "\x1b[2Jlla\nma\xff");
    put_string(&b, "evil\x1b]0;owned\x07.key");
    put_u32(&b, 10);
    put_u64(&b, UINT64_MAX);
    put_string(&b, "general.name");
    put_u32(&b, 8);
    put_string(&b, "\"quoted\" \xe2\x80\xae"
                   "desrever");
    put_string(&b, "not.a.number");
    put_u32(&b, 6);
    put_u32(&b, 0x7fc00000);
    path = make_file(b.data, b.n);

    r = RUN("inspect", path);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_null(strchr(r.out, '\x1b'));
    ck_assert_ptr_null(strchr(r.out, '\x07'));
    ck_assert_ptr_null(strstr(r.out, "\xe2\x80\xae"));
    ck_assert_ptr_nonnull(strstr(r.out, "\\x1b[2Jlla\\nma\\xff"));
    ck_assert_ptr_nonnull(strstr(r.out, "evil\\x1b]0;owned\\x07.key"));
    ck_assert_ptr_nonnull(strstr(r.out, "\\\"quoted\\\" \\u{202e}desrever"));
    ck_assert_ptr_nonnull(strstr(r.out, "18446744073709551615"));
    ck_assert_ptr_nonnull(strstr(r.out, "can't run"));
    program_free(&r);

    r = RUN("inspect", "--json", path);
    object = program_json(&r, 0);
    ck_assert_str_eq(json_string_value(json_object_get(object, "architecture")),
                     "\x1b[2Jlla\nma\xef\xbf\xbd");
    keys = json_object_get(object, "metadata");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(keys, 1), "value")),
                     "18446744073709551615");
    ck_assert(json_is_null(json_object_get(json_array_get(keys, 3), "value")));
    ck_assert(json_is_false(json_object_get(object, "runs")));
    json_decref(object);
    program_free(&r);
    drop_file(path);
}
END_TEST

START_TEST(test_bad_files)
{
    struct bytes b = {.n = 0};
    char *path;
    FILE *file;
    size_t n;

    EXPECT_REFUSED(RUN("inspect", "/nonexistent.gguf"), 3, "/nonexistent.gguf", "No such file");
    EXPECT_REFUSED(RUN("inspect", "/"), 3, "/");
    path = make_file("", 0);
    EXPECT_REFUSED(RUN("inspect", path), 3, path);
    drop_file(path);
    path = make_file("#!/bin/sh\necho this is no model at all\n", 39);
    EXPECT_REFUSED(RUN("inspect", path), 3, path, "GGUF");
    drop_file(path);

    /* A count that no file can hold must not be believed. */
    put_header(&b, UINT64_C(1) << 62, 1);
    path = make_file(b.data, b.n);
    EXPECT_REFUSED(RUN("inspect", path), 3, path);
    drop_file(path);

    /* A good file cut short: within the metadata, and within the tensor data. */
    file = fopen(STORIES, "rb");
    ck_assert_ptr_nonnull(file);
    n = fread(b.data, 1, sizeof(b.data), file);
    path = make_file(b.data, n);
    EXPECT_REFUSED(RUN("inspect", path), 3, path);
    drop_file(path);
    fseek(file, 0, SEEK_END);
    n = (size_t)ftell(file) - 1000;
    rewind(file);
    {
        char *most = malloc(n);

        ck_assert_uint_eq(fread(most, 1, n, file), n);
        path = make_file(most, n);
        free(most);
    }
    fclose(file);
    EXPECT_REFUSED(RUN("inspect", path), 3, path);
    drop_file(path);
}
END_TEST

START_TEST(test_unsupported)
{
    struct program_result r;
    struct bytes b = {.n = 0};
    char *path;

    EXPECT_REFUSED(RUN("inspect", TEST_DATA "/formats/fix-TQ1_0.gguf"), 3, "TQ1_0");
    r = RUN("inspect", TEST_DATA "/formats/weights-Q5_0.gguf");
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "can't run: "));
    ck_assert_ptr_nonnull(strstr(r.out, "token_embd.weight"));
    program_free(&r);

    put_header(&b, 0, 1);
    put_string(&b, "general.architecture");
    put_u32(&b, 8);
    put_string(&b, "mamba");
    path = make_file(b.data, b.n);
    r = RUN("inspect", path);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "can't run: the architecture 'mamba'"));
    program_free(&r);
    drop_file(path);
}
END_TEST

START_TEST(test_needs_no_vulkan)
{
    struct program_result r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"inspect", STORIES, NULL},
        .environment = (const char *const[]){"OUTRIDER_VULKAN_LOADER=/nonexistent", NULL},
    });

    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_str_eq(r.err, "");
    program_free(&r);
}
END_TEST

START_TEST(test_full_disk)
{
    EXPECT_REFUSED(program_run(&(struct program_call){
                       .arguments = (const char *const[]){"inspect", STORIES, "--json", NULL},
                       .output_path = "/dev/full"}),
                   1, "No space left");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_text_form,   test_json_form,       test_hostile_strings, test_bad_files,
        test_unsupported, test_needs_no_vulkan, test_full_disk,       NULL};

    return program_test("inspect", tests, 60);
}

/* Every allocation of gguf_open fails once: the error says so, nothing leaks (the address sanitizer
 * looks), and nothing half-open is left.
 *
 * Linked with --wrap for malloc, calloc and realloc, which reach the library that is linked in. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_gguf.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned long n_allocations; /* since the count was set to 0 */
static unsigned long failing;       /* the one that fails, from 1; 0: none */

static bool fails_now(void)
{
    return ++n_allocations == failing;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

/* The lowest free descriptor tells whether one was left open. */
static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
}

static bool is_mapped(const char *path)
{
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps))
        found |= strstr(line, path) != NULL;
    fclose(maps);
    return found;
}

/* Opens with the n-th allocation failing, for each n; returns how many there are. */
static unsigned long fail_each(const char *path)
{
    gguf_file *file;
    gguf_error error;
    const int fd = next_descriptor();
    for (unsigned long n = 1;; n++) {
        n_allocations = 0;
        failing = n;
        bool opened = gguf_open(path, &file, &error);
        failing = 0;
        if (opened) {
            ck_assert_uint_eq(n_allocations, n - 1);
            ck_assert(is_mapped(path));
            gguf_close(&file);
            ck_assert(!is_mapped(path));
            return n - 1;
        }
        ck_assert_ptr_null(file);
        ck_assert_msg(error.is_out_of_memory && strstr(error.text, "out of memory"), "%s",
                      error.text);
        ck_assert_int_eq(next_descriptor(), fd);
        ck_assert(!is_mapped(path));
        ck_assert_uint_lt(n, 1000);
    }
}

START_TEST(test_one_file)
{
    struct builder b = {0};
    build_everything(&b, 3);
    const char *path = scratch_write(&b, "everything.gguf");
    free_builder(&b);
    /* File, path, path of the shard, metadata, keys, strings, tensors, and two indexes at least. */
    ck_assert_uint_ge(fail_each(path), 9);
}
END_TEST

START_TEST(test_split_file)
{
    struct builder b = {0};
    char name[64];
    for (uint32_t part = 0; part < 3; part++) {
        const char tensor[2] = {(char)('a' + part), '\0'};
        begin_file(&b, 3, 1, 2);
        put_key_u32(&b, "split.no", part);
        put_key_u32(&b, "split.count", 3);
        put_tensor(&b, tensor, (const uint64_t[4]){1}, FORMAT_F32, 0);
        put_padding(&b, 32);
        put_data(&b, 0, 4);
        snprintf(name, sizeof(name), "m-%05u-of-00003.gguf", part + 1);
        scratch_write(&b, name);
    }
    free_builder(&b);
    ck_assert_uint_ge(fail_each(scratch_path("m-00002-of-00003.gguf")), 20);
}
END_TEST

int main(void)
{
    scratch_create();
    Suite *suite = suite_create("gguf memory");
    TCase *tests = tcase_create("out of memory");
    tcase_add_test(tests, test_one_file);
    tcase_add_test(tests, test_split_file);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    scratch_remove();
    return n_failed == 0 ? 0 : 1;
}

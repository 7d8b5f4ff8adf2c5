/* Every allocation of loading a vocabulary, of tokenising and of detokenising fails once: the error
 * says so, and nothing leaks (the address sanitizer looks).
 *
 * Linked with --wrap for malloc, calloc and realloc, which reach the library that is linked in. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "tokenizer.h"
#include "vocab_builder.h"

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

static void fail_at(unsigned long n)
{
    n_allocations = 0;
    failing = n;
}

static const char *const paths[] = {
    TEST_DATA "/vocab/vocab-llama-bpe.gguf",
    TEST_DATA "/models/stories260K-f32.gguf",
};

START_TEST(loading)
{
    gguf_file *file;
    gguf_error error;
    vocab *v;
    ck_assert(gguf_open(paths[_i], &file, &error));
    unsigned long n = 1;
    for (;; n++) {
        fail_at(n);
        bool ok = vocab_load(file, &v, &error);
        fail_at(0);
        if (ok)
            break;
        ck_assert_ptr_null(v);
        ck_assert_msg(error.is_out_of_memory, "%s", error.text);
        ck_assert_uint_lt(n, 1000);
    }
    ck_assert_uint_gt(n, 5);
    vocab_free(&v);
    gguf_close(&file);
}
END_TEST

START_TEST(tokenising)
{
    static const char piece[] = "Hello, world! <|im_end|></s>\u4f60\u597d  \n 123 ";
    static const char dots[] = "............................................................";
    enum { N_PIECES = 20 };
    char text[N_PIECES * sizeof(piece) + sizeof(dots)] = "";
    gguf_error error;
    vocab *v;
    int32_t *ids;
    size_t n_ids;
    for (int i = 0; i < N_PIECES; i++)
        strcat(text, piece);
    strcat(text, dots);
    ck_assert_msg(load_vocab_file(paths[_i], &v, &error), "%s", error.text);
    unsigned long n = 1;
    for (;; n++) {
        fail_at(n);
        bool ok = tokenize(v, text, strlen(text), TOKENIZE_PARSE_SPECIAL | TOKENIZE_ADD_BOS, &ids,
                           &n_ids, &error);
        fail_at(0);
        if (ok)
            break;
        ck_assert_ptr_null(ids);
        ck_assert_uint_eq(n_ids, 0);
        ck_assert_msg(error.is_out_of_memory, "%s", error.text);
        ck_assert_uint_lt(n, 10000);
    }
    ck_assert_uint_gt(n, 5);
    free(ids);
    vocab_free(&v);
}
END_TEST

START_TEST(detokenising)
{
    gguf_error error;
    vocab *v;
    ck_assert_msg(load_vocab_file(paths[_i], &v, &error), "%s", error.text);
    unsigned long n = 1;
    for (;; n++) {
        detokenizer d;
        char *text = NULL;
        size_t length = 0, capacity = 0;
        bool ok = true;
        detokenizer_init(&d, v, true, false);
        fail_at(n);
        for (uint32_t id = 260; id < 400 && ok; id++)
            ok = detokenizer_push(&d, id, &text, &length, &capacity);
        ok = ok && detokenizer_finish(&d, &text, &length, &capacity);
        fail_at(0);
        if (length > 0)
            ck_assert_uint_eq(strlen(text), length);
        free(text);
        if (ok)
            break;
        ck_assert_uint_lt(n, 100);
    }
    ck_assert_uint_gt(n, 2);
    vocab_free(&v);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer memory");
    TCase *tests = tcase_create("tokenizer memory");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, loading, 0, 2);
    tcase_add_loop_test(tests, tokenising, 0, 2);
    tcase_add_loop_test(tests, detokenising, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

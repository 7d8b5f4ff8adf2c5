/* Time on long texts: whatever the text, tokenising is linear in practice, and it comes back whole.
 * With the argument "all" it takes minutes and leaves nothing out.
 *
 * Times are of the processor, as the machine may be busy with other things. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../suite.h"
#include "special.h"
#include "tokenizer.h"
#include "vocab_builder.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__SANITIZE_ADDRESS__)
#define SECONDS 10.0 /* the sanitizer slows the very accesses that are measured */
#else
#define SECONDS 1.0
#endif
#define N_LONG 300000

static bool with_all_tails; /* every run before every tail; else each run before one of them */

static const char *const patterns[] = {
    "default", "deepseek-llm", "deepseek-v3", "falcon", "gpt-2", "llama-bpe",
    "qwen2",   "smollm",       "starcoder",   "tekken", NULL, /* SPM */
};

static vocab *load_pattern(const char *pre)
{
    char path[512];
    vocab *v;
    gguf_error error;
    if (pre)
        snprintf(path, sizeof(path), "%s/vocab/vocab-%s.gguf", TEST_DATA, pre);
    else
        snprintf(path, sizeof(path), "%s/models/stories260K-f32.gguf", TEST_DATA);
    ck_assert_msg(load_vocab_file(path, &v, &error), "%s", error.text);
    return v;
}

/* Tokenises `times` copies of the unit and then the tail; checks the time and the way back. */
static void assert_fast(const vocab *v, const char *what, const char *unit, size_t times,
                        const char *tail)
{
    size_t n_unit = strlen(unit), n = times * n_unit + strlen(tail);
    char *text = malloc(n + 1);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * n_unit, unit, n_unit);
    memcpy(text + times * n_unit, tail, strlen(tail) + 1);

    int32_t *ids;
    size_t n_ids, n_back = 0, capacity = 0;
    gguf_error error;
    clock_t start = clock();
    bool ok = tokenize(v, text, n, TOKENIZE_PARSE_SPECIAL, &ids, &n_ids, &error);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    ck_assert_msg(ok, "%s, %s\"%s\": %s", vocab_pre_name(v), what, tail, error.text);
    ck_assert_msg(seconds < SECONDS, "%s, %s\"%s\": %.2f s", vocab_pre_name(v), what, tail,
                  seconds);
    char *back = NULL;
    detokenizer d;
    detokenizer_init(&d, v, true, false);
    for (size_t i = 0; i < n_ids && ok; i++)
        ok = detokenizer_push(&d, (uint32_t)ids[i], &back, &n_back, &capacity);
    ck_assert_msg(ok && n_back == n && memcmp(back, text, n) == 0, "%s, %s\"%s\": other text",
                  vocab_pre_name(v), what, tail);
    free(back);
    free(ids);
    free(text);
}

START_TEST(long_runs_are_fast)
{
    static const struct {
        const char *what, *unit;
    } runs[] = {
        {"letters", "a"},
        {"capitals", "A"},
        {"blanks", " "},
        {"tabs", "\t"},
        {"newlines", "\n"},
        {"returns and newlines", "\r\n"},
        {"blanks and newlines", " \n"},
        {"newlines and blanks", "\n  "},
        {"Han", "\u4f60"},
        {"Hangul", "\ud55c"},
        {"digits", "1"},
        {"other digits", "\u0663"},
        {"punctuation", "!"},
        {"apostrophes", "'"},
        {"less-than signs", "<"},
        {"half special tokens", "<|im_"},
        {"special tokens", "<|im_end|>"},
        {"combining marks", "\u0301"},
        {"letters with marks", "e\u0301"},
        {"emoji", "\U0001f600"},
        {"changing case", "aB"},
        {"control characters", "\x01"},
        {"wide blanks", "\u3000"},
        {"letters without case", "\u10d0"},
        {"slashes and newlines", "/\n"},
        {"letters and blanks", "a  "},
    };
    static const char *const tails[] = {"", "x", "!", "\n", "1", "\x01"};
    vocab *v = load_pattern(patterns[_i]);
    for (size_t r = 0; r < N_ELEMENTS(runs); r++) {
        for (size_t t = 0; t < N_ELEMENTS(tails); t++) {
            /* What follows matters most to blanks, which a pattern may have to give back. */
            bool is_blank = strcmp(runs[r].unit, " ") == 0 || strcmp(runs[r].unit, "\t") == 0;
            if (with_all_tails || is_blank || t == (r + (size_t)_i) % N_ELEMENTS(tails))
                assert_fast(v, runs[r].what, runs[r].unit, N_LONG / strlen(runs[r].unit), tails[t]);
        }
    }
    assert_fast(v, "Han in full", "\u4f60", N_LONG, "");
    vocab_free(&v);
}
END_TEST

START_TEST(prose_is_fast)
{
    vocab *v = load_pattern(patterns[_i]);
    static const char prose[] =
        "It was in 1851 that the old man's daughter said: \"I know nothing of it, nor do I wish "
        "to\"; and she'd gone,\nquietly as ever, before anybody could ask (as one did) why. ";
    assert_fast(v, "prose", prose, ((size_t)1 << 20) / strlen(prose), "");
    vocab_free(&v);
}
END_TEST

/* Many user-defined tokens that are runs of one another, as some vocabularies have for newlines,
 * and a thousand tokens that begin alike. */
START_TEST(many_special_tokens_are_fast)
{
    enum { N_RUNS = SPECIAL_MAX_BYTES, N_ALIKE = 1000 };
    static char runs[N_RUNS + 1], names[N_ALIKE][16];
    static gguf_string tokens[N_RUNS + N_ALIKE];
    static int32_t types[N_RUNS + N_ALIKE];
    static float scores[N_RUNS + N_ALIKE];
    vocab_builder builder = {0};
    vocab *v;
    gguf_error error;
    memset(runs, '\n', N_RUNS);
    for (int i = 0; i < N_RUNS; i++)
        tokens[i] = (gguf_string){runs, (size_t)i + 1};
    for (int i = 0; i < N_ALIKE; i++) {
        int length = snprintf(names[i], sizeof(names[i]), "<|aa%d|>", i);
        tokens[N_RUNS + i] = (gguf_string){names[i], (size_t)length};
    }
    for (int i = 0; i < N_RUNS + N_ALIKE; i++)
        types[i] = TOKEN_USER_DEFINED;
    types[N_RUNS + N_ALIKE - 1] = TOKEN_UNKNOWN;
    builder_string(&builder, "tokenizer.ggml.model", "llama", 5);
    builder_strings(&builder, "tokenizer.ggml.tokens", tokens, N_ELEMENTS(tokens));
    builder_i32s(&builder, "tokenizer.ggml.token_type", types, N_ELEMENTS(types));
    builder_f32s(&builder, "tokenizer.ggml.scores", scores, N_ELEMENTS(scores));
    ck_assert_msg(builder_load(&builder, &v, &error), "%s", error.text);
    assert_fast(v, "newlines", "\n", N_LONG, "");
    assert_fast(v, "tokens", "<|aa7|>", N_LONG / 7, "\n");
    vocab_free(&v);
    builder_free(&builder);
}
END_TEST

int main(int argc, char **argv)
{
    with_all_tails = argc > 1 && strcmp(argv[1], "all") == 0;
    Suite *suite = suite_create("long text");
    TCase *tests = tcase_create("long text");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, long_runs_are_fast, 0, (int)N_ELEMENTS(patterns));
    tcase_add_loop_test(tests, prose_is_fast, 0, (int)N_ELEMENTS(patterns));
    tcase_add_test(tests, many_special_tokens_are_fast);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

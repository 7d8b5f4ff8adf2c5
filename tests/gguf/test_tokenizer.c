/* Tokenising and detokenising: the vectors of another implementation, byte offsets of broken text,
 * what streams hold back, and round trips of random text.
 *
 * The vectors in tests/data/vocab were made with llama.cpp 0.7.0's tokeniser. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "random_text.h"
#include "tokenizer.h"
#include "utf8.h"
#include "vocab_builder.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
#define VOCAB(name) TEST_DATA "/vocab/vocab-" name ".gguf", TEST_DATA "/vocab/vocab-" name ".json"
#define STORIES TEST_DATA "/models/stories260K-f32.gguf"

static const struct {
    const char *model, *vectors;
} files[] = {
    {VOCAB("default")},
    {VOCAB("deepseek-llm")},
    {VOCAB("deepseek-v3")},
    {VOCAB("falcon")},
    {VOCAB("gpt-2")},
    {VOCAB("llama-bpe")},
    {VOCAB("qwen2")},
    {VOCAB("smollm")},
    {VOCAB("starcoder")},
    {VOCAB("tekken")},
    {DEMO_TARGET, TEST_DATA "/vocab/tokens-outrider-demo.json"},
    {STORIES, TEST_DATA "/vocab/tokens-stories260K.json"},
};

static vocab *load_file(const char *path)
{
    vocab *v;
    gguf_error error;
    ck_assert_msg(load_vocab_file(path, &v, &error), "%s: %s", path, error.text);
    return v;
}

typedef struct ids {
    int32_t *ids;
    size_t n;
} ids;

static ids tokenize_ok(const vocab *v, const char *text, size_t n_bytes, unsigned flags)
{
    ids out;
    gguf_error error;
    ck_assert_msg(tokenize(v, text, n_bytes, flags, &out.ids, &out.n, &error), "%s", error.text);
    return out;
}

static void assert_ids(const vocab *v, const char *text, unsigned flags, const int32_t *wanted,
                       size_t n)
{
    ids got = tokenize_ok(v, text, strlen(text), flags);
    ck_assert_msg(got.n == n, "\"%s\": %zu ids for %zu", text, got.n, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(got.ids[i] == wanted[i], "\"%s\": id %zu is %d, not %d", text, i, got.ids[i],
                      wanted[i]);
    free(got.ids);
}
#define ASSERT_IDS(v, text, flags, ...)                                                            \
    assert_ids(v, text, flags, (const int32_t[]){__VA_ARGS__},                                     \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

START_TEST(vectors_agree)
{
    vocab *v = load_file(files[_i].model);
    json_error_t json_error;
    json_t *root = json_load_file(files[_i].vectors, JSON_ALLOW_NUL, &json_error);
    ck_assert_msg(root != NULL, "%s: %s", files[_i].vectors, json_error.text);
    json_t *cases = json_object_get(root, "cases"), *one;
    size_t index;
    ck_assert_uint_ge(json_array_size(cases), 200);
    json_array_foreach(cases, index, one)
    {
        json_t *text = json_object_get(one, "text"), *wanted = json_object_get(one, "ids");
        bool parse = json_is_true(json_object_get(one, "parse_special"));
        ids got = tokenize_ok(v, json_string_value(text), json_string_length(text),
                              parse ? TOKENIZE_PARSE_SPECIAL : 0);
        ck_assert_msg(got.n == json_array_size(wanted), "%s, case %zu: %zu ids for %zu",
                      files[_i].vectors, index, got.n, json_array_size(wanted));
        for (size_t i = 0; i < got.n; i++) {
            if (got.ids[i] != json_integer_value(json_array_get(wanted, i)))
                ck_abort_msg("%s, case %zu: id %zu is %d", files[_i].vectors, index, i, got.ids[i]);
        }
        free(got.ids);
    }
    json_decref(root);
    vocab_free(&v);
}
END_TEST

START_TEST(bos_comes_first_where_asked)
{
    vocab *demo = load_file(DEMO_TARGET);
    vocab *without = load_file(TEST_DATA "/vocab/vocab-gpt-2.gguf"); /* add_bos_token is false */
    vocab *spm = load_file(STORIES);
    ASSERT_IDS(demo, "!", TOKENIZE_ADD_BOS, 4093, 0);
    ASSERT_IDS(demo, "", TOKENIZE_ADD_BOS, 4093);
    ASSERT_IDS(demo, "!", 0, 0);
    ASSERT_IDS(without, "!", TOKENIZE_ADD_BOS, 0);
    ASSERT_IDS(spm, "", TOKENIZE_ADD_BOS, 1);
    ids empty = tokenize_ok(demo, NULL, 0, 0);
    ck_assert_uint_eq(empty.n, 0);
    free(empty.ids);
    vocab_free(&spm);
    vocab_free(&without);
    vocab_free(&demo);
}
END_TEST

START_TEST(broken_text_is_an_error_with_its_offset)
{
    static const struct {
        const char *text;
        size_t n, offset;
    } broken[] = {
        {"\xff", 1, 0},
        {"abc\x80", 4, 3},             /* a continuation byte alone */
        {"\xc3\xa9\xc3", 3, 2},        /* cut short */
        {"a\xe4\xbd", 3, 1},           /* cut short */
        {"a\xc0\xaf", 3, 1},           /* overlong */
        {"a\0\xe0\x80\xaf", 5, 2},     /* overlong, after a NUL */
        {"\xf0\x80\x80\x80", 4, 0},    /* overlong */
        {"xy\xed\xa0\x80", 5, 2},      /* surrogate */
        {"xyz\xf4\x90\x80\x80", 7, 3}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 4, 0},
    };
    vocab *models[] = {load_file(DEMO_TARGET), load_file(STORIES)};
    for (size_t m = 0; m < N_ELEMENTS(models); m++) {
        for (size_t i = 0; i < N_ELEMENTS(broken); i++) {
            int32_t *got;
            size_t n;
            char offset[32];
            gguf_error error = {.text = ""};
            ck_assert(!tokenize(models[m], broken[i].text, broken[i].n, 0, &got, &n, &error));
            ck_assert_ptr_null(got);
            ck_assert_uint_eq(n, 0);
            snprintf(offset, sizeof(offset), "offset %zu ", broken[i].offset);
            ck_assert_msg(strstr(error.text, offset), "\"%s\" lacks \"%s\"", error.text, offset);
        }
        vocab_free(&models[m]);
    }
}
END_TEST

/* The text of ids, pushed one by one; after every push the text is whole characters only. */
static char *detokenize(const vocab *v, const int32_t *tokens, size_t n_tokens, bool skip_special,
                        size_t *n)
{
    char *text = NULL;
    size_t capacity = 0;
    detokenizer d;
    *n = 0;
    detokenizer_init(&d, v, true, skip_special);
    for (size_t i = 0; i < n_tokens; i++) {
        size_t before = *n;
        /* Not ck_assert, which reports every pass too: there are millions. */
        if (!detokenizer_push(&d, (uint32_t)tokens[i], &text, n, &capacity) || *n >= capacity ||
            text[*n] != '\0' || utf8_find_invalid(text + before, *n - before) < *n - before)
            ck_abort_msg("token %zu (%d) gives broken text", i, tokens[i]);
    }
    ck_assert(detokenizer_finish(&d, &text, n, &capacity));
    ck_assert_uint_eq(utf8_find_invalid(text, *n), *n);
    return text;
}

START_TEST(random_text_comes_back)
{
    enum { N_TEXTS = 400, MOST = 600 };
    vocab *v = load_file(files[_i].model);
    bool is_spm = vocab_model_kind(v) == VOCAB_SPM;
    uint64_t seed = 2024;
    for (int t = 0; t < N_TEXTS; t++) {
        char text[MOST];
        size_t n = random_text(&seed, text, MOST), n_back;
        /* Control tokens give their own text, so parsing them changes ids but no text. SPM instead
         * asks for a blank after each of them. */
        unsigned flags = !is_spm && t % 2 ? TOKENIZE_PARSE_SPECIAL : 0;
        ids got = tokenize_ok(v, text, n, flags);
        char *back = detokenize(v, got.ids, got.n, false, &n_back);
        for (size_t at = 0; is_spm && at + 3 <= n; at++) {
            if (memcmp(text + at, "\u2581", 3) == 0) { /* U+2581 is SPM's blank, for good */
                text[at] = ' ';
                memmove(text + at + 1, text + at + 3, n - at - 3);
                n -= 2;
            }
        }
        if (n_back != n || memcmp(back, text, n) != 0)
            ck_abort_msg("text %d of %s differs", t, files[_i].model);
        free(back);
        free(got.ids);
    }
    vocab_free(&v);
}
END_TEST

/* Byte-level vocabulary of all single bytes (id = byte) and some more tokens and merges. */
static vocab *load_bytes(const char *pre, const gguf_string *more, const int32_t *more_types,
                         size_t n_more, const gguf_string *merges, size_t n_merges)
{
    gguf_string tokens[300];
    char letters[256][2];
    int32_t types[300];
    vocab_builder builder = {0};
    vocab *v;
    gguf_error error;
    uint32_t n_shifted = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        /* GPT-2's rule in its own words: printable bytes stay, others follow from U+0100 on. */
        bool stays = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) ||
                     (byte >= 0xae && byte <= 0xff);
        size_t length = encode_utf8(stays ? byte : 0x100 + n_shifted++, letters[byte]);
        tokens[byte] = (gguf_string){letters[byte], length};
        types[byte] = TOKEN_NORMAL;
    }
    for (size_t i = 0; i < n_more; i++) {
        tokens[256 + i] = more[i];
        types[256 + i] = more_types ? more_types[i] : TOKEN_NORMAL;
    }
    builder_string(&builder, "tokenizer.ggml.model", "gpt2", 4);
    builder_string(&builder, "tokenizer.ggml.pre", pre, strlen(pre));
    builder_strings(&builder, "tokenizer.ggml.tokens", tokens, 256 + n_more);
    builder_i32s(&builder, "tokenizer.ggml.token_type", types, 256 + n_more);
    builder_strings(&builder, "tokenizer.ggml.merges", merges, n_merges);
    ck_assert_msg(builder_load(&builder, &v, &error), "%s", error.text);
    builder_free(&builder);
    return v;
}
#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

START_TEST(merges_follow_rank_and_fall_apart)
{
    static const gguf_string more[] = {TEXT("ab"),  TEXT("bc"), TEXT("\u0120\u0120"),
                                       TEXT("abc"), TEXT(""),   TEXT("bc")};
    static const gguf_string merges[] = {
        TEXT("b c"), TEXT("a b"), TEXT("\u0120 \u0120"), TEXT("x y"), TEXT("xy z"),
        TEXT("a b"), TEXT("q "),  TEXT("\xff \xfe"),
    };
    vocab *v = load_bytes("gpt-2", more, NULL, N_ELEMENTS(more), merges, N_ELEMENTS(merges));
    ASSERT_IDS(v, "ab", 0, 256);
    ASSERT_IDS(v, "abc", 0, 'a', 261); /* rank before place; of equal tokens the last */
    ASSERT_IDS(v, "abab", 0, 256, 256);
    ASSERT_IDS(v, "bcbc", 0, 261, 261);
    ASSERT_IDS(v, "xyzab", 0, 'x', 'y', 'z', 256); /* "xyz" merges, but is no token */
    ASSERT_IDS(v, "  ", 0, 258);
    ASSERT_IDS(v, "   ", 0, 258, ' ');
    ASSERT_IDS(v, "\n\xc3\xa9", 0, '\n', 0xc3, 0xa9);
    vocab_free(&v);
    /* Of equal merges the first counts. */
    static const gguf_string twice[] = {TEXT("a b"), TEXT("b c"), TEXT("a b")};
    v = load_bytes("gpt-2", more, NULL, N_ELEMENTS(more), twice, N_ELEMENTS(twice));
    ASSERT_IDS(v, "abc", 0, 256, 'c');
    vocab_free(&v);
    /* A piece that is a token as a whole needs no merges, where the pattern says so. */
    v = load_bytes("llama-bpe", more, NULL, N_ELEMENTS(more), merges, N_ELEMENTS(merges));
    ASSERT_IDS(v, "abc", 0, 259);
    ASSERT_IDS(v, "abcab", 0, 'a', 261, 256);
    vocab_free(&v);
}
END_TEST

START_TEST(special_tokens_are_found_longest_first)
{
    static const gguf_string more[] = {TEXT("<a>"),  TEXT("<a><b>"), TEXT("><"),  TEXT("b>c>d"),
                                       TEXT("user"), TEXT("<a>"),    TEXT("unk?")};
    static const int32_t types[] = {TOKEN_CONTROL,      TOKEN_CONTROL, TOKEN_CONTROL, TOKEN_CONTROL,
                                    TOKEN_USER_DEFINED, TOKEN_CONTROL, TOKEN_UNKNOWN};
    vocab *v = load_bytes("gpt-2", more, types, N_ELEMENTS(more), NULL, 0);
    const unsigned parse = TOKENIZE_PARSE_SPECIAL;
    ASSERT_IDS(v, "<a>", parse, 261);                       /* of equal tokens the last */
    ASSERT_IDS(v, "<a><b>", parse, 257);                    /* the longer one */
    ASSERT_IDS(v, "<a><b>c>d", parse, 257, 'c', '>', 'd');  /* longest first, not leftmost */
    ASSERT_IDS(v, "<a><bb>c>d", parse, 261, '<', 'b', 259); /* "<a>" before "><" by length */
    ASSERT_IDS(v, "x><a>", parse, 'x', '>', 261);
    ASSERT_IDS(v, "x><y", parse, 'x', 258, 'y');
    ASSERT_IDS(v, "<a>", 0, '<', 'a', '>');
    ASSERT_IDS(v, "unk?", parse, 262);
    ASSERT_IDS(v, "unk?", 0, 'u', 'n', 'k', '?');
    ASSERT_IDS(v, "xuserx", 0, 'x', 260, 'x'); /* user-defined ones always */
    vocab_free(&v);
}
END_TEST

static void assert_text(const vocab *v, const int32_t *tokens, size_t n_tokens, bool skip_special,
                        const char *wanted)
{
    size_t n;
    char *text = detokenize(v, tokens, n_tokens, skip_special, &n);
    ck_assert_str_eq(text, wanted);
    ck_assert_uint_eq(n, strlen(wanted));
    free(text);
}
#define ASSERT_TEXT(v, skip_special, wanted, ...)                                                  \
    assert_text(v, (const int32_t[]){__VA_ARGS__},                                                 \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), skip_special, wanted)

START_TEST(broken_bytes_become_replacement_characters)
{
    static const gguf_string more[] = {TEXT("<s>"), TEXT("\xff\u2581")};
    static const int32_t types[] = {TOKEN_CONTROL, TOKEN_NORMAL};
    vocab *v = load_bytes("gpt-2", more, types, N_ELEMENTS(more), NULL, 0);
    ASSERT_TEXT(v, false, "\u00e9", 0xc3, 0xa9);
    ASSERT_TEXT(v, false, "\U0001f600", 0xf0, 0x9f, 0x98, 0x80);
    ASSERT_TEXT(v, false, "\ufffd", 0xf0, 0x9f, 0x98); /* held to the end */
    ASSERT_TEXT(v, false, "\ufffdA", 0xf0, 0x9f, 'A'); /* one for a cut character */
    ASSERT_TEXT(v, false, "\ufffd\u00e9", 0xe4, 0xc3, 0xa9);
    ASSERT_TEXT(v, false, "\ufffd\ufffd", 0xc0, 0xaf); /* overlong */
    ASSERT_TEXT(v, false, "\ufffd\ufffd\ufffd", 0xed, 0xa0, 0x80);
    ASSERT_TEXT(v, false, "\ufffd\ufffd\ufffd\ufffd", 0xf4, 0x90, 0x80, 0x80);
    ASSERT_TEXT(v, false, "\ufffda", 0x80, 'a');
    ASSERT_TEXT(v, false, "\ufffd<s>", 0xc3, 256);
    ASSERT_TEXT(v, true, "\u00e9", 256, 0xc3, 256, 0xa9); /* what gives no text breaks nothing */
    ASSERT_TEXT(v, false, "\ufffd\u2581", 257);           /* no letters: as they stand */
    ASSERT_TEXT(v, false, "a", 'a', 100000);              /* no such token: no text */
    vocab_free(&v);
}
END_TEST

START_TEST(spm_bytes_blanks_and_unknown)
{
    static const gguf_string tokens[] = {
        TEXT("<unk>"), TEXT("<s>"),     TEXT("<0xC3>"), TEXT("<0xA9>"), TEXT("\u2581"),
        TEXT("a"),     TEXT("\u2581a"), TEXT("aa"),     TEXT("user"),
    };
    static const int32_t types[] = {2, 3, 6, 6, 1, 1, 1, 1, 4};
    static const float scores[] = {0, 0, 0, 0, -1, -2, -5, -3, 0};
    for (int with_prefix = 0; with_prefix < 2; with_prefix++) {
        vocab_builder builder = {0};
        vocab *v;
        gguf_error error;
        builder_string(&builder, "tokenizer.ggml.model", "llama", 5);
        builder_strings(&builder, "tokenizer.ggml.tokens", tokens, N_ELEMENTS(tokens));
        builder_i32s(&builder, "tokenizer.ggml.token_type", types, N_ELEMENTS(tokens));
        builder_f32s(&builder, "tokenizer.ggml.scores", scores, N_ELEMENTS(tokens));
        builder_u32(&builder, "tokenizer.ggml.bos_token_id", 1);
        if (!with_prefix) /* it is the default */
            builder_bool(&builder, "tokenizer.ggml.add_space_prefix", false);
        ck_assert_msg(builder_load(&builder, &v, &error), "%s", error.text);
        if (with_prefix) {
            ASSERT_IDS(v, "a", 0, 6);
            ASSERT_IDS(v, "aa", 0, 4, 7); /* the higher score first */
            ASSERT_IDS(v, "<s>a", TOKENIZE_PARSE_SPECIAL, 1, 6);
            ASSERT_IDS(v, "ausera", 0, 6, 8, 6);
            ASSERT_TEXT(v, true, "a a", 1, 6, 6); /* only the first blank is the tokeniser's own */
            ASSERT_TEXT(v, true, "", 4);
        } else {
            ASSERT_IDS(v, "a", 0, 5);
            ASSERT_IDS(v, "aaa", 0, 7, 5);                 /* of equal scores the leftmost */
            ASSERT_IDS(v, "\u00e9\u00e8a", 0, 2, 3, 0, 5); /* bytes, or else unknown */
            ASSERT_TEXT(v, false, " a\u00e9<unk>", 6, 2, 3, 0);
            ASSERT_TEXT(v, true, " a", 6, 0);
        }
        vocab_free(&v);
        builder_free(&builder);
    }
}
END_TEST

START_TEST(missing_bytes_are_an_error)
{
    static const gguf_string tokens[] = {TEXT("a")};
    static const float scores[] = {0};
    static const struct {
        const char *model, *says;
    } models[] = {{"gpt2", "byte 0x62"}, {"llama", "\"b\""}};
    for (size_t i = 0; i < N_ELEMENTS(models); i++) {
        vocab_builder builder = {0};
        vocab *v;
        gguf_error error;
        int32_t *got;
        size_t n;
        builder_string(&builder, "tokenizer.ggml.model", models[i].model, strlen(models[i].model));
        builder_strings(&builder, "tokenizer.ggml.tokens", tokens, 1);
        builder_f32s(&builder, "tokenizer.ggml.scores", scores, 1);
        builder_strings(&builder, "tokenizer.ggml.merges", NULL, 0);
        builder_bool(&builder, "tokenizer.ggml.add_space_prefix", false);
        ck_assert_msg(builder_load(&builder, &v, &error), "%s", error.text);
        ASSERT_IDS(v, "aa", 0, 0, 0);
        ck_assert(!tokenize(v, "ab", 2, 0, &got, &n, &error));
        ck_assert_msg(strstr(error.text, models[i].says), "%s", error.text);
        ck_assert_ptr_null(got);
        vocab_free(&v);
        builder_free(&builder);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tests = tcase_create("tokenizer");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, vectors_agree, 0, (int)N_ELEMENTS(files));
    tcase_add_test(tests, bos_comes_first_where_asked);
    tcase_add_test(tests, broken_text_is_an_error_with_its_offset);
    tcase_add_loop_test(tests, random_text_comes_back, 0, (int)N_ELEMENTS(files));
    tcase_add_test(tests, merges_follow_rank_and_fall_apart);
    tcase_add_test(tests, special_tokens_are_found_longest_first);
    tcase_add_test(tests, broken_bytes_become_replacement_characters);
    tcase_add_test(tests, spm_bytes_blanks_and_unknown);
    tcase_add_test(tests, missing_bytes_are_an_error);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

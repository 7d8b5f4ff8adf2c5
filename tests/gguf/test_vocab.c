/* Loading vocabularies: what the demo and test models hold, defaults, refusals, hostile files,
 * and the comparison of two vocabularies. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "vocab.h"
#include "special.h"
#include "vocab_builder.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static vocab *load_file(const char *path)
{
    vocab *v;
    gguf_error error;
    ck_assert_msg(load_vocab_file(path, &v, &error), "%s: %s", path, error.text);
    return v;
}

static bool token_is(const vocab *v, uint32_t id, const char *text)
{
    gguf_string token = vocab_token(v, id);
    return token.length == strlen(text) && memcmp(token.data, text, token.length) == 0;
}

START_TEST(demo_vocabulary)
{
    vocab *v = load_file(DEMO_TARGET);
    ck_assert_int_eq(vocab_model_kind(v), VOCAB_BPE);
    ck_assert_str_eq(vocab_pre_name(v), "gpt-2");
    ck_assert_uint_eq(vocab_size(v), 4096);
    ck_assert(token_is(v, 0, "!"));
    ck_assert(token_is(v, 4095, "<|im_end|>"));
    ck_assert_int_eq(vocab_token_type(v, 0), TOKEN_NORMAL);
    ck_assert_int_eq(vocab_token_type(v, 4094), TOKEN_CONTROL);
    ck_assert_int_eq(vocab_bos(v), 4093);
    ck_assert_int_eq(vocab_eos(v), 4093);
    ck_assert_int_eq(vocab_eot(v), 4095); /* by its name */
    ck_assert_int_eq(vocab_unknown(v), -1);
    ck_assert_int_eq(vocab_pad(v), -1);
    ck_assert(vocab_adds_bos(v));
    ck_assert(!vocab_adds_eos(v));
    ck_assert(vocab_is_stop(v, 4093));
    ck_assert(!vocab_is_stop(v, 4094)); /* <|im_start|> */
    ck_assert(vocab_is_stop(v, 4095));
    ck_assert(!vocab_is_stop(v, 0));
    /* Ids outside are answered, not followed. */
    ck_assert_uint_eq(vocab_token(v, 4096).length, 0);
    ck_assert(!vocab_is_stop(v, UINT32_MAX));
    ck_assert_int_eq(vocab_token_type(v, UINT32_MAX), TOKEN_UNKNOWN);
    vocab_free(&v);
    ck_assert_ptr_null(v);
    vocab_free(&v);
    vocab_free(NULL);
}
END_TEST

START_TEST(spm_vocabulary)
{
    vocab *v = load_file(TEST_DATA "/models/stories260K-f32.gguf");
    ck_assert_int_eq(vocab_model_kind(v), VOCAB_SPM);
    ck_assert_str_eq(vocab_pre_name(v), "");
    ck_assert_uint_eq(vocab_size(v), 512);
    ck_assert_int_eq(vocab_bos(v), 1);
    ck_assert_int_eq(vocab_eos(v), 2);
    ck_assert_int_eq(vocab_eot(v), -1);
    ck_assert_int_eq(vocab_unknown(v), 0);
    ck_assert(vocab_adds_bos(v)); /* SPM's default */
    ck_assert(vocab_is_stop(v, 2));
    ck_assert(!vocab_is_stop(v, 1));
    vocab_free(&v);
}
END_TEST

/* A small vocabulary, with a change to it. */
enum change {
    NO_CHANGE,
    NO_MODEL,
    OTHER_MODEL,
    MODEL_IS_NUMBER,
    NO_PRE,
    OTHER_PRE,
    PRE_IS_NUMBER,
    NO_TOKENS,
    EMPTY_TOKENS,
    TOKENS_ARE_NUMBERS,
    SHORT_TYPES,
    BAD_TYPE,
    TYPES_ARE_STRINGS,
    NO_MERGES,
    MERGES_ARE_NUMBERS,
    MERGE_WITHOUT_BLANK,
    MERGE_OF_ONE_BLANK,
    BOS_OUTSIDE,
    BOS_IS_STRING,
    BOS_IS_NONE,
    ADD_BOS_IS_STRING,
    SPM_WITHOUT_SCORES,
    SPM_SHORT_SCORES,
    SPM_SCORE_NAN,
    SPM_SCORES_ARE_STRINGS,
};

static const gguf_string small_tokens[] = {
    {"a", 1}, {"b", 1}, {"ab", 2}, {"<s>", 3}, {"<|eot_id|>", 10}, {"<pad>", 5},
};
#define N_SMALL N_ELEMENTS(small_tokens)

static bool load_changed(enum change change, vocab **out, gguf_error *error)
{
    static const int32_t types[N_SMALL] = {1, 1, 1, 3, 3, 3};
    static const int32_t bad_types[N_SMALL] = {1, 1, 7, 3, 3, 3};
    static const gguf_string merges[] = {{"a b", 3}};
    static const gguf_string no_blank[] = {{"a b", 3}, {"a\nb", 3}};
    static const gguf_string one_blank[] = {{" ", 1}};
    float scores[N_SMALL] = {0};
    vocab_builder builder = {0};
    bool is_spm = change >= SPM_WITHOUT_SCORES;

    const char *model = change == OTHER_MODEL ? "bert\n" : is_spm ? "llama" : "gpt2";
    if (change == MODEL_IS_NUMBER)
        builder_u32(&builder, "tokenizer.ggml.model", 1);
    else if (change != NO_MODEL)
        builder_string(&builder, "tokenizer.ggml.model", model, strlen(model));

    const char *pre = change == OTHER_PRE ? "gpt-3" : "gpt-2";
    if (change == PRE_IS_NUMBER)
        builder_u32(&builder, "tokenizer.ggml.pre", 1);
    else if (change != NO_PRE)
        builder_string(&builder, "tokenizer.ggml.pre", pre, strlen(pre));

    if (change == TOKENS_ARE_NUMBERS)
        builder_i32s(&builder, "tokenizer.ggml.tokens", types, N_SMALL);
    else if (change != NO_TOKENS)
        builder_strings(&builder, "tokenizer.ggml.tokens", small_tokens,
                        change == EMPTY_TOKENS ? 0 : N_SMALL);

    if (change == TYPES_ARE_STRINGS)
        builder_strings(&builder, "tokenizer.ggml.token_type", small_tokens, N_SMALL);
    else
        builder_i32s(&builder, "tokenizer.ggml.token_type", change == BAD_TYPE ? bad_types : types,
                     change == SHORT_TYPES ? N_SMALL - 1 : N_SMALL);

    if (change == MERGES_ARE_NUMBERS)
        builder_i32s(&builder, "tokenizer.ggml.merges", types, 1);
    else if (change == MERGE_WITHOUT_BLANK)
        builder_strings(&builder, "tokenizer.ggml.merges", no_blank, 2);
    else if (change == MERGE_OF_ONE_BLANK)
        builder_strings(&builder, "tokenizer.ggml.merges", one_blank, 1);
    else if (change != NO_MERGES && !is_spm)
        builder_strings(&builder, "tokenizer.ggml.merges", merges, 1);

    if (change == BOS_IS_STRING)
        builder_string(&builder, "tokenizer.ggml.bos_token_id", "3", 1);
    else
        builder_u32(&builder, "tokenizer.ggml.bos_token_id",
                    change == BOS_OUTSIDE   ? N_SMALL
                    : change == BOS_IS_NONE ? UINT32_MAX
                                            : 3);
    if (change == ADD_BOS_IS_STRING)
        builder_string(&builder, "tokenizer.ggml.add_bos_token", "yes", 3);
    builder_u32(&builder, "tokenizer.ggml.padding_token_id", 5);

    scores[2] = change == SPM_SCORE_NAN ? NAN : 1.0f;
    if (change == SPM_SCORES_ARE_STRINGS)
        builder_strings(&builder, "tokenizer.ggml.scores", small_tokens, N_SMALL);
    else if (is_spm && change != SPM_WITHOUT_SCORES)
        builder_f32s(&builder, "tokenizer.ggml.scores", scores,
                     change == SPM_SHORT_SCORES ? N_SMALL - 1 : N_SMALL);

    bool ok = builder_load(&builder, out, error);
    builder_free(&builder);
    return ok;
}

START_TEST(small_vocabulary)
{
    vocab *v;
    gguf_error error;
    ck_assert_msg(load_changed(NO_CHANGE, &v, &error), "%s", error.text);
    ck_assert_int_eq(vocab_bos(v), 3);
    ck_assert_int_eq(vocab_eos(v), -1);
    ck_assert_int_eq(vocab_eot(v), 4);
    ck_assert_int_eq(vocab_pad(v), 5);
    ck_assert(vocab_is_stop(v, 4));
    ck_assert(!vocab_adds_bos(v));
    vocab_free(&v);
}
END_TEST

START_TEST(missing_pattern_means_default)
{
    vocab *v;
    gguf_error error;
    ck_assert_msg(load_changed(NO_PRE, &v, &error), "%s", error.text);
    ck_assert_str_eq(vocab_pre_name(v), "default");
    vocab_free(&v);
}
END_TEST

START_TEST(all_ones_means_no_id)
{
    vocab *v;
    gguf_error error;
    ck_assert_msg(load_changed(BOS_IS_NONE, &v, &error), "%s", error.text);
    ck_assert_int_eq(vocab_bos(v), -1);
    vocab_free(&v);
}
END_TEST

static const struct bad_file {
    enum change change;
    bool is_unsupported;
    const char *says[2];
} bad_files[] = {
    {NO_MODEL, false, {"tokenizer.ggml.model", "missing"}},
    {OTHER_MODEL, true, {"tokenizer.ggml.model", "\"bert\\x0a\" is not supported"}},
    {MODEL_IS_NUMBER, false, {"tokenizer.ggml.model", ""}},
    {OTHER_PRE, true, {"tokenizer.ggml.pre", "\"gpt-3\" is not supported"}},
    {PRE_IS_NUMBER, false, {"tokenizer.ggml.pre", ""}},
    {NO_TOKENS, false, {"tokenizer.ggml.tokens", "missing"}},
    {EMPTY_TOKENS, false, {"tokenizer.ggml.tokens", "0 elements"}},
    {TOKENS_ARE_NUMBERS, false, {"tokenizer.ggml.tokens", "strings"}},
    {SHORT_TYPES, false, {"tokenizer.ggml.token_type", "5 elements for 6 tokens"}},
    {BAD_TYPE, false, {"tokenizer.ggml.token_type", "token 2 has the unknown type 7"}},
    {TYPES_ARE_STRINGS, false, {"tokenizer.ggml.token_type", "integers"}},
    {NO_MERGES, false, {"tokenizer.ggml.merges", "missing"}},
    {MERGES_ARE_NUMBERS, false, {"tokenizer.ggml.merges", "strings"}},
    {MERGE_WITHOUT_BLANK, false, {"tokenizer.ggml.merges", "merge 1 (\"a\\x0ab\")"}},
    {MERGE_OF_ONE_BLANK, false, {"tokenizer.ggml.merges", "merge 0"}},
    {BOS_OUTSIDE, false, {"tokenizer.ggml.bos_token_id", "is 6"}},
    {BOS_IS_STRING, false, {"tokenizer.ggml.bos_token_id", "integer"}},
    {ADD_BOS_IS_STRING, false, {"tokenizer.ggml.add_bos_token", ""}},
    {SPM_WITHOUT_SCORES, false, {"tokenizer.ggml.scores", "missing"}},
    {SPM_SHORT_SCORES, false, {"tokenizer.ggml.scores", "5 elements for 6 tokens"}},
    {SPM_SCORE_NAN, false, {"tokenizer.ggml.scores", "token 2 is not a number"}},
    {SPM_SCORES_ARE_STRINGS, false, {"tokenizer.ggml.scores", "numbers"}},
};

START_TEST(bad_file_is_named)
{
    const struct bad_file *bad = &bad_files[_i];
    vocab *v;
    gguf_error error = {.text = ""};
    ck_assert(!load_changed(bad->change, &v, &error));
    ck_assert_ptr_null(v);
    ck_assert_int_eq(error.is_unsupported, bad->is_unsupported);
    ck_assert_ptr_null(strchr(error.text, '\n'));
    for (size_t i = 0; i < N_ELEMENTS(bad->says); i++)
        ck_assert_msg(strstr(error.text, bad->says[i]), "\"%s\" lacks \"%s\"", error.text,
                      bad->says[i]);
}
END_TEST

static vocab *load_tokens(const gguf_string *tokens, size_t n, uint32_t bos, uint32_t eos)
{
    vocab *v;
    gguf_error error;
    vocab_builder builder = {0};
    builder_string(&builder, "tokenizer.ggml.model", "gpt2", 4);
    builder_string(&builder, "tokenizer.ggml.pre", "gpt-2", 5);
    builder_strings(&builder, "tokenizer.ggml.tokens", tokens, n);
    builder_strings(&builder, "tokenizer.ggml.merges", NULL, 0);
    builder_u32(&builder, "tokenizer.ggml.bos_token_id", bos);
    builder_u32(&builder, "tokenizer.ggml.eos_token_id", eos);
    ck_assert_msg(builder_load(&builder, &v, &error), "%s", error.text);
    builder_free(&builder);
    return v;
}

/* A search for special tokens costs text times token: the length is bounded. */
START_TEST(special_tokens_are_bounded)
{
    static char longest[SPECIAL_MAX_BYTES + 1];
    const int32_t types[] = {1, 3};
    memset(longest, 'a', sizeof(longest));
    for (size_t i = 0; i < 2; i++) {
        const gguf_string tokens[] = {{"a", 1}, {longest, SPECIAL_MAX_BYTES + i}};
        const float scores[2] = {0};
        vocab *v;
        gguf_error error = {.text = ""};
        vocab_builder builder = {0};
        builder_string(&builder, "tokenizer.ggml.model", "llama", 5);
        builder_strings(&builder, "tokenizer.ggml.tokens", tokens, 2);
        builder_i32s(&builder, "tokenizer.ggml.token_type", types, 2);
        builder_f32s(&builder, "tokenizer.ggml.scores", scores, 2);
        ck_assert_int_eq(builder_load(&builder, &v, &error), i == 0);
        if (i == 1)
            ck_assert_ptr_nonnull(strstr(error.text, "token 1 has 513 bytes; at most 512"));
        vocab_free(&v);
        builder_free(&builder);
    }
}
END_TEST

START_TEST(stop_tokens_by_name)
{
    static const gguf_string tokens[] = {
        {"a", 1},           {"<|im_end|>", 10},   {"<|eot_id|>", 10},
        {"<|end|>", 7},     {"<|eom_id|>", 10},   {"<|end_of_text|>", 15},
        {"<|return|>", 10}, {"<|im_start|>", 12}, {"<end_of_turn>", 13},
    };
    /* The name alone does not do: <|end|> is a normal token here, <end_of_turn> user-defined. */
    static const int32_t types[N_ELEMENTS(tokens)] = {1, 3, 3, 1, 3, 3, 3, 3, 4};
    static const bool stops[N_ELEMENTS(tokens)] = {false, true, true,  false, true,
                                                   true,  true, false, true};
    vocab_builder builder = {0};
    vocab *v;
    gguf_error error;
    builder_string(&builder, "tokenizer.ggml.model", "gpt2", 4);
    builder_strings(&builder, "tokenizer.ggml.tokens", tokens, N_ELEMENTS(tokens));
    builder_i32s(&builder, "tokenizer.ggml.token_type", types, N_ELEMENTS(types));
    builder_strings(&builder, "tokenizer.ggml.merges", NULL, 0);
    ck_assert_msg(builder_load(&builder, &v, &error), "%s", error.text);
    for (uint32_t id = 0; id < N_ELEMENTS(tokens); id++)
        ck_assert_msg(vocab_is_stop(v, id) == stops[id], "%s", tokens[id].data);
    ck_assert_int_eq(vocab_eot(v), 2); /* the first of the names, not of the ids */
    ck_assert_int_eq(vocab_eos(v), -1);
    vocab_free(&v);
    builder_free(&builder);
}
END_TEST

START_TEST(compatible_vocabularies)
{
    static const gguf_string tokens[] = {{"a", 1}, {"b\n", 2}, {"c", 1}, {"d", 1}};
    static const gguf_string other[] = {{"a", 1}, {"\xff\"", 2}, {"c", 1}, {"x", 1}};
    static const struct {
        const gguf_string *tokens;
        size_t n;
        uint32_t bos, eos;
        const char *says; /* NULL: compatible */
    } drafts[] = {
        {tokens, 4, 2, 3, NULL},
        {other, 4, 2, 3, "token 1 is \"b\\x0a\" in the target and \"\\xff\\x22\" in the draft"},
        {tokens, 3, 2, 2, "token 3, \"d\", is only in the target"},
        {tokens, 4, 1, 3, "BOS is token 2 in the target and 1 in the draft"},
        {tokens, 4, 2, UINT32_MAX, "EOS is token 3 in the target and -1 in the draft"},
    };
    vocab *target = load_tokens(tokens, 4, 2, 3);
    for (size_t i = 0; i < N_ELEMENTS(drafts); i++) {
        gguf_error error = {.text = ""};
        vocab *draft = load_tokens(drafts[i].tokens, drafts[i].n, drafts[i].bos, drafts[i].eos);
        ck_assert_int_eq(vocab_compatible(target, draft, &error), drafts[i].says == NULL);
        if (drafts[i].says)
            ck_assert_msg(strstr(error.text, drafts[i].says), "%s", error.text);
        if (drafts[i].n == 3) {
            ck_assert(!vocab_compatible(draft, target, &error));
            ck_assert_msg(strstr(error.text, "token 3, \"d\", is only in the draft"), "%s",
                          error.text);
        }
        vocab_free(&draft);
    }
    vocab_free(&target);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vocab");
    TCase *tests = tcase_create("vocab");
    tcase_add_test(tests, demo_vocabulary);
    tcase_add_test(tests, spm_vocabulary);
    tcase_add_test(tests, small_vocabulary);
    tcase_add_test(tests, missing_pattern_means_default);
    tcase_add_test(tests, all_ones_means_no_id);
    tcase_add_loop_test(tests, bad_file_is_named, 0, (int)N_ELEMENTS(bad_files));
    tcase_add_test(tests, special_tokens_are_bounded);
    tcase_add_test(tests, stop_tokens_by_name);
    tcase_add_test(tests, compatible_vocabularies);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

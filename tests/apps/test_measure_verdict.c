/* The verdict of `outrider measure` where the truth is known: a draft that never agrees and one as large as the
 * target don't pay, n-gram lookup in text that repeats itself does.
 *
 * TEST_TARGET and TEST_DRAFT name the models, TEST_RANDOM a draft of random weights, TEST_PROMPTS a file of
 * prompts, some of which repeat themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure_folder.h"

#define REPETITIVE_PROMPTS 16

static void copy_prompts(void)
{
    const char *path = getenv("TEST_PROMPTS");
    char *content;

    ck_assert_msg(path != NULL, "TEST_PROMPTS names no file");
    content = read_file(path);
    write_file(data, content);
    free(content);
}

/* Lists that go on as they began. */
static void write_repetitive_prompts(void)
{
    FILE *f = fopen(data, "w");

    ck_assert_ptr_nonnull(f);
    for (int i = 1; i <= REPETITIVE_PROMPTS; i++) {
        fprintf(f, "{\"prompt\": \"");
        for (int k = i; k < i + 8; k++)
            fprintf(f, "item %d: name=entry_%d, value=%d, state=ready\\n", k, k, 7 * k);
        fprintf(f, "\"}\n");
    }
    ck_assert_int_eq(fclose(f), 0);
}

/* Auto may not have n-gram lookup here, whose gain on some of these prompts is large: what it drafts is accepted
 * as rarely, or as surely, as the draft's tokens. */
static void expect_dont(const char *used, double least_alpha, double most_alpha)
{
    struct program_result r;
    const json_t *overall, *settings, *counters;
    double alpha;
    json_t *root;

    ck_assert_msg(used != NULL, "TEST_RANDOM names no model");
    begin();
    copy_prompts();
    r = RUN("measure", "-m", target, "-md", used, "--data", data, "--draft-max", "2,4", "-n", "24",
            "--temp", "0", "--ignore-eos", "--json", json);
    ck_assert_msg(r.code == 0, "%s", r.err);
    root = load(json);
    overall = json_object_get(root, "overall");
    alpha = number(json_object_get(overall, "alpha"), "estimate");
    ck_assert_double_ge(alpha, least_alpha);
    ck_assert_double_le(alpha, most_alpha);
    settings = json_object_get(overall, "settings");
    counters = json_object_get(json_array_get(settings, json_array_size(settings) - 1), "counters");
    ck_assert_double_ge(number(counters, "accepted"), least_alpha * number(counters, "verified"));
    ck_assert_double_le(number(counters, "accepted"), most_alpha * number(counters, "verified"));
    ck_assert_msg(strcmp(json_string_value(json_object_get(overall, "verdict")), "dont") == 0, "%s",
                  r.out);
    ck_assert_double_eq(number(overall, "k"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(overall, "run_options")), "--draft-max 0");
    ck_assert_double_lt(number(json_object_get(overall, "speedup"), "high"), 1);
    json_decref(root);
    program_free(&r);
    end();
}

START_TEST(test_random_draft)
{
    expect_dont(getenv("TEST_RANDOM"), 0, 0.1);
}
END_TEST

START_TEST(test_draft_is_target)
{
    expect_dont(target, 1, 1);
}
END_TEST

START_TEST(test_repetitive_text)
{
    struct program_result r;
    const json_t *overall;
    json_t *root;

    begin();
    write_repetitive_prompts();
    r = RUN("measure", "-m", target, "-md", draft, "--data", data, "--draft-max", "2", "--ngram",
            "4,8", "-n", "48", "--temp", "0", "--ignore-eos", "--json", json);
    ck_assert_msg(r.code == 0, "%s", r.err);
    root = load(json);
    overall = json_object_get(root, "overall");
    ck_assert_msg(strcmp(json_string_value(json_object_get(overall, "verdict")), "use") == 0, "%s",
                  r.out);
    ck_assert_double_gt(number(json_object_get(overall, "speedup"), "low"), 1);
    ck_assert_str_ne(json_string_value(json_object_get(overall, "setting")), "K=2");
    json_decref(root);
    program_free(&r);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_random_draft, test_draft_is_target, test_repetitive_text,
                                  NULL};

    return measure_test("measure verdict", tests);
}

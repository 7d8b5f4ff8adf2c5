/* `outrider simulate`: the table, JSON, recorded traces, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

static double speedup_of(const json_t *results, const char *policy, const char *schedule, int k)
{
    size_t i;
    json_t *r;

    json_array_foreach(results, i, r)
    {
        if (strcmp(json_string_value(json_object_get(r, "policy")), policy) == 0 &&
            strcmp(json_string_value(json_object_get(r, "schedule")), schedule) == 0 &&
            json_integer_value(json_object_get(r, "draft_max")) == k)
            return json_number_value(json_object_get(r, "speedup"));
    }
    ck_abort_msg("no result %s %s %d", policy, schedule, k);
    return 0;
}

START_TEST(test_table)
{
    struct program_result r = RUN("simulate", "-n", "500", "--verbose");

    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.err, "");
    ck_assert_ptr_nonnull(strstr(r.out, "serial"));
    ck_assert_ptr_nonnull(strstr(r.out, "pipelined"));
    ck_assert_ptr_nonnull(strstr(r.out, "\n  16 "));
    ck_assert_ptr_nonnull(strstr(r.out, "\nauto "));
    ck_assert_ptr_nonnull(strstr(r.out, "acceptance"));
    program_free(&r);
}
END_TEST

START_TEST(test_json)
{
    struct program_result r = RUN("simulate", "--json", "--alpha", "1", "--cost-ratio", "0.5",
                                  "--verify-cost", "flat", "--devices", "2", "-n", "1600");
    json_t *object = program_json(&r, 0), *results = json_object_get(object, "results");

    ck_assert_int_eq(json_integer_value(json_object_get(object, "tokens")), 1600);
    ck_assert_uint_eq(json_array_size(results), 2 * 17 + 3);
    ck_assert_double_eq_tol(speedup_of(results, "fixed", "serial", 0), 1, 1e-9);
    /* 3 tokens in 1 + 2 c, and in max(1, 3 c). */
    ck_assert_double_eq_tol(speedup_of(results, "fixed", "serial", 2), 1.5, 0.02);
    ck_assert_double_eq_tol(speedup_of(results, "fixed", "pipelined", 2), 2, 0.02);
    ck_assert_double_gt(speedup_of(results, "auto", "both", 16), 1.9);
    ck_assert_double_eq_tol(json_number_value(json_object_get(object, "overlap")), 1, 1e-9);
    ck_assert(json_is_object(json_object_get(object, "controller")));
    json_decref(object);
    program_free(&r);

    struct program_result again = RUN("simulate", "--json", "--noise", "0.1", "--seed", "7");
    struct program_result same = RUN("simulate", "--json", "--noise", "0.1", "--seed", "7");
    struct program_result other = RUN("simulate", "--json", "--noise", "0.1", "--seed", "8");
    ck_assert_str_eq(again.out, same.out);
    ck_assert_str_ne(again.out, other.out);
    program_free(&again);
    program_free(&same);
    program_free(&other);
}
END_TEST

START_TEST(test_curves)
{
    static const struct {
        const char *given;
        double v2, v17;
    } curves[] = {{"flat", 1, 1},  {"linear:0.5", 1.5, 9}, {"steps:8:0.5", 1, 2},
                  {"2,3", 1.5, 9}, {"1,1,1", 1, 1},        {"4", 1, 1}};

    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
        struct program_result r = RUN("simulate", "--json", "-n", "50", "--verify-cost",
                                      curves[i].given);
        json_t *object = program_json(&r, 0), *v = json_object_get(object, "target_ms");

        ck_assert_double_eq_tol(json_number_value(json_array_get(v, 1)), curves[i].v2, 1e-9);
        ck_assert_double_eq_tol(json_number_value(json_array_get(v, 16)), curves[i].v17, 1e-9);
        json_decref(object);
        program_free(&r);
    }
}
END_TEST

static struct program_result run_trace(const char *text, const char *drafter)
{
    const char *arguments[] = {"simulate", "--json",     "--trace", "-", "--drafter",
                               drafter,    "--schedule", "serial",  NULL};
    return program_run(&(struct program_call){.arguments = arguments, .input = text});
}

START_TEST(test_trace)
{
    char text[20000];
    size_t n = (size_t)snprintf(text, sizeof(text),
                                "{\"trace\": 1, \"prompt\": [1, 2, 3, 4], \"target_ms\": [2, null, "
                                "2.4], \"draft_ms\": 0.2}\n");
    /* A period of four, which the draft gets right but for each fourth. */
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "{\"id\": %d%s}\n", 1 + i % 4,
                              i % 4 == 3   ? ", \"p\": 0.2, \"hit\": false"
                              : i % 4 == 2 ? ""
                                           : ", \"p\": 0.9, \"hit\": true");
    struct program_result r = run_trace(text, "model");
    json_t *object = program_json(&r, 0), *results = json_object_get(object, "results");
    ck_assert_int_eq(json_integer_value(json_object_get(object, "tokens")), 200);
    ck_assert_int_eq(json_integer_value(json_object_get(object, "known")), 150);
    ck_assert_double_eq_tol(
        json_number_value(json_array_get(json_object_get(object, "target_ms"), 1)), 2.2, 1e-9);
    ck_assert_double_gt(speedup_of(results, "fixed", "serial", 2), 1);
    json_decref(object);
    program_free(&r);

    r = run_trace(text, "ngram");
    object = program_json(&r, 0);
    results = json_object_get(object, "results");
    ck_assert_double_gt(speedup_of(results, "fixed", "serial", 4), 3);
    ck_assert_double_gt(speedup_of(results, "auto", "serial", 16), 3);
    json_decref(object);
    program_free(&r);
}
END_TEST

START_TEST(test_bad_traces)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no tokens"},
        {"{\"trace\": 1}\n", "no tokens"},
        {"{}\n", "line 1"},
        {"{\"trace\": 2}\n{\"id\": 1}\n", "line 1"},
        {"{\"trace\": 1}\n{\"id\": -1}\n", "line 2: bad \"id\""},
        {"{\"trace\": 1}\n{\"id\": 1.5}\n", "line 2"},
        {"{\"trace\": 1}\n{\"p\": 1.5}\n", "\"p\""},
        {"{\"trace\": 1}\n{\"hit\": 1}\n", "\"hit\""},
        {"{\"trace\": 1}\n[]\n", "line 2"},
        {"{\"trace\": 1}\n{\"id\": 1\n", "line 2"},
        {"{\"trace\": 1, \"target_ms\": [0]}\n{}\n", "\"target_ms\""},
        {"{\"trace\": 1, \"target_ms\": [1, \"x\"]}\n{}\n", "\"target_ms\""},
        {"{\"trace\": 1, \"target_ms\": []}\n{}\n", "\"target_ms\""},
        {"{\"trace\": 1, \"draft_ms\": -1}\n{}\n", "\"draft_ms\""},
        {"{\"trace\": 1, \"prompt\": [-1]}\n{}\n", "\"prompt\""},
        {"{\"trace\": 1, \"prompt\": [1], \"prompt_tokens\": 2}\n{}\n", "\"prompt\""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        EXPECT_REFUSED(run_trace(cases[i].text, "model"), 3, cases[i].message);
    EXPECT_REFUSED(run_trace("{\"trace\": 1}\n{\"hit\": true}\n", "ngram"), 3, "ids");
    EXPECT_REFUSED(RUN("simulate", "--trace", "/nonexistent"), 3, "/nonexistent");
}
END_TEST

START_TEST(test_refused)
{
    EXPECT_REFUSED(RUN("simulate", "--verify-cost", "linear:"), 2, "linear:");
    EXPECT_REFUSED(RUN("simulate", "--verify-cost", "steps:0:1"), 2, "steps:0:1");
    EXPECT_REFUSED(RUN("simulate", "--verify-cost", "1,2,"), 2, "1,2,");
    EXPECT_REFUSED(RUN("simulate", "--verify-cost", "1,nan"), 2, "1,nan");
    EXPECT_REFUSED(RUN("simulate", "--schedule", "x"), 2, "serial|pipelined|both");
    EXPECT_REFUSED(RUN("simulate", "--drafter", "x"), 2, "model|ngram|both");
    EXPECT_REFUSED(RUN("simulate", "--transfer", "1"), 2, "--devices 2");
    EXPECT_REFUSED(RUN("simulate", "--alpha", "1.1"), 2, "between 0 and 1");
    EXPECT_REFUSED(RUN("simulate", "-n", "0"), 2, "between 1");
    EXPECT_REFUSED(RUN("simulate", "--draft-max", "17"), 2, "between 1 and 16");
    EXPECT_REFUSED(RUN("simulate", "--alhpa", "1"), 2, "did you mean '--alpha'?");
    EXPECT_REFUSED(RUN("simulate", "word"), 2, "unexpected argument");
}
END_TEST

START_TEST(test_interrupt)
{
    struct program_result r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"simulate", "-n", "1000000", "--json", NULL},
        .signal = 2,
        .signal_after_s = 0.3});

    ck_assert_int_eq(r.code, 130);
    ck_assert_str_eq(r.out, "");
    program_free(&r);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_table,      test_json,    test_curves,    test_trace,
                                  test_bad_traces, test_refused, test_interrupt, NULL};

    return program_test("simulate", tests, 120);
}

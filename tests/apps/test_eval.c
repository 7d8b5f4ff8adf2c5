/* `outrider eval` on a device: rows in the shape of the golden files and close to them, the same
 * bits for every row count, and perplexities that follow from the rows.
 *
 * TEST_TARGET names the model, TEST_GOLDEN its logits file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

static const char *target;

static json_t *eval_json(struct program_result r)
{
    json_t *object = program_json(&r, 0);

    ck_assert_str_eq(r.err, "");
    program_free(&r);
    return object;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

/* "1,2,3", to be freed. */
static char *id_list(const json_t *ids)
{
    size_t n = json_array_size(ids), at = 0;
    char *list = malloc(n * 12 + 1);

    ck_assert_ptr_nonnull(list);
    list[0] = '\0';
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(list + at, "%s%lld", i ? "," : "",
                              (long long)json_integer_value(json_array_get(ids, i)));
    return list;
}

/* The logit of an id among the row's highest; NaN when it isn't there. */
static double find_logit(const json_t *row, json_int_t id)
{
    const json_t *ids = json_object_get(row, "top_ids");

    for (size_t i = 0; i < json_array_size(ids); i++) {
        if (json_integer_value(json_array_get(ids, i)) == id)
            return json_number_value(json_array_get(json_object_get(row, "top_logits"), i));
    }
    return NAN;
}

START_TEST(test_shape)
{
    json_t *object = eval_json(RUN("eval", "-m", target, "--ids", "1,5,9", "-n", "4", "--json"));
    json_t *rows = json_object_get(object, "rows"), *row;
    size_t i;

    ck_assert_ptr_nonnull(strstr(target, json_string_value(json_object_get(object, "model"))));
    ck_assert_uint_eq(json_array_size(json_object_get(object, "prompt_ids")), 3);
    ck_assert_uint_eq(json_array_size(json_object_get(object, "greedy_ids")), 4);
    ck_assert_uint_eq(json_array_size(rows), 7);
    json_array_foreach(rows, i, row)
    {
        const json_t *logits = json_object_get(row, "top_logits");

        ck_assert_uint_eq(json_array_size(json_object_get(row, "top_ids")), 16);
        ck_assert_uint_eq(json_array_size(logits), 16);
        for (size_t k = 1; k < 16; k++)
            ck_assert_double_le(json_number_value(json_array_get(logits, k)),
                                json_number_value(json_array_get(logits, k - 1)));
        ck_assert_double_ge(number(row, "logsumexp"), json_number_value(json_array_get(logits, 0)));
        ck_assert_double_le(fabs(number(row, "mean")), number(row, "rms"));
    }
    /* Greedy: each next id is the highest of the row before. */
    for (i = 0; i < 4; i++)
        ck_assert_int_eq(
            json_integer_value(json_array_get(json_object_get(object, "greedy_ids"), i)),
            json_integer_value(
                json_array_get(json_object_get(json_array_get(rows, 2 + i), "top_ids"), 0)));
    json_decref(object);
}
END_TEST

START_TEST(test_golden)
{
    const char *path = getenv("TEST_GOLDEN");
    json_t *golden = json_load_file(path ? path : "", 0, NULL), *object, *rows, *row;
    char *ids, n[16];
    size_t i, n_greedy;

    ck_assert_msg(golden != NULL, "TEST_GOLDEN can't be read");
    rows = json_object_get(golden, "rows");
    ids = id_list(json_object_get(golden, "prompt_ids"));
    /* The first few of the continuation: the rest is for the runtime's own tests. */
    n_greedy = json_array_size(json_object_get(golden, "greedy_ids")) < 8 ? 0 : 8;
    snprintf(n, sizeof(n), "%zu", n_greedy);
    object = eval_json(RUN("eval", "-m", target, "--ids", ids, "-n", n, "--json"));
    ck_assert(
        json_equal(json_object_get(object, "prompt_ids"), json_object_get(golden, "prompt_ids")));
    for (i = 0; i < n_greedy; i++)
        ck_assert(json_equal(json_array_get(json_object_get(object, "greedy_ids"), i),
                             json_array_get(json_object_get(golden, "greedy_ids"), i)));
    json_array_foreach(json_object_get(object, "rows"), i, row)
    {
        const json_t *wanted = json_array_get(rows, i);
        double rms = number(wanted, "rms");

        ck_assert_double_eq_tol(number(row, "logsumexp"), number(wanted, "logsumexp"), 0.02);
        ck_assert_double_eq_tol(number(row, "rms"), rms, 0.005 * rms);
        ck_assert_double_eq_tol(number(row, "mean"), number(wanted, "mean"), 0.01 * rms);
        /* The eight highest are surely among our sixteen. */
        for (size_t k = 0; k < 8; k++) {
            json_int_t id = json_integer_value(
                json_array_get(json_object_get(wanted, "top_ids"), k));
            double logit = json_number_value(
                json_array_get(json_object_get(wanted, "top_logits"), k));

            ck_assert_double_eq_tol(find_logit(row, id), logit, 0.01 * rms);
        }
    }
    free(ids);
    json_decref(object);
    json_decref(golden);
}
END_TEST

START_TEST(test_row_counts)
{
    static const char *const counts[] = {"2", "5", "17"};
    const char *ids = "1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61,65,69,73,77";
    json_t *one = eval_json(RUN("eval", "-m", target, "--ids", ids, "--json", "--rows", "1"));

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        json_t *many = eval_json(
            RUN("eval", "-m", target, "--ids", ids, "--json", "--rows", counts[i]));

        ck_assert_msg(json_equal(json_object_get(one, "rows"), json_object_get(many, "rows")),
                      "other logits with --rows %s", counts[i]);
        json_decref(many);
    }
    json_decref(one);
}
END_TEST

/* A text that the model itself would write has its next token among the highest logits, so that the
 * perplexity can be computed again from the rows. */
START_TEST(test_perplexity)
{
    struct program_result written = RUN("run", "-m", target, "-q", "-p", "", "-n", "24", "--temp",
                                        "0", "--ignore-eos");
    /* SPM puts a blank of its own before a text. */
    const char *text = written.out + (written.out[0] == ' ');
    json_t *logits, *whole, *cut;
    const json_t *ids, *rows;
    double mean = 0.0, squares = 0.0, perplexity, error;
    size_t n;

    ck_assert_int_eq(written.code, 0);
    logits = eval_json(RUN("eval", "-m", target, "-p", text, "-n", "0", "--json"));
    whole = eval_json(RUN("eval", "-m", target, "-p", text, "--json"));
    ids = json_object_get(logits, "prompt_ids");
    rows = json_object_get(logits, "rows");
    n = json_array_size(ids) - 1;
    ck_assert_uint_ge(n, 20);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        double logit = find_logit(row, json_integer_value(json_array_get(ids, i + 1)));
        double nll = number(row, "logsumexp") - logit;

        ck_assert_msg(!isnan(logit), "token %zu isn't among the likely ones", i + 1);
        mean += nll / (double)n;
        squares += nll * nll / (double)n;
    }
    perplexity = exp(mean);
    error = perplexity * sqrt((squares - mean * mean) / (double)(n - 1));
    ck_assert_double_eq_tol(number(whole, "mean_nll"), mean, 1e-4);
    ck_assert_double_eq_tol(number(whole, "perplexity"), perplexity, 1e-4 * perplexity);
    ck_assert_double_eq_tol(number(whole, "standard_error"), error, 1e-3 * error);
    ck_assert_uint_eq((size_t)number(whole, "scored"), n);
    ck_assert_uint_eq((size_t)number(whole, "tokens"), n + 1);
    /* In windows every token is scored once all the same, from less text. */
    cut = eval_json(RUN("eval", "-m", target, "-p", text, "-c", "8", "--json"));
    ck_assert_uint_eq((size_t)number(cut, "scored"), n);
    ck_assert_uint_eq((size_t)number(cut, "window"), 8);
    ck_assert_double_gt(number(cut, "perplexity"), number(whole, "perplexity"));
    json_decref(cut);
    json_decref(whole);
    json_decref(logits);
    program_free(&written);
}
END_TEST

START_TEST(test_text_form)
{
    struct program_result r = RUN("eval", "-m", target, "-p", "Once upon a time there was");

    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(strncmp(r.out, "perplexity ", 11), 0);
    ck_assert_ptr_nonnull(strstr(r.out, " +/- "));
    program_free(&r);
    r = RUN("eval", "-m", target, "--ids", "1,2,3");
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.out, "logsumexp"));
    ck_assert_ptr_nonnull(strstr(r.out, "     2        3  ->"));
    program_free(&r);
    r = RUN("eval", "-m", target, "--ids", "1"); /* one token is enough */
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.out, "     0        1  ->"));
    program_free(&r);
}
END_TEST

/* The model with the last weights overwritten: whatever their format, one is not a number then. No
 * rubbish is given out for text. */
static void check_not_finite(void)
{
    char path[] = "/tmp/outrider-damaged-XXXXXX", buffer[4096], bad[64];
    FILE *from = fopen(target, "rb"), *to = fdopen(mkstemp(path), "wb");
    size_t n;

    ck_assert(from && to);
    while ((n = fread(buffer, 1, sizeof(buffer), from)) > 0)
        ck_assert_uint_eq(fwrite(buffer, 1, n, to), n);
    memset(bad, 0xff, sizeof(bad));
    ck_assert_int_eq(fseek(to, -(long)sizeof(bad), SEEK_END), 0);
    ck_assert_uint_eq(fwrite(bad, 1, sizeof(bad), to), sizeof(bad));
    fclose(from);
    ck_assert_int_eq(fclose(to), 0);
    EXPECT_REFUSED(RUN("eval", "-m", path, "--ids", "1,2,3"), 3, "not finite");
    EXPECT_REFUSED(RUN("eval", "-m", path, "-p", "once upon a time"), 3, "not finite");
    EXPECT_REFUSED(RUN("run", "-m", path, "-p", "once", "--json", "-n", "4"), 3, "not finite");
    /* A damaged draft costs acceptance, not the text. */
    struct program_result r = RUN("run", "-m", target, "-md", path, "-p", "once", "-n", "4", "-q",
                                  "--temp", "0", "--ignore-eos");
    struct program_result plain = RUN("run", "-m", target, "-p", "once", "-n", "4", "-q", "--temp",
                                      "0", "--ignore-eos");
    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.out, plain.out);
    program_free(&plain);
    program_free(&r);
    unlink(path);
}

START_TEST(test_refused)
{
    check_not_finite();
    EXPECT_REFUSED(RUN("eval", "-m", target, "--ids", "1,2000000"), 2, "2000000");
    EXPECT_REFUSED(RUN("eval", "-m", target, "--ids", "1,2,3,4,5", "-c", "4"), 3, "context");
    EXPECT_REFUSED(RUN("eval", "-m", target, "-p", "text", "-c", "3"), 2, "-c");
    EXPECT_REFUSED(RUN("eval", "-m", target, "-f", "/dev/null"), 3, "token");
    EXPECT_REFUSED(RUN("eval", "-m", target, "-p", "text", "-c", "1"), 2, "-c must be");
    EXPECT_REFUSED(RUN("eval", "-m", target, "--ids", " 1"), 2, "' 1'");
    const char *const forms[][5] = {{"--ids", "1,2", "--json"}, {"--ids", "1,2"}, {"-p", "text"}};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        EXPECT_REFUSED(program_run(&(struct program_call){
                           .arguments = (const char *const[]){"eval", "-m", target, forms[i][0],
                                                              forms[i][1], forms[i][2], NULL},
                           .output_path = "/dev/full"}),
                       1, "No space left");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_shape,   test_golden, test_row_counts, test_perplexity, test_text_form,
        test_refused, NULL,
    };

    target = getenv("TEST_TARGET");
    if (!target) {
        fprintf(stderr, "TEST_TARGET names no model\n");
        return EXIT_FAILURE;
    }
    return program_test("eval", tests, 300);
}

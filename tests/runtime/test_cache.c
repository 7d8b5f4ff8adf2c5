/* The key-value cache in contexts of several parts of attention, as halfs and as Q8_0: rows are
 * bit-identical, the text does not depend on speculation, and 8 bits change the logits little. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "models.h"

/* Positions beyond the first part (256) of the row kernels. */
#define N_IDS 300

static const otr_cache_type types[] = {OTR_CACHE_F16, OTR_CACHE_Q8_0};

static otr_session *open_typed(otr_model *target, otr_model *draft, otr_cache_type type,
                               uint32_t prefill_rows)
{
    otr_session_params params = otr_session_params_default();
    otr_session *session = NULL;
    params.n_ctx = N_IDS + 40;
    params.cache_type = type;
    params.prefill_rows = prefill_rows;
    ck_assert_int_eq(otr_session_create(target, draft, &params, &session), OTR_OK);
    return session;
}

static void random_ids(const otr_model *model, int32_t *ids, uint64_t seed)
{
    otr_model_info info = {.size = sizeof info};
    otr_model_describe(model, &info);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(next_random(&seed) % info.n_vocab);
}

START_TEST(rows_and_cuts_are_bit_identical)
{
    static const uint32_t rows[] = {1, 2, 5, 16}, cuts[] = {16, 75, 300};
    otr_context *context = open_context();
    otr_model *model = load_model(context, MODEL_DRAFT);
    otr_session *session = open_typed(model, NULL, types[_i], 128);
    otr_evaluate_params params = otr_evaluate_params_default();
    logits_table expected = {0}, prefilled = {0};
    int32_t ids[N_IDS];

    random_ids(model, ids, 5);
    params.path = OTR_EVALUATE_ROWS;
    params.rows = 17;
    ck_assert_int_eq(otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &expected),
                     OTR_OK);
    for (size_t i = device_is_slow(context) ? 2 : 0; i < sizeof rows / sizeof rows[0]; i++) {
        logits_table now = {.expected = &expected};
        params.rows = rows[i];
        ck_assert_int_eq(otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &now),
                         OTR_OK);
        ck_assert_uint_eq(now.n_rows, N_IDS);
    }
    params.path = OTR_EVALUATE_PREFILL;
    ck_assert_int_eq(
        otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &prefilled), OTR_OK);
    otr_session_destroy(&session);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        logits_table now = {.expected = &prefilled};
        session = open_typed(model, NULL, types[_i], cuts[i]);
        ck_assert_int_eq(otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &now),
                         OTR_OK);
        ck_assert_uint_eq(now.n_rows, N_IDS);
        otr_session_destroy(&session);
    }
    free(prefilled.values);
    free(expected.values);
    otr_model_destroy(&model);
    close_context(&context);
}
END_TEST

/* A generation that crosses the end of the first part, wherever its blocks begin. */
START_TEST(same_text_across_parts)
{
    static const uint32_t ks[] = {1, 5, 16};
    otr_context *context = open_context();
    otr_model *target = load_model(context, MODEL_TARGET);
    otr_model *draft = load_model(context, MODEL_DRAFT);
    otr_session *session = open_typed(target, draft, types[_i], 0);
    otr_generate_params params = otr_generate_params_default();
    enum { N_PROMPT = 245, N_OUTPUT = 24 };
    int32_t prompt[N_IDS], plain[N_OUTPUT], ids[N_OUTPUT];

    random_ids(target, prompt, 6);
    params.max_tokens = N_OUTPUT;
    params.ignore_stop_tokens = true;
    params.sampling.seed = 9;
    params.draft_max = 0;
    ck_assert_uint_eq(generate_ids(session, prompt, N_PROMPT, &params, plain, N_OUTPUT, NULL),
                      N_OUTPUT);
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        params.draft_max = ks[i];
        ck_assert_uint_eq(generate_ids(session, prompt, N_PROMPT, &params, ids, N_OUTPUT, NULL),
                          N_OUTPUT);
        ck_assert_mem_eq(ids, plain, sizeof ids);
    }
    otr_session_destroy(&session);
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    close_context(&context);
}
END_TEST

/* Keys and values in 8 bits are off by up to 1/254 of a block's largest each: the logits move by some
 * thousandths of their rms. More would be a fault; none, a cache that isn't used. */
START_TEST(q8_0_is_near_f16)
{
    otr_context *context = open_context();
    otr_model *model = load_model(context, MODEL_TARGET);
    otr_model_info info = {.size = sizeof info};
    otr_evaluate_params params = otr_evaluate_params_default();
    logits_table tables[2] = {{0}};
    int32_t ids[N_IDS];
    double difference = 0, size = 0;

    otr_model_describe(model, &info);
    random_ids(model, ids, 7);
    for (int i = 0; i < 2; i++) {
        otr_session *session = open_typed(model, NULL, types[i], 0);
        ck_assert_int_eq(
            otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &tables[i]),
            OTR_OK);
        ck_assert_uint_eq(tables[i].n_rows, N_IDS);
        otr_session_destroy(&session);
    }
    for (size_t i = 0; i < (size_t)N_IDS * info.n_vocab; i++) {
        double a = (double)tables[0].values[i], b = (double)tables[1].values[i];
        difference += (a - b) * (a - b);
        size += a * a;
    }
    printf("Q8_0 cache: logits differ by %.5f of their rms\n", sqrt(difference / size));
    ck_assert_double_gt(difference, 0);
    ck_assert_double_le(sqrt(difference / size), 0.01);
    free(tables[0].values);
    free(tables[1].values);
    otr_model_destroy(&model);
    close_context(&context);
}
END_TEST

START_TEST(heads_must_hold_whole_blocks)
{
    otr_context *context = open_context();
    otr_model *model = load_model(context, MODEL_STORIES); /* heads of 8 */
    otr_session_params params = otr_session_params_default();
    otr_session *session = NULL;
    char message[512];

    params.cache_type = OTR_CACHE_Q8_0;
    ck_assert_int_eq(otr_session_create(model, NULL, &params, &session), OTR_ERROR_UNSUPPORTED);
    otr_error_message(context, message, sizeof message);
    ck_assert_ptr_nonnull(strstr(message, "heads of 8"));
    params.cache_type = (otr_cache_type)7;
    ck_assert_int_eq(otr_session_create(model, NULL, &params, &session),
                     OTR_ERROR_INVALID_ARGUMENT);
    otr_model_destroy(&model);
    close_context(&context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache");
    TCase *tests = tcase_create("cache");
    tcase_set_timeout(tests, 1200);
    tcase_add_loop_test(tests, rows_and_cuts_are_bit_identical, 0, 2);
    tcase_add_loop_test(tests, same_text_across_parts, 0, 2);
    tcase_add_test(tests, q8_0_is_near_f16);
    tcase_add_test(tests, heads_must_hold_whole_blocks);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

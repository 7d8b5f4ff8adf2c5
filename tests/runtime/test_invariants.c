/* What may never change: the same text whatever speculation does, and the same logits for every
 * number of rows in a pass. Argument "slow": 100 prompts instead of 10, 40 on a slow
 * device. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "models.h"
#include "needs_tier.h"

#define MAX_OUTPUT 64

static bool slow_suite;

/* ----------------------------------------------------------------- rows of a pass */

static const char *const row_models[] = {
    MODEL_STORIES,
    "tests/data/formats/fix-mixed-Q4_K_M.gguf",
    MODEL_TARGET,
    "tests/data/formats/fix-BF16.gguf",
    "tests/data/formats/fix-IQ4_XS.gguf",
    "tests/data/formats/fix-Q3_K_M.gguf",
};

START_TEST(rows_are_bit_identical)
{
    enum { N_IDS = 37 };
    otr_context *context = open_context();
    otr_model *model = load_model(context, row_models[_i]);
    otr_session *session = open_session(model, NULL, 64);
    otr_evaluate_params params = otr_evaluate_params_default();
    otr_model_info info = {.size = sizeof info};
    logits_table expected = {0};
    int32_t ids[N_IDS];
    uint64_t random = 1;

    otr_model_describe(model, &info);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(next_random(&random) % info.n_vocab);
    params.path = OTR_EVALUATE_ROWS;
    params.rows = 17;
    ck_assert_int_eq(otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &expected),
                     OTR_OK);
    for (params.rows = 1; params.rows <= 16; params.rows++) {
        logits_table now = {.expected = &expected};
        ck_assert_int_eq(otr_session_evaluate(session, &params, ids, N_IDS, keep_or_compare, &now),
                         OTR_OK);
        ck_assert_uint_eq(now.n_rows, N_IDS);
    }
    free(expected.values);
    otr_session_destroy(&session);
    otr_model_destroy(&model);
    close_context(&context);
}
END_TEST

START_TEST(prefill_is_bit_identical_for_every_cut)
{
    enum { N_IDS = 75 };
    static const uint32_t cuts[] = {1, 7, 16, 33, 74};
    otr_context *context = open_context();
    otr_model *model = load_model(context, row_models[_i]);
    otr_model_info info = {.size = sizeof info};
    otr_evaluate_params evaluate = otr_evaluate_params_default();
    logits_table expected = {0};
    int32_t ids[N_IDS];
    uint64_t random = 2;

    otr_model_describe(model, &info);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(next_random(&random) % info.n_vocab);
    otr_session *whole = open_session(model, NULL, 128);
    ck_assert_int_eq(otr_session_evaluate(whole, &evaluate, ids, N_IDS, keep_or_compare, &expected),
                     OTR_OK);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        otr_session_params params = otr_session_params_default();
        otr_session *session = NULL;
        logits_table now = {.expected = &expected};
        params.n_ctx = 128;
        params.prefill_rows = cuts[c];
        ck_assert_int_eq(otr_session_create(model, NULL, &params, &session), OTR_OK);
        ck_assert_int_eq(
            otr_session_evaluate(session, &evaluate, ids, N_IDS, keep_or_compare, &now), OTR_OK);
        ck_assert_uint_eq(now.n_rows, N_IDS);
        otr_session_destroy(&session);
    }
    /* A prompt in two calls continues as a prompt in one. */
    otr_generate_params params = otr_generate_params_default();
    int32_t one[16], two[16];
    params.max_tokens = 16;
    params.ignore_stop_tokens = true;
    ck_assert_uint_eq(generate_ids(whole, ids, N_IDS, &params, one, 16, NULL), 16);
    ck_assert_int_eq(otr_session_rewind(whole, 0), OTR_OK);
    ck_assert_int_eq(otr_session_append(whole, ids, 29, NULL, NULL), OTR_OK);
    ck_assert_int_eq(otr_session_append(whole, ids + 29, N_IDS - 29, NULL, NULL), OTR_OK);
    ck_assert_int_eq(otr_generate(whole, &params, NULL, NULL, NULL), OTR_OK);
    size_t n_tokens;
    memcpy(two, otr_session_tokens(whole, &n_tokens) + N_IDS, sizeof two);
    ck_assert_uint_eq(n_tokens, N_IDS + 16);
    ck_assert_mem_eq(one, two, sizeof one);
    free(expected.values);
    otr_session_destroy(&whole);
    otr_model_destroy(&model);
    close_context(&context);
}
END_TEST

/* ---------------------------------------------------------------------- same text */

static void check_counters(const otr_stats *s)
{
    uint64_t accepted = 0, verified = 0;
    ck_assert_uint_eq(s->emitted, 1 + s->accepted + s->blocks - s->discarded);
    ck_assert_uint_ge(s->drafted, s->verified);
    ck_assert_uint_ge(s->verified, s->accepted);
    for (int i = 0; i < OTR_MAX_DRAFT; i++) {
        accepted += s->accepted_by_position[i];
        verified += s->verified_by_position[i];
        ck_assert_uint_ge(s->verified_by_position[i], s->accepted_by_position[i]);
    }
    ck_assert_uint_eq(accepted, s->accepted);
    ck_assert_uint_eq(verified, s->verified);
}

/* Settings that touch every branch of the sampler. */
static void random_sampling(otr_sampling *a, uint64_t *random)
{
    static const float temperatures[] = {0.0f, 0.7f, 1.3f};
    a->seed = ((uint64_t)next_random(random) << 32) | next_random(random);
    a->temperature = temperatures[next_random(random) % 3];
    a->top_k = next_random(random) % 3 ? (int32_t)(next_random(random) % 100) : 0;
    a->top_p = next_random(random) % 2 ? 0.9f : 1.0f;
    a->min_p = next_random(random) % 2 ? 0.05f : 0.0f;
    a->repeat_penalty = next_random(random) % 4 ? 1.0f : 1.2f;
}

typedef struct totals {
    uint64_t verified, accepted;
} totals;

/* The ids of `n_cases` random prompts for K = 0 and every other K, on one session. `drafters` is that of
 * otr_generate_params. */
static void same_text(const char *target_path, const char *draft_path, int n_cases,
                      int32_t max_tokens, uint64_t seed, uint32_t drafters, totals *sum)
{
    static const uint32_t ks[] = {1, 2, 3, 5, 8, 16, OTR_DRAFT_AUTO};
    otr_context *context = open_context();
    otr_model *target = load_model(context, target_path);
    otr_model *draft = load_model(context, draft_path);
    otr_session *session = open_session(target, draft, 96);
    otr_model_info info = {.size = sizeof info};
    uint64_t random = seed;

    otr_model_describe(target, &info);
    for (int i = 0; i < n_cases; i++) {
        otr_generate_params params = otr_generate_params_default();
        int32_t prompt[24], plain[MAX_OUTPUT], ids[MAX_OUTPUT];
        size_t n_prompt = 1 + next_random(&random) % 24;
        otr_stats stats = {.size = sizeof stats};

        for (size_t j = 0; j < n_prompt; j++)
            prompt[j] = (int32_t)(next_random(&random) % info.n_vocab);
        random_sampling(&params.sampling, &random);
        params.drafters = drafters;
        params.max_tokens = max_tokens;
        params.ignore_stop_tokens = i % 4 == 0;
        params.draft_max = 0;
        size_t n = generate_ids(session, prompt, n_prompt, &params, plain, MAX_OUTPUT, &stats);
        check_counters(&stats);
        ck_assert_uint_eq(stats.drafted, 0);
        for (size_t k = 0; k < sizeof ks / sizeof ks[0]; k++) {
            params.draft_max = ks[k];
            params.plain_probes = (uint32_t)(k % 2) * 4;
            size_t n_now = generate_ids(session, prompt, n_prompt, &params, ids, MAX_OUTPUT,
                                        &stats);
            check_counters(&stats);
            sum->verified += stats.verified;
            sum->accepted += stats.accepted;
            if (n_now != n || memcmp(ids, plain, n * sizeof *ids) != 0)
                ck_abort_msg("case %d, K = %u: the text differs from plain decoding", i, ks[k]);
        }
    }
    otr_session_destroy(&session);
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    close_context(&context);
}

static bool on_slow_device(void)
{
    otr_context *context = open_context();
    bool slow = device_is_slow(context);
    close_context(&context);
    return slow;
}

START_TEST(same_text_with_a_good_draft)
{
    totals sum = {0};
    if (on_slow_device())
        same_text(MODEL_STORIES, MODEL_STORIES, slow_suite ? 40 : 10, 16, 11, 0, &sum);
    else
        same_text(MODEL_TARGET, MODEL_DRAFT, slow_suite ? 100 : 10, 24, 11, 0, &sum);
    printf("good draft: %llu of %llu accepted\n", (unsigned long long)sum.accepted,
           (unsigned long long)sum.verified);
    ck_assert_uint_gt(sum.accepted, 0);
}
END_TEST

START_TEST(same_text_with_a_random_draft)
{
    totals sum = {0};
    bool slow = on_slow_device();
    same_text(MODEL_TARGET, MODEL_RANDOM_DRAFT,
              slow         ? 1
              : slow_suite ? 20
                           : 3,
              slow ? 6 : 24, 12, 0, &sum);
    printf("random draft: %llu of %llu accepted\n", (unsigned long long)sum.accepted,
           (unsigned long long)sum.verified);
    ck_assert_uint_gt(sum.verified, sum.accepted);
}
END_TEST

/* A model as its own draft agrees with itself everywhere: coupling shares the noise. */
START_TEST(own_draft_is_always_accepted)
{
    totals sum = {0};
    same_text(MODEL_STORIES, MODEL_STORIES, slow_suite ? 20 : 3, 24, 13, OTR_DRAFTER_MODEL, &sum);
    ck_assert_uint_gt(sum.verified, 100);
    ck_assert_uint_eq(sum.accepted, sum.verified);
}
END_TEST

/* Arguments: "slow", or which of row_models to test (see suite_part): the texts are those of the first. */
int main(int argc, char **argv)
{
    int first, end;

    suite_part(argv[1], (int)(sizeof row_models / sizeof row_models[0]), &first, &end);
    if (!needs_tier_of_environment())
        return 77;
    Suite *suite = suite_create("invariants");
    TCase *rows = tcase_create("rows"), *text = tcase_create("text"),
          *own = tcase_create("own draft");
    slow_suite = argc > 1 && !strcmp(argv[1], "slow");
    tcase_set_timeout(rows, 3000);
    tcase_set_timeout(text, 3000);
    tcase_set_timeout(own, 3000);
    tcase_add_loop_test(rows, rows_are_bit_identical, first, end);
    tcase_add_loop_test(rows, prefill_is_bit_identical_for_every_cut, first, end);
    tcase_add_test(text, same_text_with_a_good_draft);
    tcase_add_test(text, same_text_with_a_random_draft);
    tcase_add_test(own, own_draft_is_always_accepted);
    if (!slow_suite)
        suite_add_tcase(suite, rows);
    if (first == 0) {
        suite_add_tcase(suite, text);
        suite_add_tcase(suite, own);
    }
    return suite_run(suite);
}

/* Tuning never changes a bit: whole models with every choice of every setting give the logits and
 * tokens that the class's own shapes give. Arguments: which of the models (see suite_part); "some": one
 * choice of each setting, and few tokens. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "models.h"
#include "needs_tier.h"
#include "session.h"

static bool some;

/* Formats differ; so do widths: no multiples of a tile, or of a workgroup. */
static const char *const paths[] = {
    MODEL_STORIES,
    "tests/data/formats/fix-mixed-Q4_K_M.gguf",
    "tests/data/formats/fix-IQ4_XS.gguf",
    "tests/data/formats/fix-Q3_K_M.gguf",
    "tests/data/formats/fix-BF16.gguf",
};

enum { N_IDS = 75, N_TOKENS = 24 };

/* All that a model gives: rows of logits by each path, then the tokens of generations. */
typedef struct outcome {
    float *logits;
    size_t n, capacity; /* floats */
    int32_t tokens[3][N_TOKENS];
} outcome;

static bool keep(size_t row, const float *logits, uint32_t n_vocab, void *user)
{
    outcome *o = user;

    if (o->n + n_vocab > o->capacity) {
        o->capacity = 2 * (o->n + n_vocab);
        o->logits = realloc(o->logits, o->capacity * sizeof *o->logits);
        ck_assert_ptr_nonnull(o->logits);
    }
    memcpy(o->logits + o->n, logits, n_vocab * sizeof *logits);
    o->n += n_vocab;
    return true;
}

static void run(otr_model *model, const tuning *t, outcome *o)
{
    otr_session_params session_params = otr_session_params_default();
    otr_evaluate_params evaluate = otr_evaluate_params_default();
    otr_generate_params generate = otr_generate_params_default();
    otr_session *session = NULL;
    int32_t ids[N_IDS];
    const size_t n_prefill = some ? 36 : N_IDS, n_rows = some ? 18 : 40;
    uint64_t random = 5;

    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(next_random(&random) % model->h.n_vocab);
    session_params.n_ctx = 128;
    o->n = 0;
    ck_assert_int_eq(session_create(model, model, &session_params, t, &session), OTR_OK);
    ck_assert_int_eq(otr_session_evaluate(session, &evaluate, ids, n_prefill, keep, o), OTR_OK);
    evaluate.path = OTR_EVALUATE_ROWS;
    for (evaluate.rows = 17; evaluate.rows > 0; evaluate.rows /= 4) /* 17, 4, 1 */
        ck_assert_int_eq(otr_session_evaluate(session, &evaluate, ids, n_rows, keep, o), OTR_OK);
    generate.max_tokens = some ? 6 : N_TOKENS;
    generate.ignore_stop_tokens = true;
    for (int i = 0; i < 3; i++) { /* greedy, sampled, sampled with a draft */
        generate.sampling.temperature = i ? 1.0f : 0.0f;
        generate.sampling.repeat_penalty = i ? 1.2f : 1.0f;
        generate.draft_max = i == 2 ? 5 : 0;
        generate_ids(session, ids, 20, &generate, o->tokens[i], N_TOKENS, NULL);
    }
    otr_session_destroy(&session);
}

static void check_same(otr_model *model, const outcome *want, const tuning *t,
                       const tuning_setting *setting)
{
    outcome got = {0};
    char choice[64];

    tuning_describe(t, setting, choice, sizeof choice);
    run(model, t, &got);
    ck_assert_uint_eq(got.n, want->n);
    for (size_t i = 0; i < got.n; i++)
        ck_assert_msg(!memcmp(got.logits + i, want->logits + i, sizeof *got.logits),
                      "%s %s: logit %zu of row %zu is %a, not %a", setting->name, choice,
                      i % model->h.n_vocab, i / model->h.n_vocab, (double)got.logits[i],
                      (double)want->logits[i]);
    ck_assert_mem_eq(got.tokens, want->tokens, sizeof got.tokens);
    free(got.logits);
}

START_TEST(no_choice_changes_a_bit)
{
    otr_context *context = open_context();
    otr_model *model = load_model(context, paths[_i]);
    const tuning own = *tuning_of_gpu(model->gpu);
    tuning last = own, first = own; /* the ends of all lists together */
    outcome want = {0};
    uint32_t n_compared = 0;

    run(model, &own, &want);
    for (size_t k = 0; k < N_TUNING_SETTINGS; k++) {
        const tuning_setting *setting = &tuning_settings[k];
        tuning choices[TUNING_MAX_CHOICES];
        uint32_t n = tuning_choices(model->gpu, &own, setting, choices);

        if (!n)
            continue;
        for (uint32_t c = 1; c < n && c <= (some ? 1 : n); c++, n_compared++)
            check_same(model, &want, &choices[c], setting);
        tuning_choices(model->gpu, &first, setting, choices);
        first = choices[n > 1];
        n = tuning_choices(model->gpu, &last, setting, choices);
        last = choices[n - 1];
    }
    if (!some) {
        check_same(model, &want, &first, &tuning_settings[0]);
        check_same(model, &want, &last, &tuning_settings[0]);
        n_compared += 2;
    }
    printf("%s: class %s, %u choices\n", paths[_i], own.device_class, n_compared);
    ck_assert_uint_ge(n_compared, some ? 5 : 10);
    free(want.logits);
    otr_model_destroy(&model);
    close_context(&context);
}
END_TEST

int main(int argc, char **argv)
{
    int first, end;

    suite_part(argv[1], (int)(sizeof paths / sizeof paths[0]), &first, &end);
    if (!needs_tier_of_environment())
        return 77;
    Suite *suite = suite_create("tuning bits");
    TCase *tcase = tcase_create("tuning bits");

    some = argc > 2 && !strcmp(argv[2], "some");
    tcase_set_timeout(tcase, 1800);
    tcase_add_loop_test(tcase, no_choice_changes_a_bit, first, end);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

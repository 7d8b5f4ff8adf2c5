/* Rejection sampling and block verification in whole generations: three tokens at a time against the
 * target's exact distribution on a small model, what the rules refuse, and that greedy and later coupled
 * texts are as ever. Arguments: `slow` takes a twelfth of the tokens that the power demands, `whole` all of
 * them (40 minutes). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "../suite.h"
#include "chi_square.h"
#include "gguf.h"
#include "models.h"
#include "sample_reference.h"
#include "sampler.h"
#include "step_state.h"

#define N_CTX 512
#define DRAFT_NOISE 0.1 /* of the draft's weights, relative: it is often wrong */

static bool is_slow_suite, is_whole;
static otr_context *context;
static otr_model *target, *draft;

static const int32_t prompt[] = {1, 403, 407, 261, 378};
#define N_PROMPT (sizeof prompt / sizeof prompt[0])
#define N_TEXT ((N_CTX - N_PROMPT) / 3 * 3)

/* The weights of stories260K with noise on them, as a file that is gone when this returns. */
static otr_model *load_noisy(const char *source)
{
    char path[] = "/tmp/outrider-noisy-XXXXXX";
    test_random random = {3};
    gguf_error error;
    gguf_file *file = NULL;
    otr_model_params params = otr_model_params_default();
    otr_model *model = NULL;

    ck_assert(gguf_open(source, &file, &error));
    size_t n_bytes = gguf_size_bytes(file);
    unsigned char *bytes = malloc(n_bytes);
    FILE *from = fopen(source, "rb"), *to = fdopen(mkstemp(path), "wb");
    ck_assert(bytes && from && to && fread(bytes, 1, n_bytes, from) == n_bytes);
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        for (uint64_t k = 0; k < t->n_elements; k++) {
            float value;
            memcpy(&value, bytes + t->offset + 4 * k, 4);
            value *= (float)(1 + DRAFT_NOISE * random_normal(&random));
            memcpy(bytes + t->offset + 4 * k, &value, 4);
        }
    }
    ck_assert(fwrite(bytes, 1, n_bytes, to) == n_bytes && fclose(to) == 0 && fclose(from) == 0);
    free(bytes);
    gguf_close(&file);
    params.path = path;
    ck_assert_int_eq(otr_model_load(context, &params, &model), OTR_OK);
    unlink(path);
    return model;
}

static void open_all(bool validates)
{
    otr_context_params params = otr_context_params_default();

    if (validates)
        context = open_context();
    else
        ck_assert_int_eq(otr_context_create(&params, &context), OTR_OK);
    target = load_model(context, MODEL_STORIES);
    draft = load_noisy(source_path(MODEL_STORIES));
}

static void close_all(void)
{
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    close_context(&context);
}

static otr_generate_params params_of(otr_verify verify, uint32_t k, uint64_t seed)
{
    otr_generate_params params = otr_generate_params_default();

    params.verify = verify;
    params.draft_max = k;
    params.sampling.seed = seed;
    params.ignore_stop_tokens = true;
    params.plain_probes = 0;
    return params;
}

/* ----------------------------------------------------------------------------- distribution */

typedef struct scores {
    uint64_t cells[CHI_SQUARE_MAX_CELLS];
    uint64_t drafted, accepted;
} scores;

/* Where a token lies in the distribution of its place, from 0 to 1, at random within its own share: so
 * uniform, whatever the text before. Tokens that the draft likes better than the target does come first,
 * as it is towards them that a faulty rule would lean. */
static double place(uint32_t token, const double *p, const float *ours, const float *theirs,
                    uint32_t n_vocab, test_random *random)
{
    double before = 0, own = (double)theirs[token] - (double)ours[token];

    for (uint32_t v = 0; v < n_vocab; v++) {
        double favour = (double)theirs[v] - (double)ours[v];
        if (favour > own || (favour == own && v < token))
            before += p[v];
    }
    return before + p[token] * random_uniform(random);
}

static logits_table evaluate(otr_session *s, bool use_draft, const int32_t *ids, size_t n)
{
    otr_evaluate_params params = otr_evaluate_params_default();
    logits_table table = {0};

    params.path = OTR_EVALUATE_ROWS;
    params.use_draft = use_draft;
    ck_assert_int_eq(otr_session_evaluate(s, &params, ids, n, keep_or_compare, &table), OTR_OK);
    return table;
}

/* Generates a text and scores its strings of three tokens: 4 x 2 x 2 cells of equal probability. */
static void score_text(otr_session *s, otr_session *judge, const otr_generate_params *params,
                       test_random *random, scores *out)
{
    int32_t ids[N_CTX];
    uint32_t history[N_CTX], n_vocab = 512, parts[3] = {4, 2, 2}, cell = 0;
    static double p[512];
    const otr_sampling *a = &params->sampling;
    const sample_settings settings = {.temperature = a->temperature,
                                      .top_k = (uint32_t)a->top_k,
                                      .top_p = a->top_p,
                                      .min_p = a->min_p,
                                      .penalty = a->repeat_penalty,
                                      .last_n = (uint32_t)a->repeat_last_n};
    otr_stats stats = {.size = sizeof stats};

    memcpy(ids, prompt, sizeof prompt);
    size_t n = generate_ids(s, prompt, N_PROMPT, params, ids + N_PROMPT, N_CTX - N_PROMPT, &stats);
    ck_assert_uint_eq(n, N_TEXT);
    out->drafted += stats.verified;
    out->accepted += stats.accepted;
    for (size_t i = 0; i < N_PROMPT + n; i++)
        history[i] = (uint32_t)ids[i];
    logits_table ours = evaluate(judge, false, ids, N_PROMPT + n);
    logits_table theirs = evaluate(judge, true, ids, N_PROMPT + n);
    for (size_t i = 0; i < n; i++) {
        size_t row = N_PROMPT + i - 1;
        sample_outcome unused;
        const float *logits = ours.values + row * n_vocab;
        sample_reference(logits, n_vocab, history, (uint32_t)row, &settings, &unused, p);
        double u = place(history[row + 1], p, logits, theirs.values + row * n_vocab, n_vocab,
                         random);
        uint32_t n_parts = parts[i % 3], part = (uint32_t)(u * n_parts);
        cell = (i % 3 ? cell : 0) * n_parts + (part < n_parts ? part : n_parts - 1);
        if (i % 3 == 2)
            out->cells[cell]++;
    }
    free(ours.values);
    free(theirs.values);
}

static double p_value(const scores *s)
{
    double expected[CHI_SQUARE_MAX_CELLS];

    for (int i = 0; i < CHI_SQUARE_MAX_CELLS; i++)
        expected[i] = 1.0 / CHI_SQUARE_MAX_CELLS;
    return chi_square_p(s->cells, expected, CHI_SQUARE_MAX_CELLS);
}

static uint32_t n_texts(void)
{
    if (is_slow_suite)
        return (is_whole ? CHI_SQUARE_SAMPLES : CHI_SQUARE_SAMPLES / 12) / (N_TEXT / 3) + 1;
    return device_is_slow(context) ? 1 : 4;
}

/* Texts in turn with everything allowed at temperature 1, and with the default cuts. */
START_TEST(texts_are_the_targets)
{
    otr_verify verify = _i ? OTR_VERIFY_BLOCK : OTR_VERIFY_REJECTION;
    test_random random = {21};
    scores sums = {0};

    open_all(false);
    otr_session *s = open_session(target, draft, N_CTX);
    for (uint32_t seed = 0; seed < n_texts(); seed++) {
        otr_generate_params params = params_of(verify, 4 - seed / 2 % 4, seed);
        params.max_tokens = N_TEXT;
        if (seed % 2 == 0) {
            params.sampling.temperature = 1;
            params.sampling.top_k = 0;
            params.sampling.top_p = 1;
            params.sampling.min_p = 0;
        }
        score_text(s, s, &params, &random, &sums);
    }
    double p = p_value(&sums);
    printf("%s: %u texts, acceptance %.3f, p = %.4f\n", otr_verify_string(verify), n_texts(),
           (double)sums.accepted / (double)sums.drafted, p);
    ck_assert_double_ge(p, CHI_SQUARE_SIGNIFICANCE);
    ck_assert_uint_lt(sums.accepted, sums.drafted);
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* The draft's own text is not the target's: the test above would say so. */
START_TEST(the_drafts_text_is_told_apart)
{
    test_random random = {21};
    scores sums = {0};

    open_all(false);
    otr_session *s = open_session(target, draft, N_CTX), *alone = open_session(draft, NULL, N_CTX);
    otr_generate_params params = params_of(OTR_VERIFY_COUPLED, 0, 1);
    params.max_tokens = N_TEXT;
    score_text(alone, s, &params, &random, &sums);
    ck_assert_double_lt(p_value(&sums), 1e-6);
    otr_session_destroy(&alone);
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* ------------------------------------------------------------------------------------- use */

static void same_ids(otr_session *s, const otr_generate_params *a, const otr_generate_params *b)
{
    int32_t first[N_CTX], second[N_CTX];
    size_t n = generate_ids(s, prompt, N_PROMPT, a, first, N_CTX, NULL);

    ck_assert_uint_eq(generate_ids(s, prompt, N_PROMPT, b, second, N_CTX, NULL), n);
    ck_assert_mem_eq(first, second, n * sizeof first[0]);
}

START_TEST(greedy_and_coupled_texts_stay_the_same)
{
    open_all(true);
    otr_session *s = open_session(target, draft, 128);
    for (otr_verify verify = OTR_VERIFY_REJECTION; verify <= OTR_VERIFY_BLOCK; verify++) {
        otr_generate_params plain = params_of(OTR_VERIFY_COUPLED, 0, 4);
        otr_generate_params coupled = params_of(OTR_VERIFY_COUPLED, 4, 4);
        otr_generate_params ruled = params_of(verify, 4, 4);
        char *json = NULL;
        otr_stats stats = {.size = sizeof stats};
        int32_t ids[N_CTX];

        plain.max_tokens = coupled.max_tokens = ruled.max_tokens = 60;
        same_ids(s, &ruled, &ruled);   /* a seed makes the text */
        same_ids(s, &plain, &coupled); /* after it as before */
        generate_ids(s, prompt, N_PROMPT, &ruled, ids, N_CTX, &stats);
        ck_assert_int_eq(stats.verify, verify);
        ck_assert_uint_gt(stats.accepted, 0);
        ck_assert_int_eq(otr_stats_to_json(&stats, &json), OTR_OK);
        ck_assert_ptr_nonnull(strstr(json, verify == OTR_VERIFY_BLOCK
                                               ? "\"verify\": \"block\""
                                               : "\"verify\": \"rejection\""));
        otr_free(json);
        plain.sampling.temperature = ruled.sampling.temperature = 0;
        same_ids(s, &plain, &ruled);
        generate_ids(s, prompt, N_PROMPT, &ruled, ids, N_CTX, &stats);
        ck_assert_int_eq(stats.verify, OTR_VERIFY_COUPLED);
    }
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* To the context's end, with every K and with the controller's. */
START_TEST(a_context_is_filled)
{
    open_all(true);
    for (uint32_t k = 0; k < 5; k++) {
        otr_session *s = open_session(target, draft, 61);
        otr_generate_params params = params_of(k % 2 ? OTR_VERIFY_BLOCK : OTR_VERIFY_REJECTION,
                                               k < 4 ? 5 * k + 1 : OTR_DRAFT_AUTO, k);
        otr_stats stats = {.size = sizeof stats};
        int32_t ids[64];
        ck_assert_uint_eq(generate_ids(s, prompt, N_PROMPT, &params, ids, 64, &stats),
                          61 - N_PROMPT);
        ck_assert_int_eq(stats.finish, OTR_FINISH_CONTEXT);
        ck_assert_uint_eq(stats.emitted, 1 + stats.accepted + stats.blocks - stats.discarded);
        otr_session_destroy(&s);
    }
    close_all();
}
END_TEST

static void refuses(otr_session *s, const otr_generate_params *params, otr_result wanted,
                    const char *text)
{
    char message[512];

    ck_assert_int_eq(otr_generate(s, params, NULL, NULL, NULL), wanted);
    otr_error_message(context, message, sizeof message);
    ck_assert_msg(strstr(message, text) != NULL, "'%s' is not in '%s'", text, message);
}

START_TEST(what_does_not_go_together_is_refused)
{
    otr_model_params apart = otr_model_params_default();
    otr_model *elsewhere = NULL;

    open_all(true);
    apart.path = source_path(MODEL_STORIES);
    apart.separate_device = true;
    ck_assert_int_eq(otr_model_load(context, &apart, &elsewhere), OTR_OK);
    otr_session *alone = open_session(target, NULL, 32), *s = open_session(target, draft, 32),
                *two = open_session(target, elsewhere, 32);
    otr_session *const all[] = {alone, s, two};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(otr_session_append(all[i], prompt, N_PROMPT, NULL, NULL), OTR_OK);
    otr_generate_params params = params_of(OTR_VERIFY_BLOCK, 4, 1);
    params.max_tokens = 4;
    refuses(alone, &params, OTR_ERROR_INVALID_ARGUMENT, "'block'");
    refuses(two, &params, OTR_ERROR_UNSUPPORTED, "one device");
    params.schedule = OTR_SCHEDULE_PIPELINED;
    refuses(s, &params, OTR_ERROR_UNSUPPORTED, "serial schedule");
    params.schedule = OTR_SCHEDULE_AUTO;
    params.drafters = OTR_DRAFTER_MODEL | OTR_DRAFTER_NGRAM;
    refuses(s, &params, OTR_ERROR_UNSUPPORTED, "n-gram");
    params.drafters = 0;
    params.verify = (otr_verify)7;
    refuses(s, &params, OTR_ERROR_INVALID_ARGUMENT, "verify");
    params.verify = OTR_VERIFY_REJECTION;
    ck_assert_int_eq(otr_generate(s, &params, NULL, NULL, NULL), OTR_OK);
    params.draft_max = 0; /* plain decoding has nothing to verify */
    ck_assert_int_eq(otr_generate(alone, &params, NULL, NULL, NULL), OTR_OK);
    for (int i = 0; i < 3; i++) {
        otr_session *each = all[i];
        otr_session_destroy(&each);
    }
    otr_model_destroy(&elsewhere);
    close_all();
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("verified texts");
    TCase *tests = tcase_create("use");
    is_whole = argc > 1 && !strcmp(argv[1], "whole");
    is_slow_suite = is_whole || (argc > 1 && !strcmp(argv[1], "slow"));
    tcase_set_timeout(tests, 7200);
    TCase *texts = tcase_create("texts");
    tcase_set_timeout(texts, 7200);
    tcase_set_tags(texts, LONG_TESTS);
    tcase_add_loop_test(texts, texts_are_the_targets, 0, 2);
    suite_add_tcase(suite, texts);
    if (!is_slow_suite) {
        tcase_add_test(texts, the_drafts_text_is_told_apart);
        tcase_add_test(tests, greedy_and_coupled_texts_stay_the_same);
        tcase_add_test(tests, a_context_is_filled);
        tcase_add_test(tests, what_does_not_go_together_is_refused);
    }
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

/* Logits against golden data: float64 forward passes over the dequantised weights
 * (tests/data/README.md). Every golden row, through the prefill kernels and through the decode
 * kernels, for every model and every tensor format that kernels read; and greedy generation against
 * the golden continuation. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "models.h"
#include "needs_tier.h"

/* Bounds: of a logit in units of the row's rms, of logsumexp, of the rms itself, and the gap
 * between the two highest logits from which on the greedy choice must agree. */
#define LOGIT_TOLERANCE 0.01
#define LOGSUMEXP_TOLERANCE 0.02
#define RMS_TOLERANCE 0.005
#define SURE_GAP 0.05
/* Where activations are rounded to 8 bits (tier 2): five times the bounds, and this gap. */
#define DOT8_BOUNDS 5
/* The model of random weights is not within them: 0.099 of the rms was measured. */
#define DOT8_BOUNDS_RANDOM 11
#define DOT8_SURE_GAP 0.2

static double bounds = 1, sure_gap = SURE_GAP;

static const struct golden {
    const char *model, *logits;
} goldens[] = {
    {MODEL_TARGET, "golden/logits-outrider-demo-target.json"},
    {MODEL_DRAFT, "golden/logits-outrider-demo-draft.json"},
    {MODEL_STORIES, "golden/logits-stories260K-f32.json"},
    {"tests/data/formats/fix-Q8_0.gguf", "formats/logits-fix-Q8_0.json"},
    {"tests/data/formats/fix-Q4_0.gguf", "formats/logits-fix-Q4_0.json"},
    {"tests/data/formats/fix-mixed-Q4_K_M.gguf", "formats/logits-fix-mixed-Q4_K_M.json"},
    {"tests/data/formats/fix-Q3_K_M.gguf", "formats/logits-fix-Q3_K_M.json"},
    {"tests/data/formats/fix-IQ4_XS.gguf", "formats/logits-fix-IQ4_XS.json"},
    {MODEL_TARGET, "golden/logits-outrider-demo-target-long.json"},
    {MODEL_DRAFT, "golden/logits-outrider-demo-draft-long.json"},
    {MODEL_RANDOM_DRAFT, "golden/logits-random-draft.json"},
    {"tests/data/models/outrider-demo-target-f16.gguf",
     "golden/logits-outrider-demo-target-f16.json"},
    {"tests/data/formats/fix-F32.gguf", "formats/logits-fix-F32.json"},
    {"tests/data/formats/fix-F16.gguf", "formats/logits-fix-F16.json"},
    {"tests/data/formats/fix-BF16.gguf", "formats/logits-fix-BF16.json"},
    {"tests/data/formats/fix-Q4_1.gguf", "formats/logits-fix-Q4_1.json"},
    {"tests/data/formats/fix-Q4_K_M.gguf", "formats/logits-fix-Q4_K_M.json"},
    {"tests/data/formats/fix-Q6_K.gguf", "formats/logits-fix-Q6_K.json"},
    {"tests/data/formats/fix-Q5_0.gguf", "formats/logits-fix-Q5_0.json"},
    {"tests/data/formats/fix-Q5_1.gguf", "formats/logits-fix-Q5_1.json"},
    {"tests/data/formats/fix-Q2_K.gguf", "formats/logits-fix-Q2_K.json"},
    {"tests/data/formats/fix-Q5_K_M.gguf", "formats/logits-fix-Q5_K_M.json"},
    {"tests/data/formats/fix-IQ4_NL.gguf", "formats/logits-fix-IQ4_NL.json"},
    {"tests/data/formats/fix-MXFP4_MOE.gguf", "formats/logits-fix-MXFP4_MOE.json"},
};

typedef struct comparison {
    json_t *rows;
    const int32_t *ids;
    size_t n_prompt, n_ids;
    size_t n_rows;
    double worst_logit, worst_logsumexp, worst_rms;
} comparison;

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static bool compare_row(size_t row, const float *logits, uint32_t n_vocab, void *user)
{
    comparison *c = user;
    const json_t *golden = json_array_get(c->rows, row);
    const json_t *top_ids = json_object_get(golden, "top_ids");
    const json_t *top_logits = json_object_get(golden, "top_logits");
    double rms = number(golden, "rms"), highest = -INFINITY, sum = 0, squares = 0;
    uint32_t best = 0;

    ck_assert_ptr_nonnull(golden);
    ck_assert_uint_eq(row, c->n_rows++);
    for (uint32_t v = 0; v < n_vocab; v++) {
        ck_assert(isfinite(logits[v]));
        if ((double)logits[v] > highest) {
            highest = (double)logits[v];
            best = v;
        }
        squares += (double)logits[v] * (double)logits[v];
    }
    for (uint32_t v = 0; v < n_vocab; v++)
        sum += exp((double)logits[v] - highest);
    for (size_t i = 0; i < json_array_size(top_ids); i++) {
        uint32_t id = (uint32_t)json_integer_value(json_array_get(top_ids, i));
        double error = fabs((double)logits[id] - json_number_value(json_array_get(top_logits, i))) /
                       rms;
        c->worst_logit = fmax(c->worst_logit, error);
    }
    c->worst_logsumexp = fmax(c->worst_logsumexp,
                              fabs(highest + log(sum) - number(golden, "logsumexp")));
    c->worst_rms = fmax(c->worst_rms, fabs(sqrt(squares / n_vocab) / rms - 1));
    double gap = json_number_value(json_array_get(top_logits, 0)) -
                 json_number_value(json_array_get(top_logits, 1));
    if (gap > sure_gap) {
        ck_assert_uint_eq(best, (uint32_t)json_integer_value(json_array_get(top_ids, 0)));
        if (row + 1 >= c->n_prompt && row + 1 < c->n_ids)
            ck_assert_int_eq((int)best, c->ids[row + 1]);
    }
    return true;
}

static size_t read_ids(const json_t *array, int32_t *ids)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return json_array_size(array);
}

static void check_evaluation(otr_session *session, comparison *c, const otr_evaluate_params *params)
{
    c->n_rows = 0;
    c->worst_logit = c->worst_logsumexp = c->worst_rms = 0;
    ck_assert_int_eq(otr_session_evaluate(session, params, c->ids, c->n_ids, compare_row, c),
                     OTR_OK);
    printf("  %s, %2u rows: %zu rows, logits %.5f rms, logsumexp %.5f, rms %.5f\n",
           params->path == OTR_EVALUATE_PREFILL ? "prefill" : "decode ", params->rows, c->n_rows,
           c->worst_logit, c->worst_logsumexp, c->worst_rms);
    ck_assert_uint_eq(c->n_rows, json_array_size(c->rows));
    ck_assert_double_le(c->worst_logit, bounds * LOGIT_TOLERANCE);
    ck_assert_double_le(c->worst_logsumexp, bounds * LOGSUMEXP_TOLERANCE);
    ck_assert_double_le(c->worst_rms, bounds * RMS_TOLERANCE);
}

/* Greedy generation may leave the golden continuation only where the golden gap is small. */
static void check_greedy(otr_session *session, const comparison *c)
{
    otr_generate_params params = otr_generate_params_default();
    int32_t ids[512];
    params.sampling.temperature = 0;
    params.max_tokens = (int32_t)(c->n_ids - c->n_prompt);
    params.ignore_stop_tokens = true;
    params.draft_max = 0;
    size_t n = generate_ids(session, c->ids, c->n_prompt, &params, ids, 512, NULL);
    ck_assert_uint_eq(n, c->n_ids - c->n_prompt);
    for (size_t i = 0; i < n; i++) {
        const json_t *top = json_object_get(json_array_get(c->rows, c->n_prompt - 1 + i),
                                            "top_logits");
        double gap = json_number_value(json_array_get(top, 0)) -
                     json_number_value(json_array_get(top, 1));
        if (ids[i] != c->ids[c->n_prompt + i]) {
            ck_assert_double_le(gap, sure_gap);
            break;
        }
    }
}

START_TEST(golden)
{
    const struct golden *g = &goldens[_i];
    char path[256];
    json_error_t error;
    comparison c = {0};
    int32_t ids[1024];

    snprintf(path, sizeof path, "tests/data/%s", g->logits);
    json_t *data = json_load_file(source_path(path), 0, &error);
    ck_assert_msg(data != NULL, "%s: %s", path, error.text);
    ck_assert_uint_le(json_array_size(json_object_get(data, "rows")), 1024);
    if (bounds > 1)
        bounds = strcmp(g->model, MODEL_RANDOM_DRAFT) ? DOT8_BOUNDS : DOT8_BOUNDS_RANDOM;
    c.rows = json_object_get(data, "rows");
    c.n_prompt = read_ids(json_object_get(data, "prompt_ids"), ids);
    c.n_ids = c.n_prompt + read_ids(json_object_get(data, "greedy_ids"), ids + c.n_prompt);
    c.ids = ids;

    printf("%s, %s\n", g->model, g->logits);
    otr_context *context = open_context();
    otr_model *model = load_model(context, g->model);
    otr_session *session = open_session(model, NULL, (uint32_t)c.n_ids + 1);
    otr_evaluate_params params = otr_evaluate_params_default();
    check_evaluation(session, &c, &params);
    params.path = OTR_EVALUATE_ROWS;
    params.rows = 17;
    check_evaluation(session, &c, &params);
    check_greedy(session, &c);
    otr_session_destroy(&session);
    otr_model_destroy(&model);
    close_context(&context);
    json_decref(data);
}
END_TEST

/* Arguments: which of the table to test (see suite_part); and "dot8" for the bounds of tier 2. */
int main(int argc, char **argv)
{
    int first, end;

    suite_part(argv[1], (int)(sizeof goldens / sizeof goldens[0]), &first, &end);
    if (argc > 2 && !strcmp(argv[2], "dot8")) {
        bounds = DOT8_BOUNDS;
        sure_gap = DOT8_SURE_GAP;
    }
    if (!needs_tier_of_environment())
        return 77;
    Suite *suite = suite_create("golden logits");
    TCase *tests = tcase_create("golden logits");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, golden, first, end);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

/* Biases of Q, K, V and of attention's output through the whole transformer, as Qwen2 has them: a small
 * model, to which random ones are added, against the reference transformer, by every path; with Q, K
 * and V in one matrix, and with a V of its own format. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gguf/build_gguf.h"
#include "../suite.h"
#include "models.h"
#include "transformer_reference.h"

/* In units of a row's root mean square, as of golden logits; and what leaving a bias out must change. */
#define TOLERANCE 0.01
#define EFFECT (10 * TOLERANCE)

enum { N_IDS = 40 };

static const char *const biases[] = {"attn_q.bias", "attn_k.bias", "attn_v.bias",
                                     "attn_output.bias"};
static const uint64_t bias_sizes[] = {64, 32, 32, 64};
#define N_BIASES 4
#define N_LAYERS 5 /* of MODEL_STORIES */

/* ------------------------------------------------------------------------------- the model */

static void put_element(struct builder *b, const gguf_file *file, const gguf_key *key, uint64_t i)
{
    gguf_string text;
    uint64_t integer;
    int64_t number;
    double real;

    switch (key->element_type) {
    case GGUF_TYPE_STRING:
        ck_assert(gguf_element_string(file, key, i, &text));
        put_u64(b, text.length);
        put_bytes(b, text.data, text.length);
        break;
    case GGUF_TYPE_U32:
        ck_assert(gguf_element_u64(file, key, i, &integer));
        put_u32(b, (uint32_t)integer);
        break;
    case GGUF_TYPE_I32:
        ck_assert(gguf_element_i64(file, key, i, &number));
        put_u32(b, (uint32_t)number);
        break;
    case GGUF_TYPE_F32:
        ck_assert(gguf_element_f64(file, key, i, &real));
        put_f32(b, (float)real);
        break;
    default:
        ck_abort_msg("a key of type %s", gguf_type_name(key->element_type));
    }
}

static void copy_keys(struct builder *b, const gguf_file *file)
{
    for (uint64_t i = 0; i < gguf_n_keys(file); i++) {
        const gguf_key *key = gguf_key_at(file, i);
        char name[128];

        snprintf(name, sizeof name, "%.*s", (int)key->name.length, key->name.data);
        put_key(b, name, key->type);
        if (key->type == GGUF_TYPE_ARRAY) {
            put_u32(b, key->element_type);
            put_u64(b, key->count);
        }
        for (uint64_t e = 0; e < key->count; e++)
            put_element(b, file, key, e);
    }
}

static bool is_v(const char *name)
{
    return strstr(name, "attn_v.weight") != NULL;
}

static uint64_t aligned(uint64_t n)
{
    return (n + 31) / 32 * 32;
}

/* Bytes of a tensor as it is written: F32, or the upper halves of it. */
static uint64_t stored_bytes(const gguf_tensor *tensor, bool v_is_bf16)
{
    return tensor->n_elements * (v_is_bf16 && is_v(tensor->name) ? 2 : 4);
}

static void put_table(struct builder *b, const gguf_file *file, bool v_is_bf16)
{
    uint64_t offset = 0;

    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        const uint64_t dims[4] = {tensor->dims[0], tensor->n_dims > 1 ? tensor->dims[1] : 0};

        put_tensor(b, tensor->name, dims,
                   v_is_bf16 && is_v(tensor->name) ? FORMAT_BF16 : FORMAT_F32, offset);
        offset += aligned(stored_bytes(tensor, v_is_bf16));
    }
    for (int i = 0; i < N_LAYERS * N_BIASES; i++) {
        char name[64];

        snprintf(name, sizeof name, "blk.%d.%s", i / N_BIASES, biases[i % N_BIASES]);
        put_tensor(b, name, (const uint64_t[4]){bias_sizes[i % N_BIASES]}, FORMAT_F32, offset);
        offset += aligned(4 * bias_sizes[i % N_BIASES]);
    }
    put_padding(b, 32);
}

static void put_values(struct builder *b, const gguf_file *file, bool v_is_bf16, uint64_t *random)
{
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        uint8_t *data = malloc(tensor->size_bytes);
        gguf_error error;

        ck_assert_int_eq(tensor->format, FORMAT_F32);
        ck_assert(data && gguf_tensor_read(file, tensor, 0, data, tensor->size_bytes, &error));
        if (v_is_bf16 && is_v(tensor->name))
            for (uint64_t e = 0; e < tensor->n_elements; e++)
                memmove(data + 2 * e, data + 4 * e + 2, 2);
        put_bytes(b, data, stored_bytes(tensor, v_is_bf16));
        put_padding(b, 32);
        free(data);
    }
    for (int i = 0; i < N_LAYERS * N_BIASES; i++) {
        for (uint64_t e = 0; e < bias_sizes[i % N_BIASES]; e++)
            put_f32(b, (float)(next_random(random) % 2001) / 1000 - 1);
        put_padding(b, 32);
    }
}

/* Path of a model with biases, in the scratch folder. */
static const char *make_model(bool v_is_bf16)
{
    struct builder b = {0};
    gguf_file *file;
    gguf_error error;
    uint64_t random = 7;

    ck_assert_msg(gguf_open(source_path(MODEL_STORIES), &file, &error), "%s", error.text);
    begin_file(&b, 3, gguf_n_tensors(file) + N_LAYERS * N_BIASES, gguf_n_keys(file));
    copy_keys(&b, file);
    put_table(&b, file, v_is_bf16);
    put_values(&b, file, v_is_bf16, &random);
    gguf_close(&file);
    const char *path = scratch_write(&b, "biases.gguf");
    free_builder(&b);
    return path;
}

/* --------------------------------------------------------------------------------- the test */

typedef struct comparison {
    const double *expected; /* [N_IDS][n_vocab] */
    size_t n_rows;
    double worst;
} comparison;

static double rms_of(const double *row, uint32_t n)
{
    double squares = 0;

    for (uint32_t v = 0; v < n; v++)
        squares += row[v] * row[v];
    return sqrt(squares / n);
}

static bool compare_row(size_t row, const float *logits, uint32_t n_vocab, void *user)
{
    comparison *c = user;
    const double *want = c->expected + row * n_vocab;
    double rms = rms_of(want, n_vocab);

    for (uint32_t v = 0; v < n_vocab; v++) {
        ck_assert(isfinite(logits[v]));
        c->worst = fmax(c->worst, fabs((double)logits[v] - want[v]) / rms);
    }
    c->n_rows++;
    return true;
}

/* The test could not see a bias that changes little. */
static void check_effects(const gguf_file *file, const int32_t *ids, const double *expected,
                          uint32_t n_vocab)
{
    for (int i = 0; i < N_BIASES; i++) {
        double *other = reference_logits(file, ids, N_IDS, biases[i]), worst = 0;

        for (uint32_t n = 0; n < N_IDS * n_vocab; n++)
            worst = fmax(worst, fabs(other[n] - expected[n]) /
                                    rms_of(expected + n / n_vocab * n_vocab, n_vocab));
        printf("  without %s: %.2f rms away\n", biases[i], worst);
        ck_assert_double_gt(worst, EFFECT);
        free(other);
    }
}

START_TEST(biases_are_added)
{
    const uint32_t rows[] = {0, 1, 5, 17}; /* 0: prefill */
    const char *path = make_model(_i);
    otr_context *context = open_context();
    otr_model_params model_params = otr_model_params_default();
    otr_model *model = NULL;
    int32_t ids[N_IDS];
    uint64_t random = 3;
    gguf_file *file;
    gguf_error error;

    for (int i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)(next_random(&random) % 512);
    ck_assert_msg(gguf_open(path, &file, &error), "%s", error.text);
    double *expected = reference_logits(file, ids, N_IDS, NULL);
    check_effects(file, ids, expected, 512);
    gguf_close(&file);

    model_params.path = path;
    ck_assert_int_eq(otr_model_load(context, &model_params, &model), OTR_OK);
    otr_session *session = open_session(model, NULL, N_IDS + 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        otr_evaluate_params params = otr_evaluate_params_default();
        comparison c = {.expected = expected};

        params.path = rows[i] ? OTR_EVALUATE_ROWS : OTR_EVALUATE_PREFILL;
        params.rows = rows[i];
        ck_assert_int_eq(otr_session_evaluate(session, &params, ids, N_IDS, compare_row, &c),
                         OTR_OK);
        printf("  %u rows: %.5f rms away\n", rows[i], c.worst);
        ck_assert_uint_eq(c.n_rows, N_IDS);
        ck_assert_double_le(c.worst, TOLERANCE);
    }
    otr_session_destroy(&session);
    otr_model_destroy(&model);
    close_context(&context);
    free(expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("biases");
    TCase *tcase = tcase_create("biases");

    tcase_add_unchecked_fixture(tcase, scratch_create, scratch_remove);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, biases_are_added, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

/* The kernels of a layer and of a step against their references over odd shapes: head sizes,
 * groups, positions around the ends of attention's pages, row counts, weights' shapes of work. The
 * checks are those of the self-test (runtime/selftest*.c): outputs are poisoned before, rows must
 * keep their bits whatever the rows of the pass and wherever it began. And the budget of loop
 * iterations. */
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "harness.h"
#include "loop_budget.h"
#include "models.h"
#include "selftest.h"

static harness h;
static selftest t;
static uint32_t n_reports;

static bool on_result(const otr_selftest_result *result, void *user)
{
    n_reports++;
    ck_assert_msg(result->passed && !result->skipped, "%s: %s", result->kernel, result->detail);
    return true;
}

static void open_device(void)
{
    n_reports = 0;
    harness_open(&h);
    ck_assert_int_eq(selftest_open(&t, h.context, h.gpu->index, on_result, NULL), OTR_OK);
}

static void close_device(void)
{
    ck_assert_int_eq(selftest_close(&t), OTR_OK);
    ck_assert_uint_gt(n_reports, 0);
    harness_close(&h);
}

/* Query heads, key-value heads, head size, rotated part of it. */
static const head_shape shapes[] = {
    {1, 1, 8, 8, OTR_CACHE_F16},       {2, 2, 64, 64, OTR_CACHE_F16},
    {4, 2, 8, 4, OTR_CACHE_F16},       {8, 2, 80, 80, OTR_CACHE_F16},
    {8, 1, 64, 2, OTR_CACHE_F16},      {6, 3, 10, 6, OTR_CACHE_F16},
    {16, 4, 128, 96, OTR_CACHE_F16},   {14, 2, 32, 32, OTR_CACHE_F16},
    {24, 2, 16, 16, OTR_CACHE_F16},    {2, 1, 32, 32, OTR_CACHE_Q8_0},
    {9, 3, 64, 64, OTR_CACHE_Q8_0},    {3, 1, 96, 50, OTR_CACHE_Q8_0},
    {16, 2, 128, 128, OTR_CACHE_Q8_0},
};
static const uint32_t positions[] = {0, 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 511};
#define N_OF(array) (sizeof(array) / sizeof(array)[0])

START_TEST(attention_at_page_ends)
{
    open_device();
    for (size_t p = 0; p < N_OF(positions); p++) {
        if (harness_is_slow(&h) && p % 4 != 1) /* 1, 63, 256 */
            continue;
        check_attention(&t, &shapes[_i], positions[p], 1 + (uint32_t)p * 7 % 5);
        if (positions[p] > 0) /* the last row at the position */
            check_attention(&t, &shapes[_i], positions[p] - 1, 2);
    }
    close_device();
}
END_TEST

START_TEST(attention_of_all_row_counts)
{
    open_device();
    for (uint32_t rows = 1; rows <= 17; rows++)
        check_attention(&t, &shapes[2], 25, rows);
    check_attention(&t, &shapes[2], 0, 70); /* as in a prefill */
    /* Several parts of a prefill. */
    check_attention(&t, &shapes[2], 2 * 4096 - 3, 5);
    check_attention(&t, &shapes[9], 4096 - 3, 5);
    close_device();
}
END_TEST

START_TEST(rope_and_cache_write)
{
    open_device();
    for (size_t p = 0; p < N_OF(positions); p += harness_is_slow(&h) ? 4 : 1)
        check_rope(&t, &shapes[_i], positions[p], 1 + (uint32_t)p * 7 % 17);
    close_device();
}
END_TEST

START_TEST(rope_of_all_row_counts)
{
    open_device();
    for (uint32_t rows = 1; rows <= 17; rows++)
        check_rope(&t, &shapes[2], rows, rows);
    close_device();
}
END_TEST

static const uint32_t widths[] = {2, 8, 31, 32, 33, 64, 127, 172, 288, 576, 1024, 1541};

START_TEST(norm_and_swiglu)
{
    open_device();
    for (uint32_t rows = 1; rows <= 17; rows += _i % 2 ? 1 : 4) {
        check_rmsnorm(&t, widths[_i], rows, 0);
        check_rmsnorm(&t, widths[_i], rows, 3);
        check_swiglu(&t, widths[_i], rows);
    }
    close_device();
}
END_TEST

/* Several workgroups in y of matrix times vector; residual, bias, and rows that get logits. */
START_TEST(linear_in_other_shapes)
{
    static const enum tensor_format formats[] = {FORMAT_F32,  FORMAT_BF16, FORMAT_Q8_0,
                                                 FORMAT_Q4_1, FORMAT_Q4_K, FORMAT_Q6_K};
    linear_shape shape = {.format = formats[_i], .matvec_rows = 5};

    open_device();
    check_linear(&t, &shape);
    shape.flags = 1; /* residual */
    check_linear(&t, &shape);
    shape.flags = 6; /* bias, output rows */
    check_linear(&t, &shape);
    close_device();
}
END_TEST

START_TEST(steps)
{
    open_device();
    for (int i = 0; i < 3; i++) /* other random numbers each time */
        selftest_step(&t);
    close_device();
}
END_TEST

/* ------------------------------------------------------------------------- the loop budget */

/* Weights of a row that all kernels take, on software devices too: matmul is near the budget then.
 */
#define LONG_ROW 40960

/* The largest shapes that are let through are within the budget, and a little more would not be. */
START_TEST(formulas_keep_the_budget)
{
    const tuning *gpu_class = tuning_of("gpu");
    /* Of matmul_cooperative on lavapipe. */
    const cooperative_sizes sizes = {.constants = {32, 32, 32, 32, 8, 8, 8}};

    open_device();
    for (uint32_t head_size = 2; head_size <= ARCH_MAX_HEAD_SIZE; head_size += 2) {
        const attention_shape shape = {8, 1, head_size, OTR_CACHE_F16};
        for (int i = 0; i < 6; i++) {
            const attention_plan plan = attention_make_plan(tuning_of(i / 3 ? "gpu" : "software"),
                                                            4, &shape, (attention_use)(i % 3), 1,
                                                            1 << 17, 0, 1);
            ck_assert_uint_le(loops_of_attention(&plan, 1 << 17), LOOP_BUDGET);
        }
    }
    ck_assert_uint_le(loops_of_sample(&t.tuning, 262144), LOOP_BUDGET);
    ck_assert_uint_le(loops_of_rmsnorm(&t.tuning, 1 << 17), LOOP_BUDGET);
    for (uint32_t chunk = 4; chunk <= 16; chunk += 12) {
        for (uint32_t lanes = 4; lanes <= 128; lanes *= 2)
            ck_assert_uint_le(loops_of_matvec(65536 / chunk, lanes), LOOP_BUDGET);
        ck_assert_uint_le(loops_of_direct(65536 / chunk, chunk), LOOP_BUDGET);
        ck_assert_uint_le(loops_of_matmul(gpu_class, LONG_ROW / chunk, chunk), LOOP_BUDGET);
        ck_assert_uint_gt(loops_of_matmul(gpu_class, 65536 / chunk, chunk), LOOP_BUDGET);
        ck_assert_uint_le(loops_of_cooperative(&sizes, LONG_ROW / chunk, chunk), LOOP_BUDGET);
        ck_assert_uint_gt(loops_of_cooperative(&sizes, (1 << 17) / chunk, chunk), LOOP_BUDGET);
    }
    ck_assert_uint_gt(loops_of_matvec(1 << 18, 8), LOOP_BUDGET);
    ck_assert_uint_gt(loops_of_direct(1 << 16, 4), LOOP_BUDGET);
    n_reports = 1;
    close_device();
}
END_TEST

/* A driver that ends loops early gives wrong results at these sizes when a formula says too little.
 */
START_TEST(attention_at_the_budget)
{
    static const uint32_t head_sizes[] = {64, 128, 256, 512};
    const head_shape shape = {1, 1, head_sizes[_i], 2, OTR_CACHE_F16};

    open_device();
    check_attention(&t, &shape, 3 * 4096 - 1, 1);
    close_device();
}
END_TEST

START_TEST(long_rows)
{
    static const enum tensor_format formats[] = {FORMAT_F32, FORMAT_Q8_0, FORMAT_Q4_K, FORMAT_Q6_K};
    const linear_shape shape = {.format = formats[_i], .k = LONG_ROW};

    open_device();
    check_linear(&t, &shape);
    check_rmsnorm(&t, 65536, 2, 0);
    close_device();
}
END_TEST

START_TEST(too_long_a_context_is_refused)
{
    otr_session_params params = otr_session_params_default();
    otr_session *session = NULL;
    otr_model *model;
    char message[512];

    open_device();
    n_reports = 1;
    if (t.gpu->is_cpu) {
        model = load_model(h.context, MODEL_TARGET);
        params.n_ctx = OTR_MAX_CONTEXT;
        ck_assert_int_eq(otr_session_create(model, NULL, &params, &session), OTR_ERROR_UNSUPPORTED);
        ck_assert_ptr_null(session);
        otr_error_message(h.context, message, sizeof message);
        ck_assert_ptr_nonnull(strstr(message, "use a smaller context"));
        params.n_ctx = 40000;
        ck_assert_int_eq(otr_session_create(model, NULL, &params, &session), OTR_OK);
        otr_session_destroy(&session);
        otr_model_destroy(&model);
    }
    close_device();
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("kernels");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, attention_at_page_ends, 0, N_OF(shapes));
    tcase_add_test(tcase, attention_of_all_row_counts);
    tcase_add_loop_test(tcase, rope_and_cache_write, 0, N_OF(shapes));
    tcase_add_test(tcase, rope_of_all_row_counts);
    tcase_add_loop_test(tcase, norm_and_swiglu, 0, N_OF(widths));
    tcase_add_loop_test(tcase, linear_in_other_shapes, 0, 6);
    tcase_add_test(tcase, steps);
    TCase *budget = tcase_create("budget");
    tcase_set_timeout(budget, 300);
    tcase_add_test(budget, formulas_keep_the_budget);
    tcase_add_loop_test(budget, attention_at_the_budget, 0, 4);
    tcase_add_loop_test(budget, long_rows, 0, 4);
    tcase_add_test(budget, too_long_a_context_is_refused);
    /* The budget is lavapipe's: the tests of it run there only, by argument. */
    suite_add_tcase(suite, argc > 1 && !strcmp(argv[1], "budget") ? budget : tcase);
    return suite_run(suite);
}

/* otr_selftest: passes on a sound device, without a word of the validation layers, and fails where
 * it should: damage to one input or result of a check makes that check fail and no other. Argument
 * "whole": the tests that run all of it; "dot8": only damage to kernels of tier 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "harness.h"
#include "selftest.h"
#include "step_state.h"

typedef struct seen {
    uint32_t n, n_failed;
    uint32_t n_wanted; /* end the self-test after so many checks; 0: never */
    char failed[128], detail[256];
    bool tiers[2]; /* of matvec */
} seen;

static bool on_result(const otr_selftest_result *result, void *user)
{
    seen *s = user;

    s->n++;
    ck_assert(!result->skipped);
    ck_assert_int_eq(result->passed, result->max_error <= 1);
    if (strstr(result->kernel, "matvec"))
        for (int tier = 0; tier < 2; tier++)
            s->tiers[tier] = s->tiers[tier] || strstr(result->detail, tier ? "tier 1" : "tier 0");
    if (!result->passed) {
        s->n_failed++;
        snprintf(s->failed, sizeof s->failed, "%s", result->kernel);
        snprintf(s->detail, sizeof s->detail, "%s", result->detail);
    }
    return s->n != s->n_wanted;
}

START_TEST(a_sound_device_passes)
{
    harness h;
    seen s = {0};

    harness_open(&h);
    otr_result result = otr_selftest(h.context, h.gpu->index, on_result, &s);
    ck_assert_msg(result == OTR_OK, "%s: %s", s.failed, s.detail);
    ck_assert_uint_eq(s.n_failed, 0);
    ck_assert_uint_gt(s.n, 100);
    ck_assert(s.tiers[0]);
    ck_assert_int_eq(s.tiers[1], h.gpu->tier >= 1);
    harness_close(&h); /* checks that validation was silent */
}
END_TEST

START_TEST(the_callback_ends_it)
{
    harness h;
    seen s = {.n_wanted = 3};

    harness_open(&h);
    ck_assert_int_eq(otr_selftest(h.context, h.gpu->index, on_result, &s), OTR_ERROR_CANCELLED);
    ck_assert_uint_eq(s.n, 3);
    harness_close(&h);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
    harness h;

    harness_open(&h);
    ck_assert_int_eq(otr_selftest(NULL, 0, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(otr_selftest(h.context, 99, NULL, NULL), OTR_ERROR_NO_DEVICE);
    harness_close(&h);
}
END_TEST

/* Byte 3 of a float holds its sign and most of its exponent: one flipped bit there is a wrong
 * number. Weights: one quant, one scale. Results: one bit of one whole number. */
static const selftest_fault faults[] = {
    {"matvec Q8_0 tier=0 rows=3", 0, 777, 0x40, true},  /* a quant */
    {"matvec Q4_K tier=0 rows=17", 0, 100, 0x08, true}, /* a quant */
    {"matvec F32 tier=0 rows=8", 2, 4 * 60 + 3, 0x80, false},
    {"matvec BF16 tier=0 rows=1", 2, 3, 0x01, false}, /* before the outputs: must stay untouched */
    {"matmul Q6_K rows=8", 0, 12345, 0x04, true},
    {"matmul_cooperative Q6_K rows=8", 0, 12345, 0x04, true}, /* of tier 3 only */
    {"matvec_dot Q8_0 rows=3", 1, 5, 0x40, true},             /* of tier 2 only: an activation */
    {"embed Q4_0", 0, 5, 0x10, true},
    {"embed Q4_1", 2, 4 * 2304 * 3, 0x01, false}, /* a row of another part */
    {"rmsnorm n=1000 rows=17", 2, 4 * 3001 + 2, 0x40, false},
    {"swiglu n=172 rows=17", 0, 4 * 200 + 3, 0x80, true},
    {"rope head=48 of 64 heads=8/2 base=61 rows=17", 1, 2 * 128 * 70 + 1, 0x80, false},
    {"attention head=64 heads=8/2 base=61 rows=17", 2, 2 * 128 * 20 + 1, 0x80, true},
    {"begin draft", 0, 4 * 129, 0x01, false},
    {"propose", 1, 4 * 1, 0x01, false},
    {"accept block", 2, 4 * 8, 0x01, false},
    {"residual rejection", 3, 4 * X_RESIDUALS, 0x01, false},
    {"residual block", 3, 4 * X_RESIDUALS, 0x01, false},
    {"decide block", 0, 4 * (LANE_RESULTS + R_TOKEN), 0x01, false},
    {"sample greedy", 1, 4 * 64, 0x01, false},
    {"sample with noise", 1, 4 * 89 + 2, 0x10, false}, /* a probability */
};

static void run_with_fault(harness *h, const selftest_fault *fault, seen *s)
{
    selftest *t = malloc(sizeof *t);
    static void (*const groups[])(selftest *) = {selftest_layer, selftest_step, selftest_rule};

    ck_assert_ptr_nonnull(t);
    *s = (seen){0};
    if (!strncmp(fault->kernel, "mat", 3) || !strncmp(fault->kernel, "embed", 5)) {
        /* All weight formats take long: only the fault's own. */
        for (uint32_t id = 0; id < 64; id++) {
            const format_info *format = format_find(id);
            char name[32];

            snprintf(name, sizeof name, " %s", format ? format->name : "?");
            const char *at = strstr(fault->kernel, name);
            if (!at || (at[strlen(name)] != ' ' && at[strlen(name)] != '\0'))
                continue;
            ck_assert_int_eq(selftest_open(t, h->context, h->gpu->index, on_result, s), OTR_OK);
            t->fault = fault;
            check_linear(t, &(linear_shape){.format = format->id});
            ck_assert_int_eq(selftest_close(t), OTR_ERROR_SELFTEST);
        }
    } else {
        ck_assert_int_eq(selftest_open(t, h->context, h->gpu->index, on_result, s), OTR_OK);
        t->fault = fault;
        for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
            groups[i](t);
        ck_assert_int_eq(selftest_close(t), OTR_ERROR_SELFTEST);
    }
    free(t);
}

START_TEST(damage_makes_its_check_fail)
{
    harness h;
    seen s;

    harness_open(&h);
    if (strstr(faults[_i].kernel, "_dot") && !h.gpu->uses_dot8) {
        printf("SKIP: damage to %s: the device doesn't use tier 2\n", faults[_i].kernel);
        harness_close(&h);
        return;
    }
    if (strstr(faults[_i].kernel, "cooperative") && h.gpu->tier < 3) {
        printf("SKIP: damage to %s: the device is of tier %d\n", faults[_i].kernel,
               (int)h.gpu->tier);
        harness_close(&h);
        return;
    }
    run_with_fault(&h, &faults[_i], &s);
    ck_assert_str_eq(s.failed, faults[_i].kernel);
    ck_assert_uint_gt(strlen(s.detail), 8);
    ck_assert_ptr_nonnull(strstr(s.detail, "run 3")); /* the fault is in the last run only */
    ck_assert_uint_eq(s.n_failed, 1);
    harness_close(&h);
}
END_TEST

START_TEST(the_public_call_reports_a_failure)
{
    const selftest_fault fault = {"rmsnorm n=64 rows=3", 2, 3, 0x80, false};
    /* All but the formats of weights, which take long. */
    const selftest_plan plan = {selftest_groups + 1, N_SELFTEST_GROUPS - 1, &fault};
    char message[256];
    harness h;
    seen s = {0};

    setenv("OUTRIDER_CACHE_DIR", "", 1); /* it must not be kept for other tests */
    harness_open(&h);
    ck_assert_int_eq(selftest_run(h.context, h.gpu->index, on_result, &s, &plan),
                     OTR_ERROR_SELFTEST);
    ck_assert_uint_eq(s.n_failed, 1u + (h.gpu->tier >= 1)); /* at each tier */
    ck_assert_str_eq(s.failed, fault.kernel);
    otr_error_message(h.context, message, sizeof message);
    ck_assert_ptr_nonnull(strstr(message, "1 self-test check"));
    harness_close(&h);
}
END_TEST

int main(int argc, char **argv)
{
    bool whole = argc > 1 && !strcmp(argv[1], "whole"), dot8 = argc > 1 && !strcmp(argv[1], "dot8");
    Suite *suite = suite_create("selftest");
    TCase *tcase = tcase_create("selftest");

    tcase_set_timeout(tcase, 300);
    for (int i = 0; i < (int)(sizeof faults / sizeof faults[0]); i++)
        if (!whole && (!dot8 || strstr(faults[i].kernel, "_dot")))
            tcase_add_loop_test(tcase, damage_makes_its_check_fail, i, i + 1);
    if (!whole && !dot8) {
        tcase_add_test(tcase, the_callback_ends_it);
        tcase_add_test(tcase, bad_arguments_are_refused);
    }
    if (whole) {
        tcase_add_test(tcase, a_sound_device_passes);
        tcase_add_test(tcase, the_public_call_reports_a_failure);
    }
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

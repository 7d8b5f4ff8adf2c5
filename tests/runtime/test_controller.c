/* Each rule of the controller by itself: times, calibration, choice of K, early stop, budget, off and
 * on, schedules, drafters. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "controller.h"

static controller make(double cost_prior)
{
    controller_params params = controller_params_default();
    controller c;
    params.cost_prior = cost_prior;
    controller_init(&c, &params);
    return c;
}

static const controller_context plenty = {.max_draft = 1000};

static controller_decision decide(controller *c, controller_context x)
{
    controller_decision d;
    controller_decide(c, &x, &d);
    return d;
}

/* A block with plain time 1, v(n) = 1 + slope (n - 1) and draft steps of c. */
static void record(controller *c, const controller_decision *d, uint32_t accepted, double slope,
                   double cost_ratio)
{
    controller_outcome o = {.drafted = d->n_draft, .accepted = accepted};
    o.verify_ms = 1 + slope * d->n_draft;
    o.draft_ms = d->drafter == DRAFTER_MODEL ? d->n_draft * cost_ratio : 0;
    o.catch_up_ms = d->catch_up_rows * 0.1 * cost_ratio;
    o.total_ms = o.verify_ms + o.draft_ms + o.catch_up_ms;
    controller_record(c, d, &o);
}

/* Blocks in which every `period`-th token is a miss; 0: none, 1: all. */
static controller_decision run_blocks(controller *c, int n, uint32_t period, double slope,
                                      double cost_ratio)
{
    controller_decision d = {0};
    uint32_t at = 0;
    for (int i = 0; i < n; i++) {
        uint32_t accepted = 0;
        d = decide(c, plenty);
        while (accepted < d.n_draft && (!period || ++at % period))
            accepted++;
        record(c, &d, accepted, slope, cost_ratio);
    }
    return d;
}

START_TEST(row_counts_never_measured_lie_between_neighbours)
{
    controller c = make(0.1);
    controller_record_pass(&c, 1, 10);
    controller_record_pass(&c, 5, 14);
    controller_record_pass(&c, 9, 30);
    ck_assert_double_eq_tol(controller_target_ms(&c, 3), 12, 1e-9);
    ck_assert_double_eq_tol(controller_target_ms(&c, 7), 22, 1e-9);
    ck_assert_double_eq_tol(controller_target_ms(&c, 17), 50, 1e-9); /* the slope so far */
    for (uint32_t n = 2; n <= CONTROLLER_MAX_ROWS; n++)
        ck_assert(controller_target_ms(&c, n) >= controller_target_ms(&c, n - 1));
    ck_assert_double_eq(controller_target_ms(&c, 0), 0);
    ck_assert_double_eq(controller_target_ms(&c, 18), 0);
}
END_TEST

START_TEST(times_are_followed)
{
    controller c = make(0.1);
    for (int i = 0; i < 20; i++) {
        controller_record_pass(&c, 1, 10);
        controller_record_pass(&c, 4, 20);
    }
    /* Twice as slow: known of one row count, and the other follows. */
    for (int i = 0; i < 300; i++)
        controller_record_pass(&c, 1, 20);
    ck_assert_double_eq_tol(controller_target_ms(&c, 1), 20, 0.1);
    ck_assert_double_gt(controller_target_ms(&c, 4), 23);
    controller_record_pass(&c, 1, 20 * 1000); /* one hiccup */
    ck_assert_double_lt(controller_target_ms(&c, 1), 24);
    controller_record_pass(&c, 1, NAN);
    controller_record_pass(&c, 1, -3);
    ck_assert(isfinite(controller_target_ms(&c, 1)));
    ck_assert_double_eq_tol(controller_draft_ms(&c), 0.1 * controller_target_ms(&c, 1), 1e-9);
    controller_record_draft_step(&c, 3);
    ck_assert_double_eq_tol(controller_draft_ms(&c), 3, 1e-9);
}
END_TEST

START_TEST(bands_are_calibrated)
{
    calibration k = {0};
    for (int i = 0; i < 2000; i++) {
        calibration_add(&k, 0, calibration_band(0.99f), i % 20 != 0);
        calibration_add(&k, 1, calibration_band(0.2f), i % 10 == 0);
    }
    ck_assert_double_eq_tol(calibration_of_band(&k, calibration_band(0.99f)), 0.95, 0.06);
    ck_assert_double_eq_tol(calibration_of_band(&k, calibration_band(0.2f)), 0.1, 0.08);
    ck_assert_double_gt(calibration_at(&k, 0), 0.7);
    ck_assert_double_lt(calibration_at(&k, 1), 0.4);
    ck_assert_double_gt(calibration_information(&k), 0.4);
    ck_assert_double_gt(calibration_upper_mean(&k), 0.85);
    /* A band without data has the mean of all. */
    ck_assert_double_eq_tol(calibration_of_band(&k, 4), calibration_mean(&k), 1e-9);
    ck_assert_uint_eq(calibration_band(0), 0);
    ck_assert_uint_eq(calibration_band(1), CALIBRATION_BANDS - 1);
    ck_assert_uint_eq(calibration_band(NAN), 0);
    ck_assert_uint_eq(calibration_match_band(2), 0);
    ck_assert_uint_eq(calibration_match_band(32), CALIBRATION_BANDS - 1);
}
END_TEST

START_TEST(a_change_is_noticed)
{
    calibration k = {0};
    int changes = 0, needed = 0;
    for (int i = 0; i < 500; i++)
        changes += calibration_add(&k, 0, 3, i % 5 != 0);
    ck_assert_int_eq(changes, 0);
    ck_assert_double_eq_tol(calibration_mean(&k), 0.8, 0.03);
    while (!calibration_add(&k, 0, 3, false))
        needed++;
    ck_assert_int_lt(needed, 20);
    ck_assert_double_lt(calibration_mean(&k), 0.65);
}
END_TEST

START_TEST(starts_plain_and_probes_short)
{
    controller c = make(0.05);
    controller_decision d = decide(&c, plenty);
    ck_assert_int_eq(d.reason, REASON_PLAIN_TIME);
    ck_assert_uint_eq(d.n_draft, 0);
    record(&c, &d, 0, 0, 0.05);
    d = decide(&c, plenty);
    ck_assert_int_eq(d.reason, REASON_PROBE);
    ck_assert_uint_ge(d.n_draft, 1);
    ck_assert_uint_le(d.n_draft, 2);
}
END_TEST

START_TEST(all_draft_lengths_are_weighed)
{
    /* v(n) has a step after 8 rows that a search from K to K + 1 would stop at. */
    controller c = make(0.01);
    for (int i = 0; i < 10; i++)
        for (uint32_t n = 1; n <= CONTROLLER_MAX_ROWS; n++)
            controller_record_pass(&c, n, n <= 2 ? 1 : 1.5);
    controller_decision d = run_blocks(&c, 200, 0, 0, 0.01);
    ck_assert_int_eq(d.drafter, DRAFTER_MODEL);
    ck_assert_uint_eq(d.n_draft, 16);
    /* Half of it right: a short one. */
    c = make(0.1);
    d = run_blocks(&c, 300, 2, 0.05, 0.1);
    ck_assert_int_eq(d.drafter, DRAFTER_MODEL);
    ck_assert_uint_le(d.n_draft, 3);
}
END_TEST

START_TEST(room_is_respected)
{
    controller c = make(0.01);
    controller_decision d = run_blocks(&c, 100, 0, 0, 0.01);
    ck_assert_uint_eq(d.n_draft, 16);
    ck_assert_uint_eq(decide(&c, (controller_context){.max_draft = 3}).n_draft, 3);
    d = decide(&c, (controller_context){.max_draft = 0});
    ck_assert_int_eq(d.drafter, DRAFTER_NONE);
    ck_assert_int_eq(d.reason, REASON_NO_ROOM);
    c.params.max_draft = 5;
    ck_assert_uint_eq(decide(&c, plenty).n_draft, 5);
    c.params.drafters[DRAFTER_MODEL] = false;
    ck_assert_int_eq(decide(&c, plenty).reason, REASON_NO_DRAFTER);
}
END_TEST

START_TEST(turns_off_and_probes_more_rarely)
{
    controller c = make(0.2);
    uint32_t last = 0, gaps[400], n_gaps = 0, accepted = 0;
    for (uint32_t i = 0; i < 3000 && n_gaps < 400; i++) {
        controller_decision d = decide(&c, plenty);
        record(&c, &d, accepted, 0.1, 0.2);
        if (d.drafter == DRAFTER_NONE)
            continue;
        ck_assert_uint_le(d.n_draft, 2);
        gaps[n_gaps++] = i - last;
        last = i;
    }
    ck_assert_uint_gt(n_gaps, 5);
    ck_assert_uint_lt(n_gaps, 200);
    ck_assert_uint_gt(gaps[n_gaps - 1], 3 * gaps[1]);
    ck_assert_double_le(c.loss_ms, 0.02 * 3000 + 1.5);
    ck_assert_double_gt(c.loss_ms, 0);
    ck_assert_uint_gt(c.n_reasons[REASON_NO_GAIN], 2000);
}
END_TEST

START_TEST(comes_back_when_the_text_changes)
{
    controller c = make(0.1);
    run_blocks(&c, 500, 1, 0.02, 0.1);
    ck_assert(!c.drafters[DRAFTER_MODEL].on);
    int n = 0;
    while (!c.drafters[DRAFTER_MODEL].on && n < 500) {
        run_blocks(&c, 1, 0, 0.02, 0.1);
        n++;
    }
    ck_assert_int_lt(n, 100);
    /* The caller's hint shortens the wait. */
    c = make(0.1);
    run_blocks(&c, 500, 1, 0.02, 0.1);
    run_blocks(&c, 3, 1, 0.02, 0.1);
    c.loss_ms = 0; /* not for want of a budget */
    c.drafters[DRAFTER_MODEL].waited = 1;
    ck_assert_int_eq(decide(&c, plenty).drafter, DRAFTER_NONE);
    ck_assert_int_eq(
        decide(&c, (controller_context){.max_draft = 16, .new_character = true}).reason,
        REASON_PROBE);
}
END_TEST

START_TEST(the_budget_ends_it)
{
    controller c = make(0.1);
    run_blocks(&c, 100, 0, 0, 0.1);
    ck_assert(c.drafters[DRAFTER_MODEL].on);
    c.loss_ms = c.run_ms; /* as if all had been lost */
    controller_decision d = decide(&c, plenty);
    ck_assert_int_eq(d.reason, REASON_BUDGET);
    ck_assert_int_eq(d.drafter, DRAFTER_NONE);
}
END_TEST

START_TEST(a_draft_that_can_not_pay_is_never_started)
{
    controller c = make(1); /* as big as the target */
    for (int i = 0; i < 1000; i++) {
        controller_decision d = decide(&c, plenty);
        ck_assert_int_eq(d.drafter, DRAFTER_NONE);
        record(&c, &d, 0, 0, 1);
    }
    ck_assert_double_eq(c.loss_ms, 0);
}
END_TEST

START_TEST(a_prefill_waits_for_its_budget)
{
    controller c = make(0.1);
    controller_context x = {.max_draft = 16, .draft_lag = 1000};
    controller_decision d;
    uint32_t n = 0;

    controller_record_prefill(&c, 1000, 100); /* the draft's: 10 ms by the prior */
    d = decide(&c, x);
    record(&c, &d, 0, 0, 0.1);
    for (d = decide(&c, x); d.drafter == DRAFTER_NONE && n < 2000; d = decide(&c, x), n++) {
        record(&c, &d, 0, 0, 0.1);
        x.draft_lag++;
    }
    /* 1.6 ms there are already, and 0.9 of a token: the end of the prompt, or all of it later. */
    ck_assert_int_eq(d.drafter, DRAFTER_MODEL);
    ck_assert(d.catch_up_rows == x.draft_lag || d.catch_up_rows == 32);
    ck_assert_double_le(d.catch_up_rows * 0.01, controller_budget_ms(&c) + 0.9 + 1e-9);
    /* A cheap one: at once and whole. */
    c = make(0.01);
    controller_record_prefill(&c, 1000, 100);
    d = decide(&c, (controller_context){.max_draft = 16});
    record(&c, &d, 0, 0, 0.01);
    d = decide(&c, (controller_context){.max_draft = 16, .draft_lag = 1000});
    ck_assert_int_eq(d.reason, REASON_PROBE);
    ck_assert_uint_eq(d.catch_up_rows, 1000);
}
END_TEST

START_TEST(chains_stop_where_one_more_token_costs_more)
{
    controller c = make(0.1);
    uint32_t n = 0;
    c.params.stops_early = true;
    controller_decision d = {0};
    for (int i = 0; i < 400; i++) {
        controller_outcome o = {0};
        float probabilities[CONTROLLER_MAX_DRAFT];
        bool missed = false;
        d = decide(&c, plenty);
        o.drafted = d.n_draft;
        for (uint32_t k = 0; k < d.n_draft; k++) { /* sure and right, or unsure and wrong */
            bool hit = ++n % 4 != 0;
            probabilities[k] = hit ? 0.99f : 0.1f;
            missed |= !hit;
            o.accepted += !missed;
        }
        o.probabilities = probabilities;
        o.verify_ms = 1;
        o.draft_ms = 0.1 * d.n_draft;
        o.total_ms = o.verify_ms + o.draft_ms;
        controller_record(&c, &d, &o);
    }
    ck_assert_int_eq(d.reason, REASON_PAYS);
    ck_assert_uint_gt(d.n_draft, 6); /* it may go far: it stops by itself */
    float sure = d.band_acceptance[calibration_band(0.99f)];
    float unsure = d.band_acceptance[calibration_band(0.1f)];
    ck_assert_float_gt(sure, 0.9f);
    ck_assert_float_lt(unsure, 0.2f);
    ck_assert_float_gt(sure * sure, d.stop[1]);
    ck_assert_float_lt(sure * unsure, d.stop[1]);
    for (uint32_t k = 0; k < d.n_draft; k++)
        ck_assert(d.stop[k] >= 0 && d.stop[k] <= 1);
    ck_assert_float_eq(d.stop[d.n_draft - 1], 0); /* nothing left to stop */
}
END_TEST

START_TEST(pipelining_needs_overlap)
{
    for (int overlap = 0; overlap <= 1; overlap++) {
        controller_params params = controller_params_default();
        controller c;
        params.schedules[SCHEDULE_PIPELINED] = true;
        params.overlap = overlap;
        params.cost_prior = 0.2;
        controller_init(&c, &params);
        controller_decision d = run_blocks(&c, 100, 0, 0, 0.2);
        ck_assert_int_eq(d.schedule, overlap ? SCHEDULE_PIPELINED : SCHEDULE_SERIAL);
        if (!overlap)
            continue;
        /* What is ready is used. */
        d = decide(&c, (controller_context){.max_draft = 16, .n_ahead = 4});
        ck_assert_int_eq(d.reason, REASON_READY);
        ck_assert_uint_eq(d.n_draft, 4);
        /* Measured: no overlap after all. */
        for (int i = 0; i < 200 && d.schedule == SCHEDULE_PIPELINED; i++) {
            d = decide(&c, plenty);
            controller_outcome o = {.drafted = d.n_draft, .accepted = d.n_draft};
            o.draft_ms = 0.2 * d.n_draft;
            o.n_steps_ahead = d.n_next + 1;
            o.verify_ms = 1 + 0.2 * o.n_steps_ahead;
            o.total_ms = o.draft_ms + o.verify_ms;
            if (d.schedule == SCHEDULE_PIPELINED)
                controller_record(&c, &d, &o);
        }
        ck_assert_double_lt(c.overlap, 0.5);
        ck_assert_int_eq(d.schedule, SCHEDULE_SERIAL);
    }
}
END_TEST

START_TEST(the_better_drafter_is_chosen)
{
    controller_params params = controller_params_default();
    controller c;
    params.drafters[DRAFTER_NGRAM] = true;
    params.cost_prior = 0.3;
    controller_init(&c, &params);
    controller_context x = {.max_draft = 16, .n_ngram = 16, .ngram_match = 20};
    controller_decision d = {0};
    /* Both right: the n-gram costs nothing. */
    for (int i = 0; i < 120; i++) {
        x.n_ngram = i < 60 ? 0 : 16;
        d = decide(&c, x);
        record(&c, &d, d.n_draft, 0, 0.3);
    }
    ck_assert_int_eq(d.drafter, DRAFTER_NGRAM);
    ck_assert_uint_gt(c.drafters[DRAFTER_MODEL].n_blocks, 0);
    /* It proposes no more than it has. */
    x.n_ngram = 3;
    d = decide(&c, x);
    ck_assert(d.drafter != DRAFTER_NGRAM || d.n_draft <= 3);
    /* Nothing to propose: the model. */
    x.n_ngram = 0;
    d = decide(&c, x);
    ck_assert_int_eq(d.drafter, DRAFTER_MODEL);
    /* Long matches right, short ones wrong. */
    for (int i = 0; i < 200; i++) {
        x = (controller_context){.max_draft = 16, .n_ngram = 16, .ngram_match = i % 2 ? 20 : 2};
        d = decide(&c, x);
        record(&c, &d, d.drafter == DRAFTER_NGRAM && x.ngram_match == 2 ? 0 : d.n_draft, 0, 0.3);
    }
    x.ngram_match = 20;
    ck_assert_int_eq(decide(&c, x).drafter, DRAFTER_NGRAM);
    x.ngram_match = 2;
    ck_assert_int_eq(decide(&c, x).drafter, DRAFTER_MODEL);
}
END_TEST

START_TEST(same_calls_same_decisions)
{
    controller a = make(0.1), b = make(0.1);
    for (int i = 0; i < 300; i++) {
        controller_decision d = decide(&a, plenty), e = decide(&b, plenty);
        ck_assert_uint_eq(d.n_draft, e.n_draft);
        ck_assert_int_eq(d.reason, e.reason);
        record(&a, &d, d.n_draft / 2, 0.05, 0.1);
        record(&b, &e, e.n_draft / 2, 0.05, 0.1);
    }
    for (int i = 0; i < N_DECISION_REASONS; i++)
        ck_assert_str_ne(decision_reason_string((enum decision_reason)i), "unknown");
    ck_assert_str_eq(decision_reason_string(N_DECISION_REASONS), "unknown");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        row_counts_never_measured_lie_between_neighbours,
        times_are_followed,
        bands_are_calibrated,
        a_change_is_noticed,
        starts_plain_and_probes_short,
        all_draft_lengths_are_weighed,
        room_is_respected,
        turns_off_and_probes_more_rarely,
        comes_back_when_the_text_changes,
        the_budget_ends_it,
        a_draft_that_can_not_pay_is_never_started,
        a_prefill_waits_for_its_budget,
        chains_stop_where_one_more_token_costs_more,
        pipelining_needs_overlap,
        the_better_drafter_is_chosen,
        same_calls_same_decisions,
    };
    Suite *suite = suite_create("controller");
    TCase *tc = tcase_create("controller");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(tc, tests[i]);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

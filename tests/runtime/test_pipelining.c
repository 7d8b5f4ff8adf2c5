/* What drafting ahead earns where both lanes really run at once: on the mock device, whose passes take
 * the times that it is told. Ratios of times of one run, alternating; the times are waits, so that other
 * work on the machine matters little. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "../folder.h"
#include "../suite.h"
#include "schedule_cases.h"

enum { N_CTX = 400, N_TOKENS = 160, N_ROUNDS = 5, K = 4 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, N_ROUNDS, sizeof *values, compare);
    return values[N_ROUNDS / 2];
}

static double generate_ms(otr_schedule schedule, uint32_t draft_max, otr_stats *stats)
{
    static const int32_t prompt[] = {1, 403, 407, 261, 378};
    int32_t ids[N_TOKENS];
    otr_generate_params p = otr_generate_params_default();

    p.sampling.temperature = 0;
    p.max_tokens = N_TOKENS;
    p.draft_max = draft_max;
    p.drafters = OTR_DRAFTER_MODEL;
    p.schedule = schedule;
    p.ignore_stop_tokens = true;
    *stats = (otr_stats){.size = sizeof *stats};
    uint64_t start = clock_ns();
    ck_assert_uint_eq(generate_ids(session, prompt, 5, &p, ids, N_TOKENS, stats), N_TOKENS);
    return (double)(clock_ns() - start) / 1e6;
}

/* Serial, a block takes K c + v; pipelined max(v, (K + 1) c) where all of it was right, the root behind
 * it included. One of 32 tokens is wrong: 16 ms against 0.85 * 10 + 0.15 * 16 = 10.9. */
START_TEST(pipelining_pays)
{
    double ratios[N_ROUNDS], gains[N_ROUNDS], shares[N_ROUNDS];

    const struct kind kind = {MODEL_TARGET, MODEL_DRAFT, kinds[_i].place};
    char folder[] = "/tmp/outrider-pipelining-XXXXXX"; /* for no other's measured overlap */

    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("OUTRIDER_CACHE_DIR", folder, 1);
    setenv("MOCK_VULKAN_TARGET_US", "8000", 1);
    setenv("MOCK_VULKAN_DRAFT_US", "2000", 1);
    setenv("MOCK_VULKAN_MISSES", "8", 1);
    open_kind(&kind, N_CTX);
    /* On a busy machine a first measurement may say little; each session adds one. */
    for (int i = 0; i < 5 && kind.place != SHARED && session->controller.overlap < 0.7; i++) {
        otr_session_destroy(&session);
        session = open_session(target, draft, N_CTX);
    }
    printf("overlap %.2f: ", session->controller.overlap);
    for (int i = 0; i < N_ROUNDS; i++) {
        otr_stats stats;
        double serial = generate_ms(OTR_SCHEDULE_SERIAL, K, &stats);
        double pipelined = generate_ms(OTR_SCHEDULE_PIPELINED, K, &stats);
        double chosen = generate_ms(OTR_SCHEDULE_AUTO, OTR_DRAFT_AUTO, &stats);
        ratios[i] = serial / pipelined;
        gains[i] = serial / chosen;
        shares[i] = (double)stats.pipelined_blocks / (double)stats.blocks;
    }
    close_kind();
    folder_remove(folder);
    double ratio = median(ratios), gain = median(gains), share = median(shares);
    printf("serial %.2f times pipelined, %.2f times auto, which pipelined %.0f %% of its blocks\n",
           ratio, gain, 100 * share);
    if (kinds[_i].place == SHARED) {
        ck_assert_double_lt(ratio, 1.1);
    } else {
        ck_assert_double_gt(ratio, 1.25);
        ck_assert_double_gt(gain, 1);
        ck_assert_double_gt(share, 0.5);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pipelining");
    TCase *tests = tcase_create("pipelining");

    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, pipelining_pays, 0, N_STORIES_KINDS);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

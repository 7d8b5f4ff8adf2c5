/* Generations in random modes, cancelled at random moments, changing their minds between blocks, in
 * sessions that come and go, for a given time: no hang, no growth, and the same text after all of it.
 *
 *     test_soak SECONDS
 */
#include <check.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../suite.h"
#include "schedule_cases.h"

/* Of host memory, from the end of the first rounds on: caches of drivers fill up. */
#define MOST_GROWTH (4u << 20)

static double seconds_wanted;

static double now(void)
{
    return (double)clock_ns() / 1e9;
}

/* A generation that may be cancelled; in its own mode and with its own end. */
static void run_cancelled(uint64_t *random, const int32_t *prompt, size_t n_prompt, forcing *f)
{
    const struct mode *m = &modes[next_random(random) % N_MODES];
    struct timespec delay = {
        .tv_nsec = (long)(next_random(random) % 60000000 >> next_random(random) % 8)};
    otr_generate_params p = otr_generate_params_default();
    pthread_t thread;

    p.drafters = m->drafters;
    p.schedule = m->schedule;
    p.draft_max = m->is_auto ? OTR_DRAFT_AUTO : 1 + next_random(random) % OTR_MAX_DRAFT;
    p.sampling.seed = next_random(random);
    ck_assert_int_eq(otr_session_rewind(session, 0), OTR_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_after, &delay), 0);
    otr_result result = otr_session_append(session, prompt, n_prompt, NULL, NULL);
    if (result == OTR_OK)
        result = otr_generate(session, &p, m->is_forced ? change_mind : NULL, f, NULL);
    ck_assert(result == OTR_OK || result == OTR_ERROR_CANCELLED);
    pthread_join(thread, NULL);
}

/* One pair of models: some cancelled generations, then one that must be right; again. */
static uint32_t run_round(const struct kind *k, uint64_t *random, double end)
{
    static int32_t prompt[MAX_PROMPT], plain[MAX_OUTPUT], ids[MAX_OUTPUT];
    otr_model_info info = {.size = sizeof info};
    forcing f = {.random = next_random(random)};
    uint32_t n_done = 0;

    open_kind(k, MAX_PROMPT + MAX_OUTPUT);
    otr_model_describe(target, &info);
    for (int i = 0; i < 12 && now() < end; i++) {
        otr_generate_params p;
        otr_stats stats;
        size_t n_prompt, n_plain, n;

        random_case(random, i, &p, prompt, &n_prompt, info.n_vocab);
        for (uint32_t c = next_random(random) % 4; c > 0; c--)
            run_cancelled(random, prompt, n_prompt, &f);
        if (next_random(random) % 4 == 0) { /* a new session for the same models */
            otr_session_destroy(&session);
            session = open_session(target, draft, MAX_PROMPT + MAX_OUTPUT);
        }
        run_case(&modes[next_random(random) % N_MODES], p, random, prompt, n_prompt, ids, &n,
                 &stats, &f);
        p.draft_max = 0;
        n_plain = generate_ids(session, prompt, n_prompt, &p, plain, MAX_OUTPUT, NULL);
        ck_assert_uint_eq(n, n_plain);
        ck_assert_mem_eq(ids, plain, n * sizeof *ids);
        n_done++;
    }
    close_kind();
    return n_done;
}

START_TEST(nothing_hangs_or_grows)
{
    double end = now() + seconds_wanted;
    uint64_t random = 1;
    uint32_t n_rounds = 0, n_done = 0;
    size_t first = 0, last = 0;

    while (now() < end || n_rounds < 2 * N_KINDS) {
        n_done += run_round(&kinds[n_rounds++ % N_KINDS], &random, end + 1);
        struct mallinfo2 memory = mallinfo2();
        last = memory.uordblks + memory.hblkhd;
        if (n_rounds == N_KINDS)
            first = last;
    }
    printf("%u generations in %u rounds; %zu KiB of host memory after the first ones, %zu at the "
           "end\n",
           n_done, n_rounds, first / 1024, last / 1024);
    ck_assert_uint_lt(last, first + MOST_GROWTH);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("soak");
    TCase *tests = tcase_create("soak");

    without_layers = true; /* they keep more of each submission, and see all modes in other tests */
    seconds_wanted = argc > 1 ? atof(argv[1]) : 60;
    tcase_set_timeout(tests, 2 * seconds_wanted + 600);
    tcase_add_test(tests, nothing_hangs_or_grows);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

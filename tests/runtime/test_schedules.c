/* Schedules, drafters and devices: whatever drafts, where and when, the text is the target's; also
 * when the mode changes between any two blocks, at the context's end, at stops, and after a
 * cancellation. Arguments: "slow" for many more cases; "both" when there are two devices; "mock" for
 * the mock device. */
#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../folder.h"
#include "../suite.h"
#include "overlap_file.h"
#include "schedule_cases.h"

static bool slow_suite, two_devices, is_mock;

/* ------------------------------------------------------------------------------- same text */

static void compare_modes(const struct kind *k, int n_prompts)
{
    static int32_t prompt[MAX_PROMPT], plain[MAX_OUTPUT], ids[MAX_OUTPUT];
    otr_model_info info = {.size = sizeof info};
    uint64_t random = 11 + (uint64_t)(k - kinds), n_ready = 0, n_ngram = 0, n_accepted = 0;
    forcing f = {.random = 5};

    open_kind(k, MAX_PROMPT + MAX_OUTPUT);
    otr_model_describe(target, &info);
    for (int i = 0; i < n_prompts; i++) {
        otr_generate_params p;
        size_t n_prompt, n_plain, n;

        random_case(&random, i, &p, prompt, &n_prompt, info.n_vocab);
        p.draft_max = 0;
        n_plain = generate_ids(session, prompt, n_prompt, &p, plain, MAX_OUTPUT, NULL);
        for (size_t m = 0; m < N_MODES; m++) {
            otr_stats stats;
            run_case(&modes[m], p, &random, prompt, n_prompt, ids, &n, &stats, &f);
            if (n != n_plain || memcmp(ids, plain, n * sizeof *ids) != 0)
                ck_abort_msg("prompt %d: %s gives another text", i, modes[m].name);
            n_ready += stats.ready_blocks;
            n_ngram += stats.ngram_blocks;
            n_accepted += stats.accepted;
        }
    }
    printf("%d prompts: %llu tokens accepted, %llu blocks drafted ahead, %llu by n-gram, %u tokens "
           "with a draft that began late\n",
           n_prompts, (unsigned long long)n_accepted, (unsigned long long)n_ready,
           (unsigned long long)n_ngram, f.n_late_starts);
    /* What was to be tested did happen; what is rare, where there are enough prompts for it. */
    if (k->draft == k->target)
        ck_assert_uint_gt(n_ready, 0);
    if (n_prompts >= 20 && !is_mock)
        ck_assert_uint_gt(n_ngram, 0);
    if (n_prompts >= 20 && k->draft == k->target)
        ck_assert_uint_gt(f.n_late_starts, 0);
    close_kind();
}

static int n_prompts_of(const struct kind *k)
{
    bool slow_device;

    if (is_mock)
        return 100;
    otr_context *probe = open_context();
    slow_device = device_is_slow(probe) || k->place >= OTHER_DEVICE;
    close_context(&probe);
    if (!slow_suite)
        return slow_device ? 1 : 4;
    /* Each in N_MODES modes: 1,008 cases in the slow suite; on a slow device 252, most of them with the
     * small model. */
    return !slow_device ? 24 : k - kinds < N_STORIES_KINDS ? 8 : 2;
}

START_TEST(modes_give_the_same_text)
{
    const struct kind *k = &kinds[two_devices ? N_KINDS + _i : _i];
    compare_modes(k, n_prompts_of(k));
}
END_TEST

/* The lanes have the queues that their kind says. */
START_TEST(parts_of_the_mock_are_real)
{
    const char *timeline = getenv("MOCK_VULKAN_TIMELINE");
    bool has_timeline = !timeline || strcmp(timeline, "0") != 0;

    open_kind(&kinds[_i], 64);
    const gpu *t = session->target->gpu, *d = session->draft->gpu;
    bool are_apart = kinds[_i].place != SHARED;
    ck_assert_str_eq(t->info->name, "Mock");
    ck_assert_uint_eq(t->n_queues, are_apart && kinds[_i].place != SEPARATE ? 2 : 1);
    ck_assert((t->queues[session->target->place.queue].queue !=
               d->queues[session->draft->place.queue].queue) == are_apart);
    ck_assert(t->has_two_families == (kinds[_i].place == TWO_FAMILIES));
    ck_assert((t != d) == (kinds[_i].place == SEPARATE));
    ck_assert(t->info->has_timeline_semaphores == has_timeline);
    ck_assert(session->joined ==
              (kinds[_i].place != SEPARATE && (kinds[_i].place != TWO_FAMILIES || has_timeline)));
    ck_assert(session_lanes_are_apart(session) == are_apart);
    close_kind();
}
END_TEST

/* ------------------------------------------------------------------------------- how it ends */

static const int32_t story[] = {1, 403, 407, 261, 378};
#define N_STORY (sizeof story / sizeof story[0])

static otr_generate_params fixed(otr_schedule schedule, uint32_t k, int32_t max_tokens)
{
    otr_generate_params p = otr_generate_params_default();

    p.sampling.temperature = 0;
    p.max_tokens = max_tokens;
    p.draft_max = k;
    p.schedule = schedule;
    p.plain_probes = 0;
    p.ignore_stop_tokens = true;
    return p;
}

/* The last blocks have room for fewer tokens, the last of all for none. */
START_TEST(context_ends_while_drafting_ahead)
{
    enum { N_CTX = 41, N = N_CTX - N_STORY };
    int32_t plain[N], ids[N];

    open_kind(&kinds[_i], N_CTX);
    otr_generate_params p = fixed(OTR_SCHEDULE_AUTO, 0, -1);
    ck_assert_uint_eq(generate_ids(session, story, N_STORY, &p, plain, N, NULL), N);
    for (uint32_t k = 1; k <= OTR_MAX_DRAFT; k += device_is_slow(context) ? 5 : 1) {
        otr_stats stats = {.size = sizeof stats};
        p = fixed(OTR_SCHEDULE_PIPELINED, k, -1);
        ck_assert_uint_eq(generate_ids(session, story, N_STORY, &p, ids, N, &stats), N);
        ck_assert_mem_eq(ids, plain, sizeof ids);
        ck_assert_int_eq(stats.finish, OTR_FINISH_CONTEXT);
        /* The draft is the target: every block but the first was drafted ahead, while there was
         * room. That of the mock misses. */
        ck_assert(is_mock || stats.ready_blocks + 3 >= stats.blocks);
    }
    close_kind();
}
END_TEST

/* Beside what is drafted ahead, and drafted itself. */
START_TEST(stop_tokens_end_a_pipelined_generation)
{
    enum { N_CTX = 320, MOST = 8 };
    static const char text[] = "Once upon a time";
    static int32_t plain[N_CTX], ids[N_CTX];
    int32_t prompt[MOST];
    size_t n_prompt;
    uint32_t n_stopped = 0;

    open_kind(&kinds[N_STORIES_KINDS], N_CTX);
    ck_assert_int_eq(otr_tokenize(target, text, strlen(text), true, true, prompt, MOST, &n_prompt),
                     OTR_OK);
    for (uint64_t seed = 5; seed >= (device_is_slow(context) ? 5 : 3); seed--) {
        otr_generate_params p = fixed(OTR_SCHEDULE_PIPELINED, 0, -1);
        otr_stats stats = {.size = sizeof stats};
        p.ignore_stop_tokens = false;
        p.sampling = otr_sampling_default();
        p.sampling.temperature = 1;
        p.sampling.seed = seed;
        size_t n = generate_ids(session, prompt, n_prompt, &p, plain, N_CTX, &stats);
        n_stopped += stats.finish == OTR_FINISH_STOP;
        p.draft_max = 1 + (uint32_t)seed;
        ck_assert_uint_eq(generate_ids(session, prompt, n_prompt, &p, ids, N_CTX, &stats), n);
        ck_assert_mem_eq(ids, plain, n * sizeof *ids);
    }
    ck_assert_uint_gt(n_stopped, 0);
    close_kind();
}
END_TEST

/* At any moment; the next generation is as if nothing had been. */
START_TEST(cancelled_generations_leave_nothing_behind)
{
    enum { N = 30 };
    int32_t plain[N], ids[N];
    uint64_t random = 3;

    open_kind(&kinds[_i], 300);
    otr_generate_params p = fixed(OTR_SCHEDULE_AUTO, 0, N);
    ck_assert_uint_eq(generate_ids(session, story, N_STORY, &p, plain, N, NULL), N);
    for (int i = 0; i < (device_is_slow(context) ? 3 : 12); i++) {
        struct timespec delay = {.tv_nsec = (long)(next_random(&random) % 30000000)};
        pthread_t thread;
        otr_stats stats = {.size = sizeof stats};

        otr_session_rewind(session, 0);
        ck_assert_int_eq(otr_session_append(session, story, N_STORY, NULL, NULL), OTR_OK);
        ck_assert_int_eq(pthread_create(&thread, NULL, cancel_after, &delay), 0);
        p = fixed(OTR_SCHEDULE_PIPELINED, 1 + (uint32_t)i, -1);
        otr_result result = otr_generate(session, &p, NULL, NULL, &stats);
        ck_assert(result == OTR_OK || result == OTR_ERROR_CANCELLED);
        pthread_join(thread, NULL);
        p = fixed(i % 2 ? OTR_SCHEDULE_PIPELINED : OTR_SCHEDULE_SERIAL, 4, N);
        ck_assert_uint_eq(generate_ids(session, story, N_STORY, &p, ids, N, NULL), N);
        ck_assert_mem_eq(ids, plain, sizeof ids);
    }
    close_kind();
}
END_TEST

/* -------------------------------------------------------------------------------- the parts */

/* The chain ends on the device when the survival falls under the level. */
START_TEST(chains_stop_early)
{
    float bands[CALIBRATION_BANDS], stop[OTR_MAX_DRAFT] = {0};
    chain_result drafted;

    open_kind(&kinds[0], 64);
    ck_assert_int_eq(otr_session_append(session, story, N_STORY, NULL, NULL), OTR_OK);
    for (int i = 0; i < CALIBRATION_BANDS; i++)
        bands[i] = 0.5f;
    for (uint32_t level = 0; level <= OTR_MAX_DRAFT; level++) {
        session_cut_draft(session, 0);
        ck_assert_int_eq(session_prefill(session, session->draft, N_STORY - 1, NULL, NULL), OTR_OK);
        for (int i = 0; i < OTR_MAX_DRAFT; i++) /* under 2^-level, and over 2^-(level+1) */
            stop[i] = 0.75f / (float)(1u << level);
        session->chain.new_parameters = true;
        generate_write_sampling(session->draft, &(otr_sampling){.repeat_penalty = 1, .top_p = 1});
        lane_request(session->draft)[Q_STOPS] = 0;
        chain_set_stops(session, bands, stop);
        ck_assert_int_eq(chain_start(session, N_STORY - 1, OTR_MAX_DRAFT), OTR_OK);
        ck_assert_int_eq(chain_wait(session, &drafted, NULL), OTR_OK);
        ck_assert_uint_eq(drafted.n, level + 1 < OTR_MAX_DRAFT ? level + 1 : OTR_MAX_DRAFT);
        ck_assert_uint_eq(session->draft->length, N_STORY - 1 + drafted.n);
    }
    close_kind();
}
END_TEST

/* A chain ends before the target's pass behind it begins, whatever the queues: the same tokens are
 * accepted. The mock's runs take random times. */
START_TEST(passes_wait_for_their_chains)
{
    enum { N = 60 };
    int32_t ids[N];
    uint64_t n_drafted = 0, n_accepted = 0;

    for (int i = SHARED; i <= TWO_FAMILIES; i++) {
        otr_stats stats = {.size = sizeof stats};
        open_kind(&kinds[i], N + N_STORY);
        bool has_two = kinds[i].place == TWO_FAMILIES;
        otr_generate_params p = fixed(OTR_SCHEDULE_SERIAL, 4, device_is_slow(context) ? 20 : N);
        generate_ids(session, story, N_STORY, &p, ids, N, &stats);
        ck_assert_uint_gt(stats.accepted, 0);
        if (i == SHARED) {
            n_drafted = stats.drafted;
            n_accepted = stats.accepted;
        }
        ck_assert_uint_eq(stats.drafted, n_drafted);
        ck_assert_uint_eq(stats.accepted, n_accepted);
        ck_assert((session->chain.last.semaphore != VK_NULL_HANDLE) ==
                  (has_two && target->gpu->info->has_timeline_semaphores));
        ck_assert_uint_eq(session->chain.last.value,
                          session->chain.last.semaphore ? stats.blocks - stats.plain_blocks : 0);
        close_kind();
    }
}
END_TEST

/* What is drafted, and the draft's probabilities, reach the rules of verification from another queue. */
START_TEST(rules_verify_across_families)
{
    enum { N = 20 };
    int32_t shared[2][N], ids[N];

    for (int place = SHARED; place <= TWO_FAMILIES; place += TWO_FAMILIES) {
        open_kind(&(struct kind){MODEL_TARGET, MODEL_DRAFT, (enum place)place}, N + N_STORY);
        for (otr_verify rule = OTR_VERIFY_REJECTION; rule <= OTR_VERIFY_BLOCK; rule++) {
            otr_generate_params p = fixed(OTR_SCHEDULE_SERIAL, 4, N);
            p.sampling.temperature = 1;
            p.verify = rule;
            int32_t *out = place == SHARED ? shared[rule - OTR_VERIFY_REJECTION] : ids;
            ck_assert_uint_eq(generate_ids(session, story, N_STORY, &p, out, N, NULL), N);
            ck_assert_mem_eq(out, shared[rule - OTR_VERIFY_REJECTION], sizeof ids);
        }
        close_kind();
    }
}
END_TEST

START_TEST(overlap_is_measured)
{
    otr_overlap overlap = {.size = sizeof overlap};
    size_t n_tokens;

    open_kind(&kinds[_i], 64);
    ck_assert_int_eq(otr_session_append(session, story, N_STORY, NULL, NULL), OTR_OK);
    ck_assert_int_eq(otr_session_measure_overlap(session, &overlap), OTR_OK);
    ck_assert_double_gt(overlap.target_seconds, 0);
    ck_assert_double_gt(overlap.draft_seconds, 0);
    ck_assert_double_gt(overlap.together_seconds, 0);
    ck_assert(overlap.overlap >= 0 && overlap.overlap <= 1);
    otr_session_tokens(session, &n_tokens);
    ck_assert_uint_eq(n_tokens, N_STORY);
    printf("overlap %.2f\n", overlap.overlap);
    overlap.size = 0;
    ck_assert_int_eq(otr_session_measure_overlap(session, &overlap), OTR_ERROR_INVALID_ARGUMENT);
    otr_session_destroy(&session);
    session = open_session(target, NULL, 64);
    overlap.size = sizeof overlap;
    ck_assert_int_eq(otr_session_measure_overlap(session, &overlap), OTR_ERROR_INVALID_ARGUMENT);
    otr_session_destroy(&session);
    session = open_session(target, draft, 4);
    ck_assert_int_eq(otr_session_measure_overlap(session, &overlap), OTR_ERROR_CONTEXT_FULL);
    close_kind();
}
END_TEST

static void age_files(const char *folder, time_t seconds)
{
    const struct timespec times[2] = {{.tv_sec = time(NULL) - seconds},
                                      {.tv_sec = time(NULL) - seconds}};
    glob_t files;
    char pattern[64];

    snprintf(pattern, sizeof pattern, "%s/*.overlap", folder);
    ck_assert_int_eq(glob(pattern, 0, NULL, &files), 0);
    ck_assert_uint_eq(files.gl_pathc, 1);
    ck_assert_int_eq(utimensat(AT_FDCWD, files.gl_pathv[0], times, 0), 0);
    globfree(&files);
}

/* The next session of the same pair adds to it, within a day. */
START_TEST(overlap_is_kept_for_a_day)
{
    /* Slower than any device: 0.25. Of five rounds it is the median while three are of these. */
    const overlap_rounds made_up = {3, {{40, 10, 47.5}, {40, 10, 47.5}, {40, 10, 47.5}}};
    const int day = 24 * 60 * 60;
    char *before = getenv("OUTRIDER_CACHE_DIR"), folder[] = "/tmp/outrider-overlap-XXXXXX";
    overlap_rounds kept, wrong = made_up;

    before = before ? strdup(before) : NULL;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("OUTRIDER_CACHE_DIR", folder, 1);
    open_kind(&kinds[_i], 64);
    ck_assert(overlap_file_load(session, &kept));
    ck_assert_uint_eq(kept.n, 3);
    overlap_file_store(session, &made_up);
    for (uint32_t i = 1; i <= 3; i++) {
        otr_session_destroy(&session);
        session = open_session(target, draft, 64);
        ck_assert(overlap_file_load(session, &kept));
        ck_assert_uint_eq(kept.n, i <= 2 ? 3 + i : OVERLAP_MAX_ROUNDS);
        ck_assert(kept.seconds[kept.n - 1][OVERLAP_TARGET] < 40);
        if (i <= 2)
            ck_assert_double_eq(session->controller.overlap, 0.25);
    }
    ck_assert(kept.seconds[1][OVERLAP_TARGET] == 40 && kept.seconds[2][OVERLAP_TARGET] < 40);
    /* Behind some text passes take longer: that isn't kept. */
    otr_overlap deep = {.size = sizeof deep};
    ck_assert_int_eq(otr_session_append(session, story, N_STORY, NULL, NULL), OTR_OK);
    ck_assert_int_eq(otr_session_measure_overlap(session, &deep), OTR_OK);
    ck_assert(overlap_file_load(session, &wrong));
    ck_assert_mem_eq(wrong.seconds, kept.seconds, sizeof kept.seconds);
    wrong = made_up;
    age_files(folder, day + 60);
    ck_assert(!overlap_file_load(session, &kept));
    age_files(folder, -60); /* a clock that was set back */
    ck_assert(!overlap_file_load(session, &kept));
    age_files(folder, day - 60);
    ck_assert(overlap_file_load(session, &kept));
    session->target_model->weight_bytes++; /* another model */
    ck_assert(!overlap_file_load(session, &kept));
    session->target_model->weight_bytes--;
    wrong.seconds[1][OVERLAP_DRAFT] = NAN;
    overlap_file_store(session, &wrong);
    ck_assert(!overlap_file_load(session, &kept));
    close_kind();
    folder_remove(folder);
    if (before)
        setenv("OUTRIDER_CACHE_DIR", before, 1);
    else
        unsetenv("OUTRIDER_CACHE_DIR");
    free(before);
}
END_TEST

/* Plain decoding costs nothing of the draft: its lane submits nothing. */
START_TEST(off_submits_nothing)
{
    enum { N = 10 };
    int32_t ids[N];
    otr_generate_params p = fixed(OTR_SCHEDULE_PIPELINED, 0, N);

    open_kind(&kinds[_i], 64);
    uint32_t n_before = session->chain.submission.n_commands; /* of measuring the overlap */
    ck_assert_uint_eq(generate_ids(session, story, N_STORY, &p, ids, N, NULL), N);
    ck_assert_uint_eq(session->draft->length, 0);
    ck_assert_uint_eq(session->chain.submission.n_commands, n_before);
    ck_assert(session->chain.new_parameters);
    close_kind();
}
END_TEST

/* Text that repeats itself needs no draft model. */
START_TEST(ngram_drafts_what_repeats)
{
    enum { N = 40, N_PROMPT = 2 * N_STORY + N + N / 2 };
    int32_t prompt[N_PROMPT], plain[N], ids[N];
    otr_generate_params p = fixed(OTR_SCHEDULE_AUTO, 0, N);
    otr_stats stats = {.size = sizeof stats};

    context = open_context();
    target = load_model_on(context, MODEL_STORIES, NULL, false);
    session = open_session(target, NULL, N_PROMPT + N);
    generate_ids(session, story, N_STORY, &p, plain, N, NULL);
    memcpy(prompt, story, sizeof story); /* the story, and half of it again */
    memcpy(prompt + N_STORY, plain, sizeof plain);
    memcpy(prompt + N_STORY + N, prompt, (N_STORY + N / 2) * sizeof *prompt);
    ck_assert_uint_eq(generate_ids(session, prompt, N_PROMPT, &p, plain, N, &stats), N);
    ck_assert_uint_eq(stats.drafted, 0);
    p.draft_max = 4; /* of fixed K only a draft model makes use, unless asked */
    ck_assert_uint_eq(generate_ids(session, prompt, N_PROMPT, &p, ids, N, &stats), N);
    ck_assert_uint_eq(stats.drafted, 0);
    p.drafters = OTR_DRAFTER_NGRAM;
    ck_assert_uint_eq(generate_ids(session, prompt, N_PROMPT, &p, ids, N, &stats), N);
    ck_assert_mem_eq(ids, plain, sizeof ids);
    ck_assert_uint_gt(stats.ngram_blocks, 0);
    ck_assert_uint_gt(stats.accepted, 0);
    p.drafters = 4;
    ck_assert_int_eq(otr_generate(session, &p, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT);
    close_kind();
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("schedules");
    TCase *tests = tcase_create("schedules"), *apart = tcase_create("apart"),
          *more = tcase_create("more");

    for (int i = 1; i < argc; i++) {
        slow_suite |= strcmp(argv[i], "slow") == 0;
        two_devices |= strcmp(argv[i], "both") == 0;
        is_mock |= strcmp(argv[i], "mock") == 0;
    }
    tcase_set_timeout(tests, slow_suite ? 3600 : 600);
    tcase_set_timeout(apart, slow_suite ? 3600 : 600);
    tcase_set_timeout(more, slow_suite ? 3600 : 600);
    tcase_set_tags(apart, LONG_TESTS);
    tcase_set_tags(more, LONG_TESTS " " COVERED_BY_SLOW);
    tcase_add_loop_test(tests, modes_give_the_same_text, 0,
                        two_devices ? N_TWO_DEVICE_KINDS : N_STORIES_KINDS);
    if (is_mock)
        tcase_add_loop_test(tests, parts_of_the_mock_are_real, 0, N_STORIES_KINDS);
    else if (!two_devices)
        tcase_add_loop_test(more, modes_give_the_same_text, N_STORIES_KINDS, N_KINDS);
    if (!slow_suite && !two_devices) {
        tcase_add_loop_test(tests, context_ends_while_drafting_ahead, 0, N_STORIES_KINDS);
        if (!is_mock) /* its text has no stop tokens, and doesn't repeat itself */
            tcase_add_test(apart, stop_tokens_end_a_pipelined_generation);
        tcase_add_loop_test(tests, cancelled_generations_leave_nothing_behind, 0, N_STORIES_KINDS);
        tcase_add_test(tests, chains_stop_early);
        tcase_add_test(tests, passes_wait_for_their_chains);
        if (!is_mock) /* which doesn't carry rules out */
            tcase_add_test(apart, rules_verify_across_families);
        tcase_add_loop_test(tests, overlap_is_measured, 0, N_STORIES_KINDS);
        tcase_add_loop_test(tests, overlap_is_kept_for_a_day, 1, N_STORIES_KINDS);
        tcase_add_loop_test(tests, off_submits_nothing, 0, N_STORIES_KINDS);
        if (!is_mock)
            tcase_add_test(tests, ngram_drafts_what_repeats);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, apart);
    suite_add_tcase(suite, more);
    return suite_run(suite);
}

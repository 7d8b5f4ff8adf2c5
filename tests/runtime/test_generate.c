/* How a generation ends, and what is left behind: text, tokens, caches and counters are cut at the
 * same token, wherever in a block that falls; errors of use; cancellation. */
#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "models.h"

#define MAX_TEXT 4096

static otr_context *context;
static otr_model *target, *draft;

static void open_all(void)
{
    context = open_context();
    target = load_model(context, MODEL_STORIES);
    draft = load_model(context, MODEL_STORIES);
}

static void close_all(void)
{
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    close_context(&context);
}

typedef struct text_log {
    char text[MAX_TEXT];
    size_t n;
    int pieces_left;      /* before on_text returns false; negative: never */
    otr_session *cancels; /* cancelled at the first piece */
} text_log;

static bool on_text(const char *text, size_t n_bytes, void *user)
{
    text_log *log = user;
    ck_assert_uint_lt(log->n + n_bytes, MAX_TEXT);
    memcpy(log->text + log->n, text, n_bytes);
    log->n += n_bytes;
    if (log->cancels)
        otr_session_cancel(log->cancels);
    return log->pieces_left < 0 || log->pieces_left-- > 0;
}

static const int32_t prompt[] = {1, 403, 407, 261, 378};
#define N_PROMPT (sizeof prompt / sizeof prompt[0])

static otr_generate_params greedy(int32_t max_tokens, uint32_t k)
{
    otr_generate_params params = otr_generate_params_default();
    params.sampling.temperature = 0;
    params.max_tokens = max_tokens;
    params.draft_max = k;
    params.ignore_stop_tokens = true;
    return params;
}

static otr_stats run(otr_session *s, const otr_generate_params *params, text_log *log)
{
    otr_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(otr_session_rewind(s, 0), OTR_OK);
    ck_assert_int_eq(otr_session_append(s, prompt, N_PROMPT, NULL, NULL), OTR_OK);
    ck_assert_int_eq(otr_generate(s, params, log ? on_text : NULL, log, &stats), OTR_OK);
    ck_assert_uint_eq(stats.emitted, 1 + stats.accepted + stats.blocks - stats.discarded);
    size_t n_tokens;
    otr_session_tokens(s, &n_tokens);
    ck_assert_uint_eq(n_tokens, N_PROMPT + stats.emitted);
    return stats;
}

typedef struct block_log {
    const otr_session *session;
    otr_stats sums;
    uint64_t n_tokens;
    double total_ms;
} block_log;

static void on_block(const otr_block *b, void *user)
{
    block_log *log = user;
    size_t n_tokens;

    if (b->is_first)
        return;
    log->sums.blocks++;
    log->sums.plain_blocks += b->drafted == 0;
    log->sums.drafted += b->drafted;
    log->sums.accepted += b->accepted;
    log->sums.discarded += b->accepted + 1 - b->n_tokens;
    log->n_tokens += b->n_tokens;
    otr_session_tokens(log->session, &n_tokens);
    ck_assert_uint_eq(n_tokens, N_PROMPT + 1 + log->n_tokens);
    ck_assert_uint_ge(b->n_tokens, 1);
    ck_assert_double_ge(b->total_ms, b->draft_ms + b->verify_ms);
    for (uint32_t i = 0; i < b->n_tokens; i++)
        ck_assert_double_ge((double)b->latency_ms[i], 0);
    log->total_ms += b->total_ms;
}

/* The blocks that the callback sees are those that the statistics add up. */
START_TEST(blocks_add_up_to_the_statistics)
{
    open_all();
    otr_session *s = open_session(target, draft, 128);
    for (uint32_t k = 0; k <= 5; k++) {
        block_log log = {.session = s};
        otr_generate_params params = greedy(24, k);
        params.on_block = on_block;
        params.block_user = &log;
        otr_stats stats = run(s, &params, NULL);
        ck_assert_uint_eq(log.sums.blocks, stats.blocks);
        ck_assert_uint_eq(log.sums.plain_blocks, stats.plain_blocks);
        ck_assert_uint_eq(log.sums.drafted, stats.drafted);
        ck_assert_uint_eq(log.sums.accepted, stats.accepted);
        ck_assert_uint_eq(log.sums.discarded, stats.discarded);
        ck_assert_uint_eq(1 + log.n_tokens, stats.emitted);
        ck_assert_double_le(log.total_ms, stats.generate_ms);
    }
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* After a cut anywhere in a block the session goes on as if it had never gone further. */
START_TEST(length_cuts_inside_a_block)
{
    enum { FIRST = 9, SECOND = 12 };
    open_all();
    otr_session *s = open_session(target, draft, 128);
    int32_t expected[FIRST + SECOND];
    otr_generate_params second = greedy(SECOND, 5);
    for (uint32_t k = 0; k <= 16; k += 4) {
        otr_generate_params first = greedy(FIRST, k);
        size_t n_tokens;
        otr_stats stats = run(s, &first, NULL);
        ck_assert_int_eq(stats.finish, OTR_FINISH_LENGTH);
        ck_assert_uint_eq(stats.emitted, FIRST);
        ck_assert_int_eq(otr_generate(s, &second, NULL, NULL, NULL), OTR_OK);
        const int32_t *tokens = otr_session_tokens(s, &n_tokens);
        ck_assert_uint_eq(n_tokens, N_PROMPT + FIRST + SECOND);
        if (k == 0)
            memcpy(expected, tokens + N_PROMPT, sizeof expected);
        ck_assert_mem_eq(expected, tokens + N_PROMPT, sizeof expected);
    }
    otr_session_destroy(&s);
    close_all();
}
END_TEST

START_TEST(context_ends_inside_a_block)
{
    open_all();
    for (uint32_t k = 0; k <= 16; k += 8) {
        otr_session *s = open_session(target, draft, 23);
        otr_generate_params params = greedy(-1, k);
        otr_stats stats = run(s, &params, NULL);
        ck_assert_int_eq(stats.finish, OTR_FINISH_CONTEXT);
        ck_assert_uint_eq(stats.emitted, 23 - N_PROMPT);
        /* Full: nothing more fits, and that is no error. */
        ck_assert_int_eq(otr_generate(s, &params, NULL, NULL, &stats), OTR_OK);
        ck_assert_int_eq(stats.finish, OTR_FINISH_CONTEXT);
        ck_assert_uint_eq(stats.emitted, 0);
        ck_assert_uint_eq(stats.emitted, 1 + stats.accepted + stats.blocks - stats.discarded);
        ck_assert_int_eq(otr_session_append(s, prompt, 1, NULL, NULL), OTR_ERROR_CONTEXT_FULL);
        otr_session_destroy(&s);
    }
    close_all();
}
END_TEST

/* A stop string cut at any place of the text, also across tokens: what comes before it, nothing
 * else. */
START_TEST(stop_strings_cut_the_text)
{
    open_all();
    otr_session *s = open_session(target, draft, 128);
    otr_generate_params params = greedy(40, 0);
    text_log whole = {.pieces_left = -1};
    run(s, &params, &whole);
    ck_assert_uint_gt(whole.n, 40);
    for (size_t at = 1; at < 36; at += 5)
        for (uint32_t k = 0; k <= 8; k += 4) {
            char stop[8];
            const char *stops[] = {"never in the text", stop};
            text_log log = {.pieces_left = -1};
            memcpy(stop, whole.text + at, 5);
            stop[5] = 0;
            const char *first = strstr(whole.text, stop);
            params = greedy(40, k);
            params.stop_strings = stops;
            params.n_stop_strings = 2;
            otr_stats stats = run(s, &params, &log);
            ck_assert_int_eq(stats.finish, OTR_FINISH_STOP);
            ck_assert_uint_eq(log.n, (size_t)(first - whole.text));
            ck_assert_mem_eq(log.text, whole.text, log.n);
        }
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* A stop token ends text and counters at itself, also when it was drafted. */
START_TEST(stop_tokens_end_a_generation)
{
    open_all();
    otr_session *s = open_session(target, draft, 512);
    otr_generate_params params = greedy(-1, 0);
    params.ignore_stop_tokens = false;
    uint64_t emitted = 0;
    for (uint64_t seed = 0; seed < (device_is_slow(context) ? 1 : 3); seed++)
        for (uint32_t k = 0; k <= 16; k += 8) {
            size_t n_tokens;
            params.draft_max = k;
            params.sampling.temperature = 1.0f;
            params.sampling.seed = seed;
            otr_stats stats = run(s, &params, NULL);
            const int32_t *tokens = otr_session_tokens(s, &n_tokens);
            if (k == 0)
                emitted = stats.emitted;
            ck_assert_uint_eq(stats.emitted, emitted);
            ck_assert(stats.finish == OTR_FINISH_STOP || stats.finish == OTR_FINISH_CONTEXT);
            if (stats.finish == OTR_FINISH_STOP)
                ck_assert(otr_token_is_stop(target, tokens[n_tokens - 1]));
            for (size_t i = N_PROMPT; i + 1 < n_tokens; i++)
                ck_assert(!otr_token_is_stop(target, tokens[i]));
        }
    otr_session_destroy(&s);
    close_all();
}
END_TEST

START_TEST(cancelling_keeps_what_there_is)
{
    open_all();
    otr_session *s = open_session(target, draft, 128);
    otr_generate_params params = greedy(100, 5);
    text_log log = {.pieces_left = 3};
    otr_stats stats = run(s, &params, &log);
    ck_assert_int_eq(stats.finish, OTR_FINISH_CANCELLED);
    ck_assert_uint_ge(stats.emitted, 3);
    ck_assert_uint_lt(stats.emitted, 100);
    text_log cancelling = {.pieces_left = -1, .cancels = s};
    stats = run(s, &params, &cancelling);
    ck_assert_int_eq(stats.finish, OTR_FINISH_CANCELLED);
    ck_assert_uint_ge(stats.emitted, 1);
    ck_assert_uint_lt(stats.emitted, 100);
    /* The next generation is not cancelled. */
    log = (text_log){.pieces_left = -1};
    stats = run(s, &params, &log);
    ck_assert_int_eq(stats.finish, OTR_FINISH_LENGTH);
    otr_session_destroy(&s);
    close_all();
}
END_TEST

static void expect(otr_result result, otr_result wanted, const char *text)
{
    char message[512];
    ck_assert_int_eq(result, wanted);
    otr_error_message(context, message, sizeof message);
    ck_assert_msg(strstr(message, text) != NULL, "'%s' is not in '%s'", text, message);
}

START_TEST(wrong_use_is_an_error)
{
    open_all();
    otr_session *s = open_session(target, NULL, 32), *none = NULL;
    otr_generate_params params = greedy(4, 0);
    static const int32_t bad[] = {3, 512};
    int32_t many[33] = {0};
    size_t n_tokens;

    expect(otr_generate(s, &params, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "no tokens");
    expect(otr_session_append(s, bad, 2, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "512");
    expect(otr_session_append(s, many, 33, NULL, NULL), OTR_ERROR_CONTEXT_FULL, "32");
    expect(otr_session_rewind(s, 1), OTR_ERROR_INVALID_ARGUMENT, "rewind");
    otr_session_tokens(s, &n_tokens);
    ck_assert_uint_eq(n_tokens, 0);
    ck_assert_int_eq(otr_session_append(s, many, 3, NULL, NULL), OTR_OK);
    params.draft_max = OTR_MAX_DRAFT + 1;
    expect(otr_generate(s, &params, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "draft_max");
    params = greedy(4, 5); /* without a draft: plain decoding */
    ck_assert_int_eq(otr_generate(s, &params, NULL, NULL, NULL), OTR_OK);
    params.sampling.temperature = -1;
    expect(otr_generate(s, &params, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "temperature");
    otr_model *other = load_model(context, MODEL_DRAFT);
    expect(otr_session_create(target, other, NULL, &none), OTR_ERROR_VOCABULARY, "token");
    ck_assert_ptr_null(none);
    otr_model_destroy(&other);
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* A program built against an older header, with a shorter struct, or a newer one, with a longer one,
 * gets what the fields mean that both know; a size that was never set is refused. */
START_TEST(params_of_other_versions)
{
    struct {
        otr_session_params params;
        uint64_t newer[4];
    } longer = {.params = otr_session_params_default(), .newer = {~0ull, ~0ull, ~0ull, ~0ull}};
    otr_session *s = NULL;
    text_log log = {.pieces_left = -1};

    open_all();
    longer.params.size = sizeof longer;
    longer.params.n_ctx = 48;
    ck_assert_int_eq(otr_session_create(target, NULL, &longer.params, &s), OTR_OK);
    ck_assert_uint_eq(otr_session_n_ctx(s), 48);
    otr_session_destroy(&s);
    longer.params.size = offsetof(otr_session_params, prefill_rows);
    longer.params.prefill_rows = ~0u; /* not part of that version */
    ck_assert_int_eq(otr_session_create(target, NULL, &longer.params, &s), OTR_OK);
    ck_assert_uint_eq(otr_session_n_ctx(s), 48);

    otr_generate_params params = greedy(4, 0);
    params.size = offsetof(otr_generate_params, stop_strings);
    params.n_stop_strings = 7;
    run(s, &params, &log);
    params = greedy(4, 0);
    params.n_stop_strings = 2;
    params.stop_strings = (const char *const[]){"x", NULL};
    expect(otr_generate(s, &params, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "string 1");
    params.size = 0;
    expect(otr_generate(s, &params, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "size");
    expect(otr_session_evaluate(s, &(otr_evaluate_params){0}, prompt, 1, NULL, NULL),
           OTR_ERROR_INVALID_ARGUMENT, "size");
    expect(otr_session_measure(s, &(otr_measure_params){0}, NULL), OTR_ERROR_INVALID_ARGUMENT,
           "size");
    expect(otr_session_append(s, NULL, 1, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT, "NULL");
    ck_assert_int_eq(otr_session_evaluate(s, NULL, NULL, 0, NULL, NULL), OTR_OK);
    ck_assert_uint_eq(otr_session_n_ctx(NULL), 0);
    ck_assert_ptr_null(otr_session_tokens(NULL, NULL));
    otr_session_cancel(NULL);
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* A draft that guesses wrong is left alone after a few blocks, whatever the times are; the text is
 * the same. */
START_TEST(auto_turns_a_bad_draft_off)
{
    enum { N = 120 };
    open_all();
    otr_model *big = load_model(context, MODEL_TARGET);
    otr_model *bad = load_model(context, MODEL_RANDOM_DRAFT);
    otr_session *s = open_session(big, bad, N + 40);
    otr_generate_params params = greedy(device_is_slow(context) ? N / 3 : N, 0);
    int32_t plain[N], ids[N];
    otr_stats stats = {.size = sizeof stats};
    size_t n = generate_ids(s, prompt, N_PROMPT, &params, plain, N, &stats);

    ck_assert_uint_eq(stats.plain_blocks, stats.blocks);
    params.draft_max = OTR_DRAFT_AUTO;
    params.drafters = OTR_DRAFTER_MODEL;
    ck_assert_uint_eq(generate_ids(s, prompt, N_PROMPT, &params, ids, N, &stats), n);
    ck_assert_mem_eq(ids, plain, n * sizeof *ids);
    printf("random draft: %llu of %llu blocks plain, %llu drafted\n",
           (unsigned long long)stats.plain_blocks, (unsigned long long)stats.blocks,
           (unsigned long long)stats.drafted);
    ck_assert_uint_ge(10 * stats.plain_blocks, 8 * stats.blocks);
    ck_assert_uint_lt(stats.plain_blocks, stats.blocks); /* it was tried */
    otr_session_destroy(&s);
    otr_model_destroy(&bad);
    otr_model_destroy(&big);
    close_all();
}
END_TEST

/* max_tokens 0 and 1, and the counters of each. */
START_TEST(few_tokens)
{
    open_all();
    otr_session *s = open_session(target, draft, 64);
    for (int32_t n = 0; n <= 3; n++) {
        otr_generate_params params = greedy(n, 16);
        otr_stats stats = run(s, &params, NULL);
        ck_assert_int_eq(stats.finish, OTR_FINISH_LENGTH);
        ck_assert_uint_eq(stats.emitted, (uint64_t)n);
    }
    otr_session_destroy(&s);
    close_all();
}
END_TEST

/* Between prompt and generation passes may be measured: nothing of them stays. */
START_TEST(measuring_changes_nothing)
{
    otr_measure_params params = otr_measure_params_default();
    otr_measurement m = {.size = sizeof m};
    otr_generate_params generation = greedy(20, 3);
    int32_t expected[20];
    size_t n_tokens;
    double copies;

    open_all();
    otr_session *s = open_session(target, draft, 64);
    generate_ids(s, prompt, N_PROMPT, &generation, expected, 20, NULL);
    ck_assert_int_eq(otr_session_rewind(s, 0), OTR_OK);
    ck_assert_int_eq(otr_session_append(s, prompt, N_PROMPT, NULL, NULL), OTR_OK);
    for (uint32_t i = 0; i < 6; i++) {
        params.use_draft = i >= 4;
        params.path = i == 3 ? OTR_EVALUATE_PREFILL : OTR_EVALUATE_ROWS;
        params.rows = (const uint32_t[]){1, 9, 17, 40, 1, 3}[i];
        ck_assert_int_eq(otr_session_measure(s, &params, &m), OTR_OK);
        ck_assert_double_gt(m.seconds, m.host_seconds);
        ck_assert_uint_gt(m.dispatches, 5);
        ck_assert_uint_gt(m.weight_bytes, 500000); /* of 260,000 numbers in F32 */
    }
    ck_assert_int_eq(otr_session_measure_copy(s, &copies), OTR_OK);
    ck_assert_double_gt(copies, 1e6);
    ck_assert_int_eq(otr_generate(s, &generation, NULL, NULL, NULL), OTR_OK);
    ck_assert_mem_eq(otr_session_tokens(s, &n_tokens) + N_PROMPT, expected, sizeof expected);
    ck_assert_uint_eq(n_tokens, N_PROMPT + 20);

    params.rows = OTR_MAX_DRAFT + 2;
    params.path = OTR_EVALUATE_ROWS;
    expect(otr_session_measure(s, &params, &m), OTR_ERROR_INVALID_ARGUMENT, "rows");
    params.path = OTR_EVALUATE_PREFILL;
    params.rows = 64;
    expect(otr_session_measure(s, &params, &m), OTR_ERROR_CONTEXT_FULL, "64");
    otr_session_destroy(&s);
    s = open_session(target, NULL, 64);
    params.rows = 1;
    params.use_draft = true;
    expect(otr_session_measure(s, &params, &m), OTR_ERROR_INVALID_ARGUMENT, "draft");
    otr_session_destroy(&s);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generation");
    TCase *tests = tcase_create("generation");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, blocks_add_up_to_the_statistics);
    tcase_add_test(tests, length_cuts_inside_a_block);
    tcase_add_test(tests, context_ends_inside_a_block);
    tcase_add_test(tests, stop_strings_cut_the_text);
    tcase_add_test(tests, stop_tokens_end_a_generation);
    tcase_add_test(tests, cancelling_keeps_what_there_is);
    tcase_add_test(tests, wrong_use_is_an_error);
    tcase_add_test(tests, params_of_other_versions);
    tcase_add_test(tests, auto_turns_a_bad_draft_off);
    tcase_add_test(tests, few_tokens);
    tcase_add_test(tests, measuring_changes_nothing);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

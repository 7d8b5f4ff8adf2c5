/* The n-gram drafter against a search through the whole text, with rewinds; its work a token. */
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include "ngram.h"

#define MAX_TEXT 4096

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* The newest of the longest matches up to NGRAM_MAX, compared token by token. */
static uint32_t reference(const int32_t *text, uint32_t n, int32_t *out, uint32_t *match)
{
    uint32_t best = 0, best_end = 0;

    *match = 0;
    for (uint32_t end = 0; end + 1 < n; end++) {
        uint32_t length = 0;
        while (length < NGRAM_MAX && length <= end && text[end - length] == text[n - 1 - length])
            length++;
        if (length >= NGRAM_MIN && length >= best) {
            best = length;
            best_end = end;
        }
    }
    if (!best)
        return 0;
    while (best < NGRAM_MAX_MATCH && best <= best_end &&
           text[best_end - best] == text[n - 1 - best])
        best++;
    *match = best;
    for (uint32_t i = 0; i < NGRAM_MAX_DRAFT; i++)
        out[i] = best_end + 1 + i < n ? text[best_end + 1 + i] : out[best_end + 1 + i - n];
    return NGRAM_MAX_DRAFT;
}

static const int32_t vocabularies[] = {1, 2, 3, 7, 40, 1000};

START_TEST(drafts_like_the_reference)
{
    int32_t text[MAX_TEXT], got[NGRAM_MAX_DRAFT], wanted[NGRAM_MAX_DRAFT];
    uint32_t n = 0, got_match, wanted_match, n_drafts = 0;
    int32_t n_vocab = vocabularies[_i];
    uint64_t random = 17 + (uint64_t)_i;
    ngram g;

    ck_assert(ngram_init(&g, 600));
    for (int step = 0; step < 3000; step++) {
        if (next_random(&random) % 20 == 0 || n == 600) {
            n = next_random(&random) % 4 ? n - (n ? next_random(&random) % n % 40 : 0)
                                         : next_random(&random) % (n + 1);
            ngram_rewind(&g, n);
        }
        /* Now and then a piece of the text again. */
        if (next_random(&random) % 10 == 0 && n > 20 && n < 560) {
            uint32_t from = next_random(&random) % (n - 20);
            for (uint32_t i = 0; i < 20; i++, n++) {
                text[n] = text[from + i];
                ck_assert(ngram_append(&g, text[n]));
            }
        } else if (n < 600) {
            text[n] = (int32_t)(next_random(&random) % (uint32_t)n_vocab);
            ck_assert(ngram_append(&g, text[n++]));
        }
        uint32_t n_wanted = reference(text, n, wanted, &wanted_match);
        ck_assert_uint_eq(ngram_draft(&g, NGRAM_MAX_DRAFT, got, &got_match), n_wanted);
        ck_assert_uint_eq(got_match, wanted_match);
        ck_assert_mem_eq(got, wanted, n_wanted * sizeof *got);
        n_drafts += n_wanted > 0;
    }
    ck_assert_uint_gt(n_drafts, 100);
    ngram_free(&g);
}
END_TEST

START_TEST(work_does_not_grow_with_the_text)
{
    enum { N = 1 << 17 };
    int32_t out[NGRAM_MAX_DRAFT];
    uint32_t match;
    uint64_t random = 5, steps_before;
    ngram g;

    ck_assert(ngram_init(&g, N));
    for (uint32_t i = 0; i < N; i++) {
        ck_assert(ngram_append(&g, (int32_t)(next_random(&random) % (uint32_t)vocabularies[_i])));
        ngram_draft(&g, NGRAM_MAX_DRAFT, out, &match);
    }
    ck_assert(!ngram_append(&g, 0));
    printf("vocabulary %d: %.1f steps a token\n", vocabularies[_i], (double)g.n_steps / N);
    ck_assert_msg(g.n_steps < 90ull * N, "%.1f steps a token", (double)g.n_steps / N);
    /* All of it away again. */
    steps_before = g.n_steps;
    ngram_rewind(&g, 0);
    ck_assert(g.n_steps - steps_before < 40ull * N);
    uint64_t n_used = 0;
    for (int level = 0; level < NGRAM_LEVELS; level++)
        for (uint32_t slot = 0; slot < g.n_slots; slot++)
            n_used += g.slots[level][slot] != 0;
    ck_assert_uint_eq(n_used, 0);
    ngram_free(&g);
}
END_TEST

START_TEST(a_period_goes_on)
{
    int32_t out[NGRAM_MAX_DRAFT];
    uint32_t match;
    ngram g;

    ck_assert(ngram_init(&g, 64));
    for (int i = 0; i < 9; i++)
        ck_assert(ngram_append(&g, i % 3));
    ck_assert_uint_eq(ngram_draft(&g, 5, out, &match), 5);
    ck_assert_uint_eq(match, 6);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(out[i], i % 3);
    ngram_rewind(&g, 1);
    ck_assert_uint_eq(ngram_draft(&g, 5, out, &match), 0);
    ck_assert_uint_eq(match, 0);
    ngram_rewind(&g, 0);
    ck_assert_uint_eq(ngram_draft(&g, 5, out, &match), 0);
    ngram_free(&g);
}
END_TEST

START_TEST(too_large_a_capacity_is_refused)
{
    ngram g;
    ck_assert(!ngram_init(&g, UINT32_MAX));
    ck_assert_ptr_null(g.tokens);
}
END_TEST

int main(void)
{
    enum { N_VOCABULARIES = sizeof vocabularies / sizeof *vocabularies };
    Suite *suite = suite_create("ngram");
    TCase *tc = tcase_create("ngram");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, drafts_like_the_reference, 0, N_VOCABULARIES);
    tcase_add_loop_test(tc, work_does_not_grow_with_the_text, 0, N_VOCABULARIES);
    tcase_add_test(tc, a_period_goes_on);
    tcase_add_test(tc, too_large_a_capacity_is_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

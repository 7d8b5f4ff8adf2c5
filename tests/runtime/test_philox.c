/* Philox against its published known answers, and both ends of the noise made from it. */
#include <math.h>
#include <stdlib.h>

#include <check.h>

#include "philox.h"

/* Random123 1.14, kat_vectors, philox4x32 with 10 rounds. */
static const struct known_answer {
    uint32_t counter[4], key[2], out[4];
} known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_answers_hold)
{
    const struct known_answer *k = &known_answers[_i];
    uint32_t out[4];
    philox4x32_10(k->counter, k->key, out);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(out[i], k->out[i]);
}
END_TEST

START_TEST(words_use_seed_position_and_token)
{
    uint32_t counter[4] = {7, 11, 0, 0};
    uint32_t key[2] = {0x89abcdef, 0x01234567};
    uint32_t out[4];
    philox4x32_10(counter, key, out);
    ck_assert_uint_eq(noise_word(UINT64_C(0x0123456789abcdef), 7, 11), out[0]);
    ck_assert_uint_eq(noise_word(0, 0, 0), 0x6627e8d5);
    counter[2] = 3;
    counter[3] = 5;
    philox4x32_10(counter, key, out);
    ck_assert_uint_eq(noise_word_of(UINT64_C(0x0123456789abcdef), 7, 11, 3, 5), out[0]);
}
END_TEST

static const uint32_t edge_words[] = {
    0,          1,          2,          1000,       0x00ffffff, 0x01000000, 0x3fffffff,
    0x40000000, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xbfffffff, 0xc0000000,
    0xfbffffff, 0xfc000000, 0xfffffc17, 0xfffffffd, 0xfffffffe, 0xffffffff,
};

START_TEST(noise_is_good_at_both_ends)
{
    uint32_t word = edge_words[_i];
    long double u = ((long double)word + 0.5L) * 0x1p-32L;
    long double exact = word < 0x80000000u ? -logl(u)
                                           : -log1pl(-(((long double)~word + 0.5L) * 0x1p-32L));
    double e = noise_exponential(word);
    ck_assert(isfinite(e));
    ck_assert(e > 0);
    ck_assert(fabsl(e - exact) <= 1e-6L * exact);
    ck_assert(fabsl(noise_gumbel(word) + logl(exact)) <= 1e-6L);
}
END_TEST

START_TEST(noise_falls_with_the_word)
{
    for (size_t i = 1; i < sizeof edge_words / sizeof *edge_words; i++)
        ck_assert(noise_exponential(edge_words[i]) < noise_exponential(edge_words[i - 1]));
}
END_TEST

START_TEST(noise_has_the_moments_of_an_exponential)
{
    enum { N = 200000 };
    double sum = 0;
    double squares = 0;
    for (uint32_t i = 0; i < N; i++) {
        double e = noise_exponential(noise_word(42, i / 100, i % 100));
        sum += e;
        squares += e * e;
    }
    /* Mean 1 (standard error 1/sqrt(N)), second moment 2 (sqrt(20/N)): five of them. */
    ck_assert(fabs(sum / N - 1) < 5 / sqrt(N));
    ck_assert(fabs(squares / N - 2) < 5 * sqrt(20.0 / N));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("philox");
    TCase *tc = tcase_create("philox");
    tcase_add_loop_test(tc, known_answers_hold, 0, sizeof known_answers / sizeof *known_answers);
    tcase_add_test(tc, words_use_seed_position_and_token);
    tcase_add_loop_test(tc, noise_is_good_at_both_ends, 0, sizeof edge_words / sizeof *edge_words);
    tcase_add_test(tc, noise_falls_with_the_word);
    tcase_add_test(tc, noise_has_the_moments_of_an_exponential);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

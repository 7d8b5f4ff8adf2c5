/* The noise of sampling on the device: Philox and its two ends bit by bit, and the tokens it leads
 * to by chi-square against the model's probabilities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "philox.h"
#include "sampler.h"

static const uint32_t noise_code[] =
#include "noise.inc"
    ;

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const uint32_t edges[] = {
    0,          1,          2,          3,          0x00ffffff, 0x01000000, 0x3fffffff,
    0x40000000, 0x5a827999, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xbfffffff,
    0xc0000000, 0xa57d8666, 0xfbffffff, 0xfc000000, 0xfffffffe, 0xffffffff,
};

START_TEST(noise_is_good_at_both_ends)
{
    enum { N = 16384 };
    static harness h;
    static uint32_t words[N];
    harness_open(&h);
    VkPipeline pipeline = harness_pipeline_from(&h, noise_code, sizeof noise_code);
    test_random random = {9};
    for (uint32_t i = 0; i < N; i++) {
        uint32_t shift = random_word(&random) % 32;
        words[i] = random_word(&random) >> shift;
        if (random_word(&random) % 2)
            words[i] = ~words[i];
    }
    memcpy(words, edges, sizeof edges);
    gpu_buffer in = harness_buffer(&h, sizeof words, words);
    gpu_buffer exponentials = harness_buffer(&h, sizeof words, NULL);
    gpu_buffer gumbels = harness_buffer(&h, sizeof words, NULL);
    gpu_buffer token_words = harness_buffer(&h, sizeof words, NULL);
    uint64_t seed = UINT64_C(0xfedcba9876543210);
    uint32_t position = 4321;
    uint32_t stream = _i ? 3 : 0, block = _i ? 77 : 0;
    uint32_t push[] = {N / 4, position, (uint32_t)seed, (uint32_t)(seed >> 32), stream, block};
    harness_run(
        &h, pipeline,
        (const gpu_buffer *[KERNEL_STORAGE_BUFFERS]){&in, &exponentials, &gumbels, &token_words},
        NULL, push, sizeof push, N / 4 / 32, 1, 1);
    for (uint32_t i = 0; i < N; i++) {
        double e = ((const float *)exponentials.mapped)[i];
        double g = ((const float *)gumbels.mapped)[i];
        double expected = noise_exponential(words[i]);
        ck_assert_msg(isfinite(e) && e > 0, "word %08x: E = %g", words[i], e);
        ck_assert_msg(fabs(e - expected) <= 1e-6 * expected, "word %08x: E = %.9g, expected %.9g",
                      words[i], e, expected);
        /* g up to 23 has roundings of 1e-6 itself. */
        ck_assert_msg(fabs(g - noise_gumbel(words[i])) <= 2e-6,
                      "word %08x: g = %.9g, expected %.9g", words[i], g, noise_gumbel(words[i]));
        ck_assert_uint_eq(((const uint32_t *)token_words.mapped)[i],
                          noise_word_of(seed, position, words[i], stream, block));
    }
    harness_close(&h);
}
END_TEST

#define N_VOCAB 50

static const sample_settings settings_list[] = {
    {.temperature = 1, .top_p = 1, .penalty = 1},
    {.temperature = 0.7f, .top_p = 1, .penalty = 1},
    {.temperature = 1.3f, .top_k = 20, .top_p = 1, .penalty = 1},
    {.temperature = 1, .top_p = 0.8f, .penalty = 1},
    {.temperature = 1.5f, .top_p = 1, .min_p = 0.1f, .penalty = 1},
    {.temperature = 0.8f,
     .top_k = 30,
     .top_p = 0.95f,
     .min_p = 0.02f,
     .penalty = 1.2f,
     .last_n = 64},
};

/* The chi-square statistic as a standard normal deviate (Wilson and Hilferty). Tokens that are
 * expected less than 8 times are taken together. */
static double chi_square_deviate(const uint32_t counts[N_VOCAB],
                                 const double probabilities[N_VOCAB], uint32_t n)
{
    double statistic = 0;
    double rare_expected = 0;
    double rare_count = 0;
    int n_classes = 0;
    for (uint32_t v = 0; v < N_VOCAB; v++) {
        double expected = n * probabilities[v];
        if (expected < 8) {
            rare_expected += expected;
            rare_count += counts[v];
            continue;
        }
        statistic += (counts[v] - expected) * (counts[v] - expected) / expected;
        n_classes++;
    }
    if (rare_expected > 0) {
        statistic += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
        n_classes++;
    }
    double freedom = n_classes - 1;
    double spread = 2 / (9 * freedom);
    return (cbrt(statistic / freedom) - (1 - spread)) / sqrt(spread);
}

/* 20,400 draws over seeds and positions. */
START_TEST(draws_follow_the_probabilities)
{
    enum { N_SEEDS = 1200, BASE = 100 };
    static sampler s;
    sampler_open(&s, N_VOCAB);
    VkPipeline pipeline = sampler_pipeline(&s, 32);
    test_random random = {11};
    float row[N_VOCAB];
    for (uint32_t v = 0; v < N_VOCAB; v++)
        row[v] = (float)(1.5 * random_normal(&random));
    for (uint32_t i = 0; i < SAMPLER_HISTORY; i++)
        s.history[i] = i % 4; /* the same set in every window */

    sample_settings settings = settings_list[_i];
    sample_outcome outcome;
    double probabilities[N_VOCAB];
    sample_reference(row, N_VOCAB, s.history, BASE, &settings, &outcome, probabilities);
    uint32_t counts[N_VOCAB] = {0};
    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        sampled got[MAX_ROWS];
        /* High and low words alike. */
        settings.seed = seed % 2 ? (uint64_t)seed << 32 : seed;
        for (uint32_t r = 0; r < MAX_ROWS; r++)
            memcpy(sampler_row(&s, r, N_VOCAB), row, sizeof row);
        sampler_run(&s, pipeline, N_VOCAB, N_VOCAB, BASE, 0, MAX_ROWS, &settings, got);
        for (uint32_t r = 0; r < MAX_ROWS; r++) {
            counts[got[r].token]++;
            ck_assert(probabilities[got[r].token] > 0);
            ck_assert(fabs(got[r].probability - probabilities[got[r].token]) < 1e-5);
        }
    }
    double deviate = chi_square_deviate(counts, probabilities, N_SEEDS * MAX_ROWS);
    ck_assert_msg(fabs(deviate) < 4, "chi-square deviates by %.2f sigma", deviate);

    /* The test sees a temperature that is wrong by a quarter. */
    sample_settings wrong = settings;
    wrong.temperature *= 1.25f;
    sample_reference(row, N_VOCAB, s.history, BASE, &wrong, &outcome, probabilities);
    ck_assert(chi_square_deviate(counts, probabilities, N_SEEDS * MAX_ROWS) > 4);
    sampler_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sample noise");
    TCase *tc = tcase_create("sample noise");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, noise_is_good_at_both_ends, 0, 2);
    tcase_add_loop_test(tc, draws_follow_the_probabilities, 0, COUNT(settings_list));
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

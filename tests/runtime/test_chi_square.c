/* The chi-square test of the tests, and its power: what the tests of lossless verification would see,
 * and would not. No device. */
#include <math.h>
#include <stdio.h>

#include <check.h>

#include "../suite.h"
#include "chi_square.h"

/* Quantiles of tables: the chance of a greater value. */
START_TEST(tails_are_those_of_tables)
{
    static const struct {
        double statistic, freedom, p;
    } known[] = {
        {3.841459, 1, 0.05},    {10.827566, 1, 0.001}, {14.067140, 7, 0.05}, {24.321886, 7, 0.001},
        {37.697298, 15, 0.001}, {7.260944, 15, 0.95},  {5.229349, 15, 0.99},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert_double_eq_tol(chi_square_tail(known[i].statistic, known[i].freedom), known[i].p,
                                1e-6);
}
END_TEST

static uint32_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(z >> 32);
}

/* The total-variation bias that is hardest to see: for a given distance the statistic grows least when
 * the bias is in proportion to the probabilities and the cells that gain have half of them. */
static void plant(const double *from, double *to, uint32_t n_cells, double bias)
{
    double gaining = 0;

    for (uint32_t i = 0; i < n_cells; i += 2)
        gaining += from[i];
    for (uint32_t i = 0; i < n_cells; i++)
        to[i] = i % 2 ? from[i] * (1 - bias / (1 - gaining)) : from[i] * (1 + bias / gaining);
}

/* How many of n_tests find samples of `drawn` not to be of `expected`. */
static uint32_t count_rejections(const double *drawn, const double *expected, uint32_t n_cells,
                                 uint32_t n_tests, uint64_t seed)
{
    uint32_t n_rejected = 0;

    for (uint32_t test = 0; test < n_tests; test++) {
        uint64_t counts[CHI_SQUARE_MAX_CELLS] = {0};
        for (uint32_t i = 0; i < CHI_SQUARE_SAMPLES; i++) {
            double u = next(&seed) * 0x1p-32;
            uint32_t cell = 0;
            while (cell + 1 < n_cells && (u -= drawn[cell]) >= 0)
                cell++;
            counts[cell]++;
        }
        n_rejected += chi_square_p(counts, expected, n_cells) < CHI_SQUARE_SIGNIFICANCE;
    }
    return n_rejected;
}

/* Sixteen equal cells, eight, and eight unequal ones. 300 tests each; with a power of 0.99 fewer than
 * 293 rejections have a chance of 2 in 1000. */
START_TEST(a_small_bias_is_found)
{
    enum { N_TESTS = 300 };
    double expected[CHI_SQUARE_MAX_CELLS], biased[CHI_SQUARE_MAX_CELLS];
    uint32_t n_cells = _i == 0 ? 16 : 8;

    for (uint32_t i = 0; i < n_cells; i++)
        expected[i] = _i == 2 ? (i + 1) / 36.0 : 1.0 / n_cells;
    plant(expected, biased, n_cells, 0.01);
    double distance = 0;
    for (uint32_t i = 0; i < n_cells; i++)
        distance += fabs(biased[i] - expected[i]) / 2;
    ck_assert_double_eq_tol(distance, 0.01, 1e-12);
    uint32_t found = count_rejections(biased, expected, n_cells, N_TESTS, 5);
    uint32_t false_alarms = count_rejections(expected, expected, n_cells, N_TESTS, 6);
    printf("%u cells: %u of %u planted biases of 0.01 found, %u false alarms\n", n_cells, found,
           N_TESTS, false_alarms);
    ck_assert_uint_ge(found, 0.99 * N_TESTS);
    ck_assert_uint_le(false_alarms, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chi-square");
    TCase *tests = tcase_create("chi-square");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, tails_are_those_of_tables);
    tcase_add_loop_test(tests, a_small_bias_is_found, 0, 3);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

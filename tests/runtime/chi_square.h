/* Pearson's chi-square test of counts against exact probabilities, for the tests of sampling. */
#ifndef OUTRIDER_TEST_CHI_SQUARE_H
#define OUTRIDER_TEST_CHI_SQUARE_H

#include <stdint.h>

#define CHI_SQUARE_SIGNIFICANCE 0.001
#define CHI_SQUARE_MAX_CELLS 16
/* With so many samples in CHI_SQUARE_MAX_CELLS cells or fewer, a bias of 0.01 in total variation is
 * found at that significance with a power of 0.99 and more (test_chi_square.c). */
#define CHI_SQUARE_SAMPLES 180000

/* The chance that counts from these probabilities (which add up to 1) lie as far off as these or
 * further. */
double chi_square_p(const uint64_t *counts, const double *probabilities, uint32_t n_cells);
/* The same of a statistic by itself. */
double chi_square_tail(double statistic, double freedom);

#endif

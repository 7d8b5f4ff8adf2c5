/* Random blocks of weights for tests of what reads them. */
#ifndef OUTRIDER_TEST_RANDOM_WEIGHTS_H
#define OUTRIDER_TEST_RANDOM_WEIGHTS_H

#include "format.h"

uint32_t random_u32(uint64_t *state);
/* Uniform in [-1, 1). */
float random_unit(uint64_t *state);

/* Fills n_blocks blocks. All values are finite; halfs take any exponent, every fourth is subnormal;
 * floats are normal and below 2. */
void random_blocks(const format_info *format, uint8_t *data, uint64_t n_blocks, uint64_t *state);
/* |scale * q| + |bias| of each of n weights: what rounding errors are relative to. */
void weight_magnitudes(const format_info *format, const uint8_t *data, uint64_t n, double *out);

#endif

/* Random blocks of weights for tests of what reads them. */
#ifndef OUTRIDER_TEST_RANDOM_WEIGHTS_H
#define OUTRIDER_TEST_RANDOM_WEIGHTS_H

#include "format.h"

uint32_t random_u32(uint64_t *state);
/* Uniform in [-1, 1). */
float random_unit(uint64_t *state);

enum weights_kind {
    WEIGHTS_WIDE, /* halfs take any exponent, every fourth is subnormal: for exact comparisons */
    WEIGHTS_EVEN, /* halfs in +-[0.5, 2), so that each weight counts in a sum */
    WEIGHTS_POSITIVE,  /* F32: above 0; else as even */
    WEIGHTS_SUBNORMAL, /* halfs are subnormal, none is 0; else as even */
};

/* Fills n_blocks blocks. All values are finite; floats are normal and below 2. */
void random_blocks(const format_info *format, uint8_t *data, uint64_t n_blocks,
                   enum weights_kind kind, uint64_t *state);
/* |scale * q| + |bias| of each of n weights: what rounding errors are relative to. */
void weight_magnitudes(const format_info *format, const uint8_t *data, uint64_t n, double *out);

#endif

/* Packs blocks of every tensor format from random scales and quants, bit by bit, and says which
 * weights they stand for: the other half of the layouts, written independently of the dequantisers.
 *
 * Used by test_format.c. */
#ifndef OUTRIDER_TESTS_ENCODE_BLOCK_H
#define OUTRIDER_TESTS_ENCODE_BLOCK_H

#include <stdint.h>

#include "format.h"

struct block_encoder {
    enum tensor_format id;
    void (*encode)(uint8_t *block, double *want); /* into a zeroed block */
};

#define N_BLOCK_ENCODERS 16
extern const struct block_encoder block_encoders[N_BLOCK_ENCODERS]; /* one for each format */

extern uint64_t block_random_state; /* seed, not 0 */

/* Value of a half by the definition of IEEE 754, not by bit tricks. */
double half_value(uint16_t bits);

#endif

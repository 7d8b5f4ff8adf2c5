/* Tests of kernels that only devices of a tier can run, for their main(): exit code 77 is a skip. */
#ifndef OUTRIDER_TEST_NEEDS_TIER_H
#define OUTRIDER_TEST_NEEDS_TIER_H

#include <stdbool.h>
#include <stdint.h>

/* True when the default device has the tier. Otherwise prints "SKIP: reason". */
bool needs_tier(int32_t tier);
/* The same with the tier that the environment's OUTRIDER_TEST_TIER names, if it does. */
bool needs_tier_of_environment(void);

#endif

/* The random numbers of sampling on the CPU: Philox4x32-10 and the noise made from it, in
 * double precision. The reference for shaders/philox.glsl; used by tests and by the self-test of
 * devices. */
#ifndef OUTRIDER_PHILOX_H
#define OUTRIDER_PHILOX_H

#include <stdint.h>

/* Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Word of a token at a position: key = seed, counter = (position, token, 0, 0), first output. */
uint32_t noise_word(uint64_t seed, uint32_t position, uint32_t token);
/* The same of a stream (NOISE_* in step_state.h) and a block: counter (position, token, stream, block);
 * noise_word is that of stream 0 and block 0. */
uint32_t noise_word_of(uint64_t seed, uint32_t position, uint32_t token, uint32_t stream,
                       uint32_t block);
/* E = -ln((word + 1/2) 2^-32): exponential, finite and above 0 for every word. */
double noise_exponential(uint32_t word);
/* g = -ln E: the Gumbel noise that is added to logit / temperature. */
double noise_gumbel(uint32_t word);

#endif

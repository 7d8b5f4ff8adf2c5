/* The random numbers of sampling on the CPU (philox.h). */
#include "philox.h"

#include <math.h>

void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xd2511f53) * c[0];
        uint64_t p1 = UINT64_C(0xcd9e8d57) * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)p0;
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

uint32_t noise_word(uint64_t seed, uint32_t position, uint32_t token)
{
    return noise_word_of(seed, position, token, 0, 0);
}

uint32_t noise_word_of(uint64_t seed, uint32_t position, uint32_t token, uint32_t stream,
                       uint32_t block)
{
    uint32_t counter[4] = {position, token, stream, block};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    philox4x32_10(counter, key, out);
    return out[0];
}

double noise_exponential(uint32_t word)
{
    /* In the upper half u is too near 1 to take its logarithm: use 1 - u, which is exact. */
    if (word < UINT32_C(0x80000000))
        return -log(((double)word + 0.5) * 0x1p-32);
    return -log1p(-((double)~word + 0.5) * 0x1p-32);
}

double noise_gumbel(uint32_t word)
{
    return -log(noise_exponential(word));
}

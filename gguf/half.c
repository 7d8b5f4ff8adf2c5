/* 16-bit floats: IEEE half and bfloat16, bit by bit, so that no compiler extension or instruction
 * set is needed. Called by the dequantisers, by weight repacking and by the KV cache's tests. */
#include <string.h>

#include "format.h"

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

float half_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t exponent = bits >> 10 & 0x1f;
    uint32_t mantissa = bits & 0x3ff;
    if (exponent == 31) /* infinity and NaN; a NaN keeps its payload */
        return float_from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0) /* the bias changes from 15 to 127 */
        return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Zero or subnormal: mantissa * 2^-24, which a float holds as a normal number. */
    const float magnitude = (float)mantissa * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

float bfloat16_to_float(uint16_t bits)
{
    return float_from_bits((uint32_t)bits << 16);
}

uint16_t half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN: keep what fits of the payload, and make it quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x33000000) /* under 2^-25: to zero */
        return sign;
    /* Drop the low bits of the mantissa, rounding to nearest, ties to even. A carry runs into the
     * exponent, which is right: the next number up. */
    uint32_t mantissa = magnitude, shift = 13;
    uint32_t base = 112u << 10;   /* exponent bias to take off after the shift */
    if (magnitude < 0x38800000) { /* under 2^-14: a subnormal half, in units of 2^-24 */
        mantissa = (magnitude & 0x7fffff) | 0x800000;
        shift = 126 - (magnitude >> 23);
        base = 0;
    }
    const uint32_t half_unit = 1u << (shift - 1);
    const uint32_t odd = mantissa >> shift & 1;
    return (uint16_t)(sign | (((mantissa + half_unit - 1 + odd) >> shift) - base));
}

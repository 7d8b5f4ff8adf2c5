// Common part of the weight formats: the tensor's planes, bound at binding 0 under three widths.
//
// Compiled once per format with -DWEIGHTS_<format>. A format file weights_*.glsl defines
//   WEIGHTS_CHUNK          weights that one weights_load covers (a multiple of 4)
//   WEIGHTS_HAS_SCALE      1: value = scale * q (+ bias); 0: unpack gives the value itself
//   WEIGHTS_HAS_BIAS       1: the value has a bias
//   struct weights         raw words of a chunk, with .scale and .bias where the format has them
//   weights weights_load(uint row, uint chunk)
//   vec4 weights_unpack(weights w, uint quad)   q of weights 4 * quad .. 4 * quad + 3 of the chunk
// A row has n_chunks chunks. Planes are laid out by runtime/repack.c: plane 0 at word 0, planes 1..3 at
// the word offsets of the push constants.

layout(set = 0, binding = 0, std430) readonly buffer Weights32 {
    uint weights32[];
};
layout(set = 0, binding = 0, std430) readonly buffer Weights64 {
    uvec2 weights64[];
};
layout(set = 0, binding = 0, std430) readonly buffer Weights128 {
    uvec4 weights128[];
};

// Set on devices whose unpackHalf2x16 flushes subnormals, which are common among scales.
layout(constant_id = 7) const bool HALF_FROM_BITS = false;

float half_from_bits(uint bits)
{
    uint magnitude = bits & 0x7fffu;
    uint normal = (magnitude << 13) + (112u << 23);
    if (magnitude >= 0x7c00u)
        normal += 112u << 23; // infinity, NaN
    if (magnitude < 0x400u)
        normal = floatBitsToUint(float(magnitude) * (1.0 / 16777216.0));
    return uintBitsToFloat(normal | ((bits & 0x8000u) << 16));
}

// The two halfs of a word.
vec2 half_pair(uint word)
{
    if (HALF_FROM_BITS)
        return vec2(half_from_bits(word & 0xffffu), half_from_bits(word >> 16));
    return unpackHalf2x16(word);
}

// Half number `index` of a plane of halfs that begins at word `plane`.
float plane_half(uint plane, uint index)
{
    vec2 pair = half_pair(weights32[plane + (index >> 1)]);
    return (index & 1u) == 0u ? pair.x : pair.y;
}

// The four bytes of a word as numbers.
vec4 bytes_unsigned(uint word)
{
    return vec4(float(word & 0xffu), float((word >> 8) & 0xffu), float((word >> 16) & 0xffu),
                float(word >> 24));
}

vec4 bytes_signed(uint word)
{
    int w = int(word);
    return vec4(float((w << 24) >> 24), float((w << 16) >> 24), float((w << 8) >> 24),
                float(w >> 24));
}

// The upper half of each byte of a word as signed numbers.
vec4 nibbles_signed(uint word)
{
    int w = int(word);
    return vec4(float((w << 24) >> 28), float((w << 16) >> 28), float((w << 8) >> 28),
                float(w >> 28));
}

// glslc does not expand macros in #include.
#if defined(WEIGHTS_F32)
#include "weights_f32.glsl"
#elif defined(WEIGHTS_F16) || defined(WEIGHTS_BF16)
#include "weights_f16.glsl"
#elif defined(WEIGHTS_Q8_0)
#include "weights_q8_0.glsl"
#elif defined(WEIGHTS_Q4_0) || defined(WEIGHTS_Q4_1)
#include "weights_q4.glsl"
#elif defined(WEIGHTS_Q5_0) || defined(WEIGHTS_Q5_1)
#include "weights_q5.glsl"
#elif defined(WEIGHTS_Q2_K)
#include "weights_q2_k.glsl"
#elif defined(WEIGHTS_Q3_K)
#include "weights_q3_k.glsl"
#elif defined(WEIGHTS_Q4_K) || defined(WEIGHTS_Q5_K)
#include "weights_q4_k.glsl"
#elif defined(WEIGHTS_Q6_K)
#include "weights_q6_k.glsl"
#elif defined(WEIGHTS_IQ4_NL) || defined(WEIGHTS_IQ4_XS) || defined(WEIGHTS_MXFP4)
#include "weights_levels.glsl"
#else
#error "no weight format"
#endif

// Weights 4 * quad .. 4 * quad + 3 of the chunk.
vec4 weights_value(weights w, uint quad)
{
    precise vec4 value = weights_unpack(w, quad);
#if WEIGHTS_HAS_BIAS
    value = fma(value, vec4(w.scale), vec4(w.bias));
#elif WEIGHTS_HAS_SCALE
    value *= w.scale;
#endif
    return value;
}

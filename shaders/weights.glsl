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

// Half number `index` of a plane of halfs that begins at word `plane`.
float plane_half(uint plane, uint index)
{
    vec2 pair = unpackHalf2x16(weights32[plane + (index >> 1)]);
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

// Four 4-bit numbers from bit `shift` on.
vec4 nibbles(uint word, uint shift)
{
    return vec4(float((word >> shift) & 15u), float((word >> (shift + 4)) & 15u),
                float((word >> (shift + 8)) & 15u), float((word >> (shift + 12)) & 15u));
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
#elif defined(WEIGHTS_Q4_K)
#include "weights_q4_k.glsl"
#elif defined(WEIGHTS_Q6_K)
#include "weights_q6_k.glsl"
#else
#error "no weight format"
#endif

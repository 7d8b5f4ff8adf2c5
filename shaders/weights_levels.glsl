// IQ4_NL, IQ4_XS and MXFP4: four-bit numbers of 16 levels, which are signed bytes.
// value = scale * level. Plane 0: numbers in the order of weights_q4.glsl. A chunk is 16 weights.
//   IQ4_NL  blocks of 32; plane 1: half scales
//   IQ4_XS  super-blocks of 256, a 6-bit scale for each 32, scale = d * (s - 32); plane 1: {half d and the upper
//           two bits of the scales, their low four bits}, two words
//   MXFP4   blocks of 32; plane 1: bytes of exponent, scale = 2^(e - 128): levels are twice the floats.
//           Scales of e = 0 and 1 are subnormal, and zero on devices that flush those
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#define WEIGHTS_HAS_BIAS 0

// Four levels in a word, the first in its low byte.
#if defined(WEIGHTS_MXFP4)
// 0 1 2 3, 4 6 8 12, and their negatives
const uvec4 levels = uvec4(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
#else
// -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113
const uvec4 levels = uvec4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
#endif

struct weights {
    uvec2 words;
    float scale;
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
#if defined(WEIGHTS_IQ4_NL)
    float scale = plane_half(plane1, index >> 1);
#elif defined(WEIGHTS_IQ4_XS)
    uvec2 super = weights64[(plane1 >> 1) + (index >> 4)];
    uint group = (index >> 1) & 7u;
    uint s = ((super.y >> (4 * group)) & 15u) | (((super.x >> (16 + 2 * group)) & 3u) << 4);
    float scale = half_pair(super.x).x * float(int(s) - 32);
#else
    uint block = index >> 1;
    uint e = (weights32[plane1 + (block >> 2)] >> (8 * (block & 3u))) & 255u;
    float scale = uintBitsToFloat(e >= 2u ? (e - 1u) << 23 : 0x00200000u << e);
#endif
    return weights(weights64[index], scale);
}

float level(uint number)
{
    uint upper = (number & 4u) == 0u ? levels.z : levels.w;
    uint lower = (number & 4u) == 0u ? levels.x : levels.y;
    uint four = (number & 8u) == 0u ? lower : upper;
    return float(int(four << (24 - 8 * (number & 3u))) >> 24);
}

vec4 weights_unpack(weights w, uint quad)
{
    uint word = w.words[quad >> 1] >> (4 * (quad & 1u));
    return vec4(level(word & 15u), level((word >> 8) & 15u), level((word >> 16) & 15u),
                level((word >> 24) & 15u));
}

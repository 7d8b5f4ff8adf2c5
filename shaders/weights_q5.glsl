// Q5_0 and Q5_1: blocks of 32 five-bit numbers with a half scale, and in Q5_1 a half minimum.
// Plane 0: low four bits in the order of weights_q4.glsl; plane 1: a word with the fifth bits of a block, that
// of weight 4i + b in bit i of byte b, in Q5_0 inverted, which makes the number signed; plane 2: half scales
// (Q5_0), words of scale and minimum (Q5_1). A chunk is half a block.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#if defined(WEIGHTS_Q5_1)
#define WEIGHTS_HAS_BIAS 1
#else
#define WEIGHTS_HAS_BIAS 0
#endif

struct weights {
    uvec2 low;
    uint high; // bit `quad` of each byte
    float scale;
#if WEIGHTS_HAS_BIAS
    float bias;
#endif
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
    uint high = weights32[plane1 + (index >> 1)] >> (4 * (index & 1u));
#if WEIGHTS_HAS_BIAS
    vec2 pair = half_pair(weights32[plane2 + (index >> 1)]);
    return weights(weights64[index], high, pair.x, pair.y);
#else
    // An eighth, because unpacking gives eight times the weight. Exact: a power of two.
    return weights(weights64[index], high, plane_half(plane2, index >> 1) * 0.125);
#endif
}

vec4 weights_unpack(weights w, uint quad)
{
    uint low = w.low[quad >> 1];
    uint high = w.high >> quad;
#if WEIGHTS_HAS_BIAS
    return bytes_unsigned(((low >> (4 * (quad & 1u))) & 0x0f0f0f0fu) | ((high & 0x01010101u) << 4));
#else
    // Eight times the weight: the five bits stay at the top of their byte, where the sign is.
    low = (quad & 1u) == 0u ? low << 3 : low >> 1;
    return bytes_signed((low & 0x78787878u) | ((high & 0x01010101u) << 7));
#endif
}

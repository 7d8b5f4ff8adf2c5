// Q4_0 and Q4_1: blocks of 32 four-bit numbers with a half scale, and in Q4_1 a half minimum.
// Plane 0: words of 8 weights, weight b in the low and 4 + b in the high half of byte b; those of Q4_0 are
// signed. Plane 1: half scales (Q4_0), words of scale and minimum (Q4_1). A chunk is half a block.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#if defined(WEIGHTS_Q4_1)
#define WEIGHTS_HAS_BIAS 1
#else
#define WEIGHTS_HAS_BIAS 0
#endif

struct weights {
    uvec2 words;
    float scale;
#if WEIGHTS_HAS_BIAS
    float bias;
#endif
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
#if WEIGHTS_HAS_BIAS
    vec2 pair = half_pair(weights32[plane1 + (index >> 1)]);
    return weights(weights64[index], pair.x, pair.y);
#else
    return weights(weights64[index], plane_half(plane1, index >> 1));
#endif
}

// The whole chunk, four weights in a word, for matvec_dot.comp: q = byte - WEIGHTS_BYTE_OFFSET.
#if WEIGHTS_HAS_BIAS
#define WEIGHTS_BYTE_OFFSET 0
#else
#define WEIGHTS_BYTE_OFFSET 8
#endif

ivec4 weights_bytes(weights w)
{
    uvec4 words = uvec4(w.words.x, w.words.x >> 4, w.words.y, w.words.y >> 4) & 0x0f0f0f0fu;
#if !WEIGHTS_HAS_BIAS
    words ^= 0x08080808u; // the sign
#endif
    return ivec4(words);
}

vec4 weights_unpack(weights w, uint quad)
{
    uint word = w.words[quad >> 1];
#if WEIGHTS_HAS_BIAS
    return bytes_unsigned((word >> (4 * (quad & 1u))) & 0x0f0f0f0fu);
#else
    return nibbles_signed(word << (4 - 4 * (quad & 1u)));
#endif
}

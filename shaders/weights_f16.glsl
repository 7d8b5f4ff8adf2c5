// F16 and BF16. Plane 0: the values, each row padded to a multiple of 4.
#define WEIGHTS_CHUNK 4
#define WEIGHTS_HAS_SCALE 0
#define WEIGHTS_HAS_BIAS 0

struct weights {
    uvec2 words;
};

weights weights_load(uint row, uint chunk)
{
    return weights(weights64[row * n_chunks + chunk]);
}

vec4 weights_unpack(weights w, uint quad)
{
#if defined(WEIGHTS_BF16)
    return uintBitsToFloat(uvec4(w.words.x << 16, w.words.x & 0xffff0000u, w.words.y << 16,
                                 w.words.y & 0xffff0000u));
#else
    return vec4(half_pair(w.words.x), half_pair(w.words.y));
#endif
}

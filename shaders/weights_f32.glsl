// F32. Plane 0: the values, each row padded to a multiple of 4.
#define WEIGHTS_CHUNK 4
#define WEIGHTS_HAS_SCALE 0
#define WEIGHTS_HAS_BIAS 0

struct weights {
    uvec4 words;
};

weights weights_load(uint row, uint chunk)
{
    return weights(weights128[row * n_chunks + chunk]);
}

vec4 weights_unpack(weights w, uint quad)
{
    return uintBitsToFloat(w.words);
}

// Q8_0: blocks of 32 signed bytes with a half scale. Plane 0: bytes in order; plane 1: scales.
// A chunk is half a block: 16 bytes.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#define WEIGHTS_HAS_BIAS 0

struct weights {
    uvec4 words;
    float scale;
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
    return weights(weights128[index], plane_half(plane1, index >> 1));
}

// The whole chunk, four weights in a word, for matvec_dot.comp: q = byte - WEIGHTS_BYTE_OFFSET.
#define WEIGHTS_BYTE_OFFSET 0

ivec4 weights_bytes(weights w)
{
    return ivec4(w.words);
}

vec4 weights_unpack(weights w, uint quad)
{
    return bytes_signed(w.words[quad]);
}

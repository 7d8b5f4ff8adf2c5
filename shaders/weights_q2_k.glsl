// Q2_K: super-blocks of 256 two-bit numbers; each 16 have a 4-bit scale and a 4-bit minimum.
// value = d * scale * q - dmin * minimum. Plane 0: a word for each 16 weights, those of weight 4i + b in bits
// 2i, 2i + 1 of byte b; plane 1: bytes, scale in the low and minimum in the high half; plane 2: words of the
// halfs d and dmin. A chunk is the 16 weights of one scale.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#define WEIGHTS_HAS_BIAS 1

struct weights {
    uint pairs;
    float scale;
    float bias;
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
    uint part = weights32[plane1 + (index >> 2)] >> (8 * (index & 3u));
    vec2 d = half_pair(weights32[plane2 + (index >> 4)]);
    // Products of 11 and 4 bits: exact.
    return weights(weights32[index], d.x * float(part & 15u), -d.y * float((part >> 4) & 15u));
}

vec4 weights_unpack(weights w, uint quad)
{
    return bytes_unsigned((w.pairs >> (2 * quad)) & 0x03030303u);
}

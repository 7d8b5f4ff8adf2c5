// Q4_K and Q5_K: super-blocks of 256 numbers of four or five bits, eight sub-blocks of 32 with a 6-bit scale and
// minimum each.
// value = d * scale * q - dmin * minimum. Plane 0: quants in the order of weights_q4.glsl; plane 1: per
// super-block the halfs d and dmin, then words with 4 bits for each sub-block: low bits of the scales, low
// bits of the minima, upper two bits of scale and minimum; plane 2 (Q5_K): fifth bits as in weights_q5.glsl, as
// they are. A chunk is half a sub-block.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#define WEIGHTS_HAS_BIAS 1

struct weights {
    uvec2 words;
#if defined(WEIGHTS_Q5_K)
    uint high; // bit `quad` of each byte
#endif
    float scale;
    float bias;
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
    uvec4 super = weights128[(plane1 >> 2) + (index >> 4)];
    uvec3 part = super.yzw >> ((index & 14u) * 2u);
    float scale = float((part.x & 15u) | ((part.z & 3u) << 4));
    float minimum = float((part.y & 15u) | ((part.z & 12u) << 2));
    vec2 d = half_pair(super.x);
    // Products of 11 and 6 bits: exact.
#if defined(WEIGHTS_Q5_K)
    return weights(weights64[index], weights32[plane2 + (index >> 1)] >> (4 * (index & 1u)),
                   d.x * scale, -d.y * minimum);
#else
    return weights(weights64[index], d.x * scale, -d.y * minimum);
#endif
}

vec4 weights_unpack(weights w, uint quad)
{
    uint q = (w.words[quad >> 1] >> (4 * (quad & 1u))) & 0x0f0f0f0fu;
#if defined(WEIGHTS_Q5_K)
    q |= ((w.high >> quad) & 0x01010101u) << 4;
#endif
    return bytes_unsigned(q);
}

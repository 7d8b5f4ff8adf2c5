// Q3_K: super-blocks of 256 signed three-bit numbers; value = d * (scale - 32) * q, a 6-bit scale for each 16.
// Plane 0: low two bits as in weights_q2_k.glsl; plane 1: a word with the third bits of 32 weights as the fifth
// bits in weights_q5.glsl, inverted, which makes the number signed; plane 2: three words a super-block, two
// with the low four bits of eight scales each, one with the upper two bits of all; plane 3: d.
// A chunk is the 16 weights of one scale.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#define WEIGHTS_HAS_BIAS 0

struct weights {
    uint pairs;
    uint high; // bit `quad` of each byte
    float scale;
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
    uint super = index >> 4, group = index & 15u;
    uint low = weights32[plane2 + super * 3 + (group >> 3)] >> (4 * (group & 7u));
    uint upper = weights32[plane2 + super * 3 + 2] >> (2 * group);
    float scale = float(int((low & 15u) | ((upper & 3u) << 4)) - 32);
    // A 32nd, because unpacking gives 32 times the weight. Exact: 11 by 6 bits.
    return weights(weights32[index], weights32[plane1 + (index >> 1)] >> (4 * (index & 1u)),
                   plane_half(plane3, super) * (scale * 0.03125));
}

// 32 times the weight: the three bits stay at the top of their byte, where the sign is.
vec4 weights_unpack(weights w, uint quad)
{
    uint low = (w.pairs >> (2 * quad)) & 0x03030303u;
    return bytes_signed((low << 5) | (((w.high >> quad) & 0x01010101u) << 7));
}

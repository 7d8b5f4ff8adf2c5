// Q6_K: super-blocks of 256 signed six-bit numbers; value = d * scale * q, a signed byte scale for each 16.
// Plane 0: low four bits in the order of weights_q4.glsl; plane 1: upper two bits, those of weight 4i + b
// of a chunk in bits 2i, 2i + 1 of byte b of its word; plane 2: scales; plane 3: d.
// A chunk is the 16 weights of one scale.
#define WEIGHTS_CHUNK 16
#define WEIGHTS_HAS_SCALE 1
#define WEIGHTS_HAS_BIAS 0

struct weights {
    uvec2 low;
    uint high;
    float scale;
};

weights weights_load(uint row, uint chunk)
{
    uint index = row * n_chunks + chunk;
    int scales = int(weights32[plane2 + (index >> 2)]);
    float scale = float((scales << (24 - 8 * int(index & 3u))) >> 24);
    // A quarter, because unpacking gives four times the weight. Exact: 11 by 8 bits.
    return weights(weights64[index], weights32[plane1 + index],
                   plane_half(plane3, index >> 4) * (scale * 0.25));
}

// Four times the weight: the six bits stay at the top of their byte, where the sign is.
vec4 weights_unpack(weights w, uint quad)
{
    uint low = w.low[quad >> 1];
    low = (quad & 1u) == 0u ? low << 2 : low >> 2;
    return bytes_signed((low & 0x3c3c3c3cu) | ((w.high << (6 - 2 * quad)) & 0xc0c0c0c0u));
}

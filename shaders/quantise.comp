#version 450
// Activations of a pass for matvec_dot.comp: blocks of 32 as signed bytes with a scale. One invocation a block
// (x), one workgroup row a row (y). A block is three uvec4: 32 bytes; then scale, sums of the bytes of the first
// and the second half. Numbers that are not finite make the scale NaN.
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint n_blocks; // of a row
    uint x_stride; // floats between rows, a multiple of 4
};

layout(set = 0, binding = 0, std430) readonly buffer X {
    vec4 x[];
};
layout(set = 0, binding = 1, std430) writeonly buffer Out {
    uvec4 quantised[];
};

void main()
{
    uint block = gl_GlobalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    if (block >= n_blocks)
        return;
    uint from = row * (x_stride / 4) + block * 8;
    vec4 values[8];
    float largest = 0.0;
    bool finite = true;
    for (uint i = 0; i < 8; i++) {
        values[i] = x[from + i];
        vec4 size = abs(values[i]);
        finite = finite && all(lessThanEqual(size, vec4(3.402823466e38)));
        largest = max(largest, max(max(size.x, size.y), max(size.z, size.w)));
    }
    // Below, the inverse would not be finite; products of such numbers vanish in any sum.
    bool vanishes = largest < 1e-35;
    precise float scale = vanishes ? 0.0 : largest / 127.0;
    precise float inverse = vanishes ? 0.0 : 127.0 / largest;
    uint words[8];
    int sums[2] = int[2](0, 0);
    for (uint i = 0; i < 8; i++) {
        ivec4 q = finite ? ivec4(roundEven(clamp(values[i] * inverse, -127.0, 127.0))) : ivec4(0);
        uvec4 bytes = uvec4(q) & 0xffu;
        words[i] = bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
        sums[i / 4] += q.x + q.y + q.z + q.w;
    }
    uint to = (row * n_blocks + block) * 3;
    quantised[to] = uvec4(words[0], words[1], words[2], words[3]);
    quantised[to + 1] = uvec4(words[4], words[5], words[6], words[7]);
    quantised[to + 2] = uvec4(finite ? floatBitsToUint(scale) : 0x7fc00000u, sums[0], sums[1], 0);
}

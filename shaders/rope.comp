#version 450
// Rotary embedding of Q and K, and the cache write of K and V, for the rows of a step.
// One invocation a pair of neighbouring elements; y = row. A row of qkv is [q][k][v]. Q is rotated in
// place; K is rotated and written to the cache at the row's position as packed halfs, V as it is.
// Pairs are (2i, 2i + 1), the "norm" order of llama-architecture files. Angles come from a table of
// (cos, sin) by position and pair, computed in double on the host: a GPU's sin is not exact for large
// arguments.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint q_pairs; // of a row: heads * head size / 2
    uint kv_pairs;
    uint head_pairs;
    uint rope_pairs; // rotated pairs of a head, at its front; the others stay as they are
    uint qkv_stride; // pairs between rows of qkv
};

layout(set = 0, binding = 0, std430) buffer Qkv {
    vec2 qkv[];
};
layout(set = 0, binding = 1, std430) writeonly buffer KCache {
    uint k_cache[];
};
layout(set = 0, binding = 2, std430) writeonly buffer VCache {
    uint v_cache[];
};
layout(set = 0, binding = 3, std430) readonly buffer Angles {
    vec2 angles[]; // [position][rope_pairs]
};

vec2 rotated(uint pair, vec2 value, uint position)
{
    uint i = pair % head_pairs;
    if (i >= rope_pairs)
        return value;
    vec2 a = angles[position * rope_pairs + i];
    precise float real = fma(value.x, a.x, -(value.y * a.y));
    precise float imaginary = fma(value.x, a.y, value.y * a.x);
    return vec2(real, imaginary);
}

void main()
{
    uint pair = gl_GlobalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    uint position = step_base() + row;
    if (pair >= q_pairs + 2 * kv_pairs)
        return;
    uint at = row * qkv_stride + pair;
    if (pair < q_pairs) {
        qkv[at] = rotated(pair, qkv[at], position);
    } else if (pair < q_pairs + kv_pairs) {
        uint k_pair = pair - q_pairs;
        k_cache[position * kv_pairs + k_pair] = packHalf2x16(rotated(k_pair, qkv[at], position));
    } else {
        v_cache[position * kv_pairs + pair - q_pairs - kv_pairs] = packHalf2x16(qkv[at]);
    }
}

#version 450
// SwiGLU: out[r][i] = silu(gate[r][i]) * up[r][i]. A row of the input is [gate][up], each `half_stride`
// floats. One invocation an element; y = row.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint n;
    uint half_stride; // floats from a row's gate to its up; a row is twice that
    uint out_stride;
};

layout(set = 0, binding = 0, std430) readonly buffer GateUp {
    float gate_up[];
};
layout(set = 0, binding = 1, std430) writeonly buffer Out {
    float gated[];
};

void main()
{
    uint i = gl_GlobalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    if (i >= n)
        return;
    uint at = row * 2 * half_stride + i;
    precise float gate = gate_up[at];
    precise float silu = gate / (1.0 + exp(-gate));
    gated[row * out_stride + i] = silu * gate_up[at + half_stride];
}

#version 450
// RMS normalisation: out[r][i] = x[r'][i] / sqrt(mean(x[r']^2) + eps) * weight[i].
// One workgroup a row (y = row). r' = r, or the step's out_first + r for the rows that get logits.
// The sum of squares: lane l adds elements l, l + L, …; then the L partial sums in order.
// Loop iterations of an invocation: 2 n / L + L; at n = 16,384, L = 32: 1,056.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 32;

layout(push_constant) uniform Push {
    uint n;
    uint x_stride; // floats between rows
    uint out_stride;
    float eps;
    uint output_rows; // 1: rows are the step's output rows
};

layout(set = 0, binding = 0, std430) readonly buffer X {
    float x[];
};
layout(set = 0, binding = 1, std430) readonly buffer Weight {
    float weight[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Out {
    float normalised[];
};

shared float partial[LANES];

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    uint from = (row + (output_rows != 0u ? step_out_first() : 0u)) * x_stride;
    uint to = row * out_stride;

    precise float sum = 0.0;
    for (uint i = lane; i < n; i += LANES)
        sum = fma(x[from + i], x[from + i], sum);
    partial[lane] = sum;
    barrier();
    precise float total = 0.0;
    for (uint l = 0; l < LANES; l++)
        total += partial[l];
    precise float scale = 1.0 / sqrt(total / float(n) + eps);
    for (uint i = lane; i < n; i += LANES) {
        precise float value = x[from + i] * scale;
        normalised[to + i] = value * weight[i];
    }
}

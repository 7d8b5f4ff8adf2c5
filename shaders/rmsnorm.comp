#version 450
// RMS normalisation: out[r][i] = x[r'][i] / sqrt(mean(x[r']^2) + eps) * weight[i].
// One workgroup a row (y = row). r' = r, or the step's out_first + r for the rows that get logits.
// The sum of squares: partial sum s adds elements s, s + SUMS, …; then the partial sums in order. So the
// order depends on SUMS, which is fixed for a class of devices, and not on LANES, which share the sums.
// Loop iterations of an invocation: 2 n / L + SUMS / L + SUMS; at n = 16,384, L = SUMS = 32: 1,057.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 32;
layout(constant_id = 1) const uint SUMS = 32;

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

shared float partial[SUMS];

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    uint from = (row + (output_rows != 0u ? step_out_first() : 0u)) * x_stride;
    uint to = row * out_stride;

    for (uint s = lane; s < SUMS; s += LANES) {
        precise float sum = 0.0;
        for (uint i = s; i < n; i += SUMS)
            sum = fma(x[from + i], x[from + i], sum);
        partial[s] = sum;
    }
    barrier();
    precise float total = 0.0;
    for (uint s = 0; s < SUMS; s++)
        total += partial[s];
    precise float scale = 1.0 / sqrt(total / float(n) + eps);
    for (uint i = lane; i < n; i += LANES) {
        precise float value = x[from + i] * scale;
        normalised[to + i] = value * weight[i];
    }
}

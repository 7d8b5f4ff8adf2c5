// Interface of the kernels that multiply by a weight matrix, matvec.comp, matvec_dot.comp,
// matvec_direct.comp, matmul.comp and matmul_cooperative.comp:
// y[r][o] = sum over k of w[o][k] * x[r][k] (+ bias[o]) (+ y[r][o]), or for SwiGLU
// y[r][o / 2] = silu(sum[o]) * sum[o + 1] of even o: the rows of gate and up alternate in w.
// An invocation has pairs of neighbouring outputs, so that it can finish such a pair by itself.

layout(push_constant) uniform Push {
    uint m;        // outputs
    uint n_chunks; // of a row of weights
    uint plane1, plane2, plane3;
    uint x_stride; // floats between rows of x and y; of x a multiple of 4
    uint y_stride;
    uint y_offset; // of output 0 in a row of y
    uint flags;    // MATVEC_*
    uint bias_offset; // of output 0 in binding 3
    float weight_scale; // of matmul_cooperative.comp: a power of two
};
#define MATVEC_ACCUMULATE 1u // add to what y holds (residual)
#define MATVEC_BIAS 2u       // add binding 3
#define MATVEC_OUT_ROWS 4u   // rows are the step's output rows
#define MATVEC_SWIGLU 8u     // outputs are pairs of gate and up; not with the two first

#include "weights.glsl"

layout(set = 0, binding = 1, std430) readonly buffer X {
#ifdef WEIGHTS_DOT
    uvec4 x[]; // as quantise.comp leaves it
#else
    vec4 x[];
#endif
};
layout(set = 0, binding = 2, std430) buffer Y {
    float y[];
};
layout(set = 0, binding = 3, std430) readonly buffer Bias {
    float bias[];
};

uint linear_rows()
{
    return (flags & MATVEC_OUT_ROWS) != 0u ? step_out_rows() : step_rows();
}

void store_output(uint output_index, uint row, float value)
{
    if (output_index >= m)
        return;
    uint at = row * y_stride + y_offset + output_index;
    if ((flags & MATVEC_BIAS) != 0u)
        value += bias[bias_offset + output_index];
    if ((flags & MATVEC_ACCUMULATE) != 0u)
        value += y[at];
    y[at] = value;
}

// Outputs output_index, which is even, and the next one.
void store_pair(uint output_index, uint row, float first, float second)
{
    if ((flags & MATVEC_SWIGLU) == 0u) {
        store_output(output_index, row, first);
        store_output(output_index + 1, row, second);
    } else if (output_index < m) {
        precise float silu = first / (1.0 + exp(-first));
        y[row * y_stride + y_offset + output_index / 2] = silu * second;
    }
}

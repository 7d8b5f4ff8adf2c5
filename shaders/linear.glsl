// Interface of the kernels that multiply by a weight matrix, matvec.comp and matmul.comp:
// y[r][o] = sum over k of w[o][k] * x[r][k] (+ bias[o]) (+ y[r][o]).

layout(push_constant) uniform Push {
    uint m;        // outputs
    uint n_chunks; // of a row of weights
    uint plane1, plane2, plane3;
    uint x_stride; // floats between rows of x and y; of x a multiple of 4
    uint y_stride;
    uint y_offset; // of output 0 in a row of y
    uint flags;    // MATVEC_*
};
#define MATVEC_ACCUMULATE 1u // add to what y holds (residual)
#define MATVEC_BIAS 2u       // add binding 3
#define MATVEC_OUT_ROWS 4u   // rows are the step's output rows

#include "weights.glsl"

layout(set = 0, binding = 1, std430) readonly buffer X {
    vec4 x[];
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
        value += bias[output_index];
    if ((flags & MATVEC_ACCUMULATE) != 0u)
        value += y[at];
    y[at] = value;
}

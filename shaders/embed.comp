#version 450
// Embedding gather: row r of the output is the table's row for the token of row r, times `scale`.
// First kernel of every pass. A table over several parts is gathered by one dispatch per part; a row
// whose token lies in another part is left alone.
//
// One invocation dequantises one chunk; workgroups in x cover a row's chunks, in y the rows. No loops
// beyond a chunk.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint first_token;   // of this part of the table
    uint n_tokens_here;
    uint n_chunks;      // of a row of the table
    uint plane1, plane2, plane3;
    uint out_stride;    // floats between rows, a multiple of 4
    float scale;
};

#include "weights.glsl"

layout(set = 0, binding = 1, std430) readonly buffer Lane {
    uint lane[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Out {
    vec4 out4[];
};

void main()
{
    uint chunk = gl_GlobalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    if (chunk >= n_chunks || row >= step_rows())
        return;
    uint token = lane[LANE_HISTORY + step_base() + row] - first_token; // wraps below the part
    if (token >= n_tokens_here)
        return;
    weights w = weights_load(token, chunk);
    for (uint quad = 0; quad < WEIGHTS_CHUNK / 4; quad++) {
        out4[row * (out_stride / 4) + chunk * (WEIGHTS_CHUNK / 4) + quad] =
            weights_value(w, quad) * scale;
    }
}

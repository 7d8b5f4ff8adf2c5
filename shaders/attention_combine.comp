#version 450
// Adds up what the parts of attention_direct.comp left for a query, in the order of the parts. One
// workgroup a head (x) and row (y). Does nothing where there is one part, which wrote the output itself.
// Loop iterations of an invocation: WORDS / LANES (1 + 3 x parts).
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"
#include "attention_cache.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 8;
layout(constant_id = 1) const uint WORDS = 32;
layout(constant_id = 2) const uint HEADS = 1; // of attention_direct's workgroups, as are ROWS
layout(constant_id = 3) const uint ROWS = 8;
layout(constant_id = 4) const uint SPLIT = 4096;

layout(set = 0, binding = 3, std430) buffer Out {
    VALUES attended[];
};

#include "attention_parts.glsl"

void main()
{
    uint row = gl_WorkGroupID.y;
    // As the workgroup of the row counted them.
    uint last_row = min(row / ROWS * ROWS + ROWS, step_rows()) - 1;
    uint n_parts = (step_base() + last_row + SPLIT) / SPLIT;
    if (n_parts == 1)
        return;
    add_parts(row, gl_WorkGroupID.x, n_parts);
}

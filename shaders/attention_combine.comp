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

void main()
{
    uint head = gl_WorkGroupID.x;
    uint row = gl_WorkGroupID.y;
    // As the workgroup of the row counted them.
    uint last_row = min(row / ROWS * ROWS + ROWS, step_rows()) - 1;
    uint n_parts = (step_base() + last_row + SPLIT) / SPLIT;
    if (n_parts == 1)
        return;
    uint at = partials_at + (row * kv_heads * group + head) * max_parts * (WORDS + 1);

    precise float maximum = -3.4e38;
    precise float total = 0.0;
    for (uint part = 0; part < n_parts; part++)
        maximum = max(maximum, attended[at + part * (WORDS + 1) + WORDS].x);
    for (uint part = 0; part < n_parts; part++) {
        VALUES part_end = attended[at + part * (WORDS + 1) + WORDS];
        total = fma(part_end.y, exp(part_end.x - maximum), total);
    }
    for (uint w = gl_LocalInvocationID.x; w < WORDS; w += LANES) {
        precise VALUES sum = VALUES(0.0);
        for (uint part = 0; part < n_parts; part++) {
            uint from = at + part * (WORDS + 1);
            sum = fma(attended[from + w], VALUES(exp(attended[from + WORDS].x - maximum)), sum);
        }
        attended[row * out_stride + head * WORDS + w] = sum / total;
    }
}

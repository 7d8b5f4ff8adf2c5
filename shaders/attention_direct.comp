#version 450
// Attention as in attention.comp, for software devices: no shared memory and no barriers, which they
// emulate at a cost, and all lanes load the same word of the cache, which they do once for all.
//
// A lane has TILE queries of its own, each with all sums of its head. A workgroup takes HEADS query
// heads of one key-value head (x), ROWS rows (y), HEADS x ROWS <= LANES x TILE, and one part of SPLIT
// positions (z). With several parts attention_combine.comp adds up what they leave.
//
// A query's positions are taken one by one, with a running maximum, so nothing depends on the queries
// beside it.
//
// Loop iterations of an invocation: the positions of a part; what is marked is unrolled.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "step_state.h"
#include "state.glsl"
#include "attention_cache.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 8;
layout(constant_id = 1) const uint WORDS = 32; // of a head in the cache
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint ROWS = 8;
layout(constant_id = 4) const uint SPLIT = 4096;
const uint TILE = (HEADS * ROWS + LANES - 1) / LANES;

// The output's rows, or the parts' sums [row][query head][part][WORDS + 1], the last of them (maximum,
// total).
layout(set = 0, binding = 3, std430) writeonly buffer Out {
    VALUES attended[];
};

void main()
{
    uint first_row = gl_WorkGroupID.y * ROWS;
    uint kv_head = gl_WorkGroupID.x * HEADS / group;
    uint n_rows = min(ROWS, step_rows() - first_row);
    uint end_positions = step_base() + first_row + n_rows;
    uint first = gl_WorkGroupID.z * SPLIT;
    if (first >= end_positions)
        return;
    uint n_parts = (end_positions + SPLIT - 1) / SPLIT;
    uint end = min(first + SPLIT, end_positions);

    uint row[TILE];
    uint head[TILE];
    uint seen[TILE]; // positions
    bool exists[TILE];
    precise VALUES query[TILE * WORDS];
    precise VALUES sums[TILE * WORDS];
    precise float maximum[TILE];
    precise float total[TILE];
    [[unroll]] for (uint t = 0; t < TILE; t++) {
        uint i = t * LANES + gl_LocalInvocationID.x;
        exists[t] = i < n_rows * HEADS;
        row[t] = first_row + min(i / HEADS, n_rows - 1);
        head[t] = gl_WorkGroupID.x * HEADS + i % HEADS;
        seen[t] = step_base() + row[t] + 1;
        maximum[t] = -3.4e38;
        total[t] = 0.0;
        [[unroll]] for (uint w = 0; w < WORDS; w++) {
            query[t * WORDS + w] = q[row[t] * q_stride + head[t] * WORDS + w] * scale;
            sums[t * WORDS + w] = VALUES(0.0);
        }
    }

    for (uint position = first; position < end; position++) {
        uint at = (position * kv_heads + kv_head) * WORDS;
        precise float score[TILE];
        precise VALUES partial[TILE];
        [[unroll]] for (uint t = 0; t < TILE; t++) {
            score[t] = 0.0;
            partial[t] = VALUES(0.0);
        }
        [[unroll]] for (uint w = 0; w < WORDS; w++) {
            VALUES k = unpacked(k_cache[at + w]);
            [[unroll]] for (uint t = 0; t < TILE; t++)
                partial[t] = fma(query[t * WORDS + w], k, partial[t]);
#ifdef CACHE_Q8_0
            if (w % BLOCK_WORDS == BLOCK_WORDS - 1) {
                float k_scale = uintBitsToFloat(k_cache[scales_at + (at + w) / BLOCK_WORDS]);
                [[unroll]] for (uint t = 0; t < TILE; t++) {
                    score[t] = fma(k_scale, sum_of(partial[t]), score[t]);
                    partial[t] = VALUES(0.0);
                }
            }
#endif
        }
        [[unroll]] for (uint t = 0; t < TILE; t++) {
#ifndef CACHE_Q8_0
            score[t] = sum_of(partial[t]);
#endif
            if (position < seen[t] && score[t] > maximum[t]) { // rare
                precise float factor = exp(maximum[t] - score[t]);
                maximum[t] = score[t];
                total[t] *= factor;
                [[unroll]] for (uint w = 0; w < WORDS; w++)
                    sums[t * WORDS + w] *= factor;
            }
            score[t] = position < seen[t] ? exp(score[t] - maximum[t]) : 0.0;
            total[t] += score[t];
        }
        [[unroll]] for (uint w = 0; w < WORDS; w++) {
            VALUES v = unpacked(v_cache[at + w]);
#ifdef CACHE_Q8_0
            v *= uintBitsToFloat(v_cache[scales_at + (at + w) / BLOCK_WORDS]);
#endif
            [[unroll]] for (uint t = 0; t < TILE; t++)
                sums[t * WORDS + w] = fma(VALUES(score[t]), v, sums[t * WORDS + w]);
        }
    }

    [[unroll]] for (uint t = 0; t < TILE; t++) {
        if (!exists[t])
            continue;
        uint to = row[t] * out_stride + head[t] * WORDS;
        precise float divisor = total[t];
        if (n_parts > 1) {
            to = partials_at + ((row[t] * kv_heads * group + head[t]) * max_parts +
                                gl_WorkGroupID.z) * (WORDS + 1);
            divisor = 1.0;
            VALUES part_end = VALUES(0.0);
            part_end.x = maximum[t];
            part_end.y = total[t];
            attended[to + WORDS] = part_end;
        }
        [[unroll]] for (uint w = 0; w < WORDS; w++)
            attended[to + w] = sums[t * WORDS + w] / divisor;
    }
}

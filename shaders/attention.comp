#version 450
// Causal attention of one query row and head over the cached positions 0..base + row.
// One workgroup a head (x) and row (y). Positions are taken in pages of PAGE by absolute position, with
// a running maximum (online softmax): per page the lanes share the positions for the scores, then the
// pairs of the head for the sum of values. The order of summation depends on the position alone, not on
// the rows of the pass.
// Loop iterations of an invocation: pages x (PAGE / L x P / 4 + PAGE / 4 + PAGE), P = HEAD_PAIRS; with
// PAGE = L = 32, head size 128: 56 a page, 1,070 pages (34,000 positions) under 60,000.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 32;
layout(constant_id = 1) const uint HEAD_PAIRS = 32;
layout(constant_id = 2) const uint PAGE = 32;
const uint PAIRS_PER_LANE = (HEAD_PAIRS + LANES - 1) / LANES;

layout(push_constant) uniform Push {
    uint group;    // query heads of one key-value head
    uint kv_pairs; // of a position in the caches
    uint q_stride; // pairs between rows of q
    uint out_stride; // pairs between rows of the output
    float scale;
};

layout(set = 0, binding = 0, std430) readonly buffer Q {
    vec2 q[];
};
layout(set = 0, binding = 1, std430) readonly buffer KCache {
    uint k_cache[];
};
layout(set = 0, binding = 2, std430) readonly buffer VCache {
    uint v_cache[];
};
layout(set = 0, binding = 3, std430) writeonly buffer Out {
    vec2 attended[];
};

shared vec2 query[HEAD_PAIRS];
shared float scores[PAGE];

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint head = gl_WorkGroupID.x;
    uint row = gl_WorkGroupID.y;
    uint n_positions = step_base() + row + 1;
    uint kv = (head / group) * HEAD_PAIRS;

    for (uint i = lane; i < HEAD_PAIRS; i += LANES)
        query[i] = q[row * q_stride + head * HEAD_PAIRS + i] * scale;

    precise float maximum = -3.4e38;
    precise float total = 0.0;
    precise vec2 sums[PAIRS_PER_LANE];
    for (uint i = 0; i < PAIRS_PER_LANE; i++)
        sums[i] = vec2(0.0);

    for (uint first = 0; first < n_positions; first += PAGE) {
        barrier(); // the query is there; the last page's scores have been read
        uint n_here = min(PAGE, n_positions - first);
        for (uint j = lane; j < n_here; j += LANES) {
            uint at = (first + j) * kv_pairs + kv;
            precise float score = 0.0;
            for (uint i = 0; i < HEAD_PAIRS; i++) {
                vec2 k = unpackHalf2x16(k_cache[at + i]);
                score = fma(query[i].x, k.x, score);
                score = fma(query[i].y, k.y, score);
            }
            scores[j] = score;
        }
        barrier();
        precise float page_maximum = maximum;
        for (uint j = 0; j < n_here; j++)
            page_maximum = max(page_maximum, scores[j]);
        precise float factor = exp(maximum - page_maximum);
        maximum = page_maximum;
        barrier(); // all lanes have the maximum: scores become weights
        for (uint j = lane; j < n_here; j += LANES)
            scores[j] = exp(scores[j] - maximum);
        barrier();
        total *= factor;
        for (uint i = 0; i < PAIRS_PER_LANE; i++)
            sums[i] *= factor;
        for (uint j = 0; j < n_here; j++) {
            float weight = scores[j];
            total += weight;
            uint at = (first + j) * kv_pairs + kv;
            for (uint i = 0; i < PAIRS_PER_LANE; i++) {
                uint pair = min(lane + i * LANES, HEAD_PAIRS - 1);
                vec2 v = unpackHalf2x16(v_cache[at + pair]);
                sums[i].x = fma(weight, v.x, sums[i].x);
                sums[i].y = fma(weight, v.y, sums[i].y);
            }
        }
    }

    for (uint i = 0; i < PAIRS_PER_LANE; i++) {
        uint pair = lane + i * LANES;
        if (pair < HEAD_PAIRS)
            attended[row * out_stride + head * HEAD_PAIRS + pair] = sums[i] / total;
    }
}

#version 450
// Begins a pass of a lane: from the host's request or the session's exchange buffer it sets the step
// state (rows, positions, tokens) and writes the arguments of the pass's indirect dispatches. A pass with
// nothing to do gets zero workgroups everywhere. One workgroup.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"

layout(local_size_x = 32, local_size_y = 1, local_size_z = 1) in;
const uint LANES = 32;

layout(push_constant) uniform Push {
    uint mode;    // BEGIN_*
    uint n_grids; // entries of the grid table
};

layout(set = 0, binding = 0, std430) buffer Lane {
    uint lane_words[];
};
layout(set = 0, binding = 1, std430) buffer Exchange {
    uint exchange[];
};
layout(set = 0, binding = 2, std430) readonly buffer Request {
    uint request[];
};

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint base = lane_words[S_BASE];
    uint rows = lane_words[S_ROWS];
    uint origin = lane_words[S_ORIGIN];
    uint out_first = 0;
    uint out_rows = 0;
    uint block = 0;
    uint keep = 0;

    if (mode == BEGIN_GENERATE) {
        if (lane < 8)
            lane_words[S_SEED_LOW + lane] = request[Q_SAMPLING + lane];
        if (lane == 8)
            exchange[X_N_STOPS] = min(request[Q_STOPS], uint(X_MAX_STOPS));
        if (lane < X_MAX_STOPS)
            exchange[X_STOPS + lane] = request[Q_STOPS + 1 + lane];
        if (lane == 9)
            exchange[X_DRAFTED] = 0;
        if (lane == 10)
            exchange[X_DONE] = 0;
        if (lane == 11)
            lane_words[S_STREAM] = request[Q_STREAM];
        return;
    }
    if (mode == BEGIN_REQUEST || mode == BEGIN_CHAIN) {
        base = request[Q_BASE];
        rows = request[Q_ROWS];
        origin = request[Q_ORIGIN];
        out_first = request[Q_OUT_FIRST];
        out_rows = request[Q_OUT_ROWS];
        for (uint i = lane; i < rows; i += LANES)
            lane_words[LANE_HISTORY + base + i] = request[Q_TOKENS + i];
        if (mode == BEGIN_CHAIN && lane == 0) {
            exchange[X_ROOT] = request[Q_ROOT];
            exchange[X_TOKENS] = request[Q_TOKENS + max(rows, 1u) - 1u];
            exchange[X_DRAFTED] = 0;
            exchange[X_DONE] = 0;
            exchange[X_SURVIVAL] = floatBitsToUint(1.0);
        }
        if (mode == BEGIN_CHAIN) {
            block = request[Q_ROOT];
            keep = 1;
        }
    } else if (mode == BEGIN_OUTPUT) {
        out_first = request[Q_OUT_FIRST];
        out_rows = request[Q_OUT_ROWS];
    } else if (mode == BEGIN_DRAFT) {
        uint drafted = exchange[X_DRAFTED];
        base = exchange[X_ROOT] + drafted - origin;
        if (lane == 0)
            lane_words[LANE_HISTORY + base] = exchange[X_TOKENS + drafted];
        rows = exchange[X_DONE] != 0 || request[Q_CANCEL] != 0 || drafted + 1 >= MAX_ROWS ? 0 : 1;
        out_rows = rows;
        block = exchange[X_ROOT];
        keep = 1 + drafted;
    } else { // BEGIN_VERIFY, BEGIN_PROPOSED
        uint drafted = exchange[X_DRAFTED];
        if (mode == BEGIN_PROPOSED) {
            drafted = min(request[Q_ROWS], uint(MAX_ROWS - 1));
            if (lane < drafted)
                exchange[X_TOKENS + 1 + lane] = request[Q_TOKENS + lane];
        }
        base = exchange[X_ROOT] - origin;
        rows = drafted + 1;
        if (lane < rows)
            lane_words[LANE_HISTORY + base + lane] =
                mode == BEGIN_PROPOSED && lane > 0 ? request[Q_TOKENS + lane - 1]
                                                   : exchange[X_TOKENS + lane];
        out_rows = rows;
        block = exchange[X_ROOT];
    }

    barrier(); // all lanes have read the old state
    if (lane == 0) {
        lane_words[S_BASE] = base;
        lane_words[S_ROWS] = rows;
        lane_words[S_OUT_FIRST] = out_first;
        lane_words[S_OUT_ROWS] = out_rows;
        lane_words[S_ORIGIN] = origin;
        lane_words[S_BLOCK] = block;
        lane_words[S_KEEP] = keep;
        if (mode == BEGIN_PROPOSED)
            exchange[X_DRAFTED] = rows - 1;
    }
    for (uint i = lane; i < n_grids; i += LANES) {
        uint grid = LANE_GRID + 4 * i;
        uint source = lane_words[grid + G_SOURCE];
        uint n = (source & 1u) == 0u ? rows : out_rows;
        uint rows_per_y = lane_words[grid + G_Y_ROWS];
        uint tile = source >> G_TILE_SHIFT;
        uint groups_y = rows_per_y == 0u ? 1u : (n + rows_per_y - 1u) / rows_per_y;
        if (tile != 0u) {
            uint mains = MAIN_TILES(n);
            uint left = n - mains * TILE_MAIN;
            groups_y = (tile == TILE_MAIN ? mains : 0u) + (tile == TILE_OF(left) ? 1u : 0u);
        }
        uint args = LANE_ARGS + 4 * i;
        lane_words[args] = n == 0u || groups_y == 0u ? 0u : lane_words[grid + G_X];
        lane_words[args + 1] = groups_y;
        uint z = lane_words[grid + G_Z];
        lane_words[args + 2] = (source & 2u) == 0u ? z : (base + rows + z - 1u) / z;
    }
}

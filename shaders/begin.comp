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
    uint out_first = 0;
    uint out_rows = 0;
    uint valid = lane_words[S_LENGTH];

    if (mode == BEGIN_GENERATE) {
        if (lane < 8)
            lane_words[S_SEED_LOW + lane] = request[Q_SAMPLING + lane];
        if (lane == 9)
            lane_words[S_LENGTH] = request[Q_LENGTH];
        if (lane == 8)
            exchange[X_N_STOPS] = min(request[Q_STOPS], uint(X_MAX_STOPS));
        if (lane < X_MAX_STOPS)
            exchange[X_STOPS + lane] = request[Q_STOPS + 1 + lane];
        if (lane == 10)
            exchange[X_DRAFTED] = 0;
        if (lane == 11)
            exchange[X_DONE] = 0;
        return;
    }
    if (mode == BEGIN_REQUEST) {
        base = request[Q_BASE];
        rows = request[Q_ROWS];
        out_first = request[Q_OUT_FIRST];
        out_rows = request[Q_OUT_ROWS];
        for (uint i = lane; i < rows; i += LANES)
            lane_words[LANE_HISTORY + base + i] = request[Q_TOKENS + i];
        valid = base + rows;
    } else if (mode == BEGIN_OUTPUT) {
        out_first = request[Q_OUT_FIRST];
        out_rows = request[Q_OUT_ROWS];
    } else if (mode == BEGIN_DRAFT) {
        // All positions up to the newest drafted token that the cache lacks: one row, or more when
        // blocks went by without this lane.
        uint drafted = exchange[X_DRAFTED];
        uint newest = exchange[X_ROOT] + drafted;
        if (lane == 0)
            lane_words[LANE_HISTORY + newest] = exchange[X_TOKENS + drafted];
        base = min(valid, newest);
        rows = newest + 1 - base;
        if (exchange[X_DONE] != 0 || drafted + 1 >= MAX_ROWS || rows > MAX_ROWS)
            rows = 0;
        out_first = rows == 0 ? 0 : rows - 1;
        out_rows = min(rows, 1u);
        valid = base + rows;
    } else { // BEGIN_VERIFY
        uint drafted = exchange[X_DRAFTED];
        base = exchange[X_ROOT];
        rows = drafted + 1;
        if (lane < rows)
            lane_words[LANE_HISTORY + base + lane] = exchange[X_TOKENS + lane];
        out_rows = rows;
        valid = base + rows;
    }

    barrier(); // all lanes have read the old state
    if (lane == 0) {
        lane_words[S_BASE] = base;
        lane_words[S_ROWS] = rows;
        lane_words[S_OUT_FIRST] = out_first;
        lane_words[S_OUT_ROWS] = out_rows;
        lane_words[S_LENGTH] = valid;
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

#version 450
// Acceptance: compares the drafted tokens of a block with those that the target chose, keeps the longest
// equal prefix and adds the target's own next token, the next root: rows behind it will be overwritten.
// Writes the block record for the host and clears the exchange buffer for the next block. One invocation.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"

layout(local_size_x = 1, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint mode; // ACCEPT_*
};

layout(set = 0, binding = 0, std430) buffer Target {
    uint target[];
};
layout(set = 0, binding = 1, std430) buffer Exchange {
    uint exchange[];
};
layout(set = 0, binding = 2, std430) writeonly buffer Record {
    uint record[];
};

void main()
{
    uint drafted = mode == ACCEPT_FIRST ? 0 : exchange[X_DRAFTED];
    uint origin = target[S_ORIGIN];
    uint root = mode == ACCEPT_FIRST ? target[S_BASE] + target[S_OUT_FIRST] + origin : exchange[X_ROOT];
    uint accepted = 0;
    while (accepted < drafted &&
           exchange[X_TOKENS + 1 + accepted] == target[LANE_RESULTS + R_TOKEN + accepted])
        accepted++;

    uint not_finite = 0;
    for (uint i = 0; i <= accepted; i++) {
        if (target[LANE_RESULTS + R_PROBABILITY + i] == 0)
            not_finite++;
        uint token = target[LANE_RESULTS + R_TOKEN + i];
        record[B_TOKENS + i] = token;
        target[LANE_HISTORY + root + 1 + i - origin] = token;
    }
    for (uint i = 0; i < drafted; i++)
        record[B_PROBABILITIES + i] = exchange[X_PROBABILITIES + i];

    record[B_REJECTED] = accepted < drafted ? exchange[X_TOKENS + 1 + accepted] : ~0u;

    uint new_root = root + accepted + 1;
    exchange[X_ROOT] = new_root;
    exchange[X_TOKENS] = target[LANE_RESULTS + R_TOKEN + accepted];
    exchange[X_DRAFTED] = 0;
    exchange[X_DONE] = 0;
    record[B_DRAFTED] = drafted;
    record[B_ACCEPTED] = accepted;
    record[B_EMITTED] = accepted + 1;
    record[B_ROOT] = new_root;
    record[B_NOT_FINITE] = not_finite;
}

#version 450
// Verification by the ratio of probabilities, its end: how many drafted tokens are kept, by the tests of
// residual.comp. What the target is said to have chosen is set so that accept.comp, which compares, comes
// to the same: the kept tokens, and the correction behind them. Rows behind that stay the target's own
// draws: should the correction happen to be the drafted token, which after a miss of a block can be, then
// the text goes on with the target's own, and still is the target's. One invocation.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"

layout(local_size_x = 1, local_size_y = 1, local_size_z = 1) in;

layout(push_constant) uniform Push {
    uint rule; // RULE_*
};

layout(set = 0, binding = 0, std430) buffer Target {
    uint target[];
};
layout(set = 0, binding = 1, std430) readonly buffer Exchange {
    uint exchange[];
};

void main()
{
    uint drafted = min(exchange[X_DRAFTED], uint(MAX_ROWS - 1));
    uint kept = 0;
    for (uint i = 0; i < drafted; i++) {
        bool passes = exchange[X_PASSES + i] != 0;
        if (passes)
            kept = i + 1;
        else if (rule == RULE_REJECTION)
            break;
    }
    for (uint i = 0; i < kept; i++)
        target[LANE_RESULTS + R_TOKEN + i] = exchange[X_TOKENS + 1 + i];
    if (kept < drafted) // else the target's own draw
        target[LANE_RESULTS + R_TOKEN + kept] = exchange[X_RESIDUALS + kept];
}

#version 450
// Ends a draft step: the token that the draft lane sampled becomes the next drafted token of the block.
// A stop token ends the draft early: the steps after it do nothing. One invocation.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"

layout(local_size_x = 1, local_size_y = 1, local_size_z = 1) in;

layout(set = 0, binding = 0, std430) readonly buffer Lane {
    uint lane_words[];
};
layout(set = 0, binding = 1, std430) buffer Exchange {
    uint exchange[];
};

void main()
{
    if (lane_words[S_OUT_ROWS] == 0)
        return;
    uint drafted = exchange[X_DRAFTED];
    uint token = lane_words[LANE_RESULTS + R_TOKEN];
    exchange[X_TOKENS + 1 + drafted] = token;
    exchange[X_PROBABILITIES + drafted] = lane_words[LANE_RESULTS + R_PROBABILITY];
    exchange[X_DRAFTED] = drafted + 1;
    for (uint i = 0; i < exchange[X_N_STOPS]; i++)
        if (exchange[X_STOPS + i] == token)
            exchange[X_DONE] = 1;
}

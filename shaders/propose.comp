#version 450
// Ends a draft step: the token that the draft lane sampled becomes the next drafted token of the chain. A
// stop token ends the chain early, and so does a survival, the product of the chances of acceptance that
// the draft's own probabilities stand for, under the request's: the steps after it do nothing. One
// invocation.
#extension GL_GOOGLE_include_directive : require
#include "calibration_bands.h"
#include "step_state.h"

layout(local_size_x = 1, local_size_y = 1, local_size_z = 1) in;

layout(set = 0, binding = 0, std430) readonly buffer Lane {
    uint lane_words[];
};
layout(set = 0, binding = 1, std430) buffer Exchange {
    uint exchange[];
};
layout(set = 0, binding = 2, std430) readonly buffer Request {
    uint request[];
};

uint band_of(float probability)
{
    const float limits[CALIBRATION_BANDS - 1] = float[](CALIBRATION_LIMITS);
    uint band = 0;
    while (band < CALIBRATION_BANDS - 1 && probability >= limits[band])
        band++;
    return band;
}

void main()
{
    if (lane_words[S_OUT_ROWS] == 0)
        return;
    uint drafted = exchange[X_DRAFTED];
    uint token = lane_words[LANE_RESULTS + R_TOKEN];
    uint probability = lane_words[LANE_RESULTS + R_PROBABILITY];
    uint band = band_of(uintBitsToFloat(probability));
    float survival =
        uintBitsToFloat(exchange[X_SURVIVAL]) * uintBitsToFloat(request[Q_BANDS + band]);
    exchange[X_TOKENS + 1 + drafted] = token;
    exchange[X_PROBABILITIES + drafted] = probability;
    exchange[X_DRAFTED] = drafted + 1;
    exchange[X_SURVIVAL] = floatBitsToUint(survival);
    if (survival < uintBitsToFloat(request[Q_SURVIVAL + drafted]))
        exchange[X_DONE] = 1;
    for (uint i = 0; i < exchange[X_N_STOPS]; i++)
        if (exchange[X_STOPS + i] == token)
            exchange[X_DONE] = 1;
}

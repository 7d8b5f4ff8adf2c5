#version 450
// Verification by the ratio of probabilities: what becomes of a block's drafted tokens x_1 .. x_n, for each
// number i of kept ones. One workgroup an i (y = i, 0 to n), all at once; decide.comp then picks one.
//
// p_i(v), q_i(v): the target's and the draft's probability of token v behind x_1 .. x_i, as sample.comp
// left them: target rows 0 .. n, draft rows 1 .. n. A miss behind i kept tokens is corrected by a token
// drawn from the residual
//     r_i(v) = max(w_i p_i(v) - q_i(v), 0) / S_i,   S_i = sum over v of max(w_i p_i(v) - q_i(v), 0).
//
// RULE_REJECTION, token by token (Leviathan et al. 2023, Chen et al. 2023): w_i = 1, and x_i passes with
// probability min(1, p_{i-1}(x_i) / q_{i-1}(x_i)). Kept are the tokens before the first that does not.
//
// RULE_BLOCK (Sun et al., "Block verification accelerates speculative decoding", arXiv:2403.10444, its
// algorithm for a whole block):
//     w_0 = 1,  w_i = min(1, w_{i-1} p_{i-1}(x_i) / q_{i-1}(x_i)),
//     x_1 .. x_i pass together with probability h_i = S_i / (S_i + 1 - w_i), i < n;  h_n = w_n.
// Kept is the longest prefix that passes. Why this is the target's distribution: let K be the number kept.
// Then P(K >= i | x_1 .. x_i) = w_i, by induction from i = n, where it is h_n. For i < n let
// m = sum over v of min(w_i p_i(v), q_i(v)), which by the hypothesis is P(K >= i + 1 | x_1 .. x_i), as
// x_{i+1} comes from q_i and q_i(v) w_{i+1} = min(q_i(v), w_i p_i(v)). Now S_i = w_i - m, so that
// h_i = (w_i - m) / (1 - m), and P(K >= i | x_1 .. x_i) = m + (1 - m) h_i = w_i. Behind x_1 .. x_i the
// token v is given out with min(w_i p_i(v), q_i(v)) as a drafted one, and with
// (1 - m) h_i r_i(v) = max(w_i p_i(v) - q_i(v), 0) as a correction: together w_i p_i(v), and with K = n it
// is w_n p_n(v). Whoever reaches x_1 .. x_i otherwise, with a correction, goes on from the target alone.
// The same holds where a chain's length depends on its own tokens (stop tokens, early stop), as a prefix
// without a next token is an end like i = n.
//
// Whether a block verification keeps x_1 .. x_i depends on tokens behind them, which will be drafted anew
// when it does not: so every block needs fresh random numbers at the same positions (S_BLOCK).
//
// A draft row without any probability is no distribution (the draft's logits were not finite): the chain
// ends before it, X_PROBABILITIES of its token being 0. Where S_i is 0, rounded, the residual is p_i.
//
// Loop iterations of an invocation: n_vocab / 4 LANES, and 17.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"
#include "uint64.glsl"
#include "philox.glsl"
#include "best.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 128;

layout(push_constant) uniform Push {
    uint rule;    // RULE_*
    uint n_vocab; // of both models
    uint target_stride; // floats between rows
    uint draft_stride;
    uint residual_stream; // NOISE_RESIDUAL; a test plants others
};

layout(set = 0, binding = 0, std430) readonly buffer Target {
    float p[];
};
layout(set = 0, binding = 1, std430) readonly buffer Draft {
    float q[];
};
layout(set = 0, binding = 2, std430) readonly buffer Lane {
    uint lane_words[];
};
layout(set = 0, binding = 3, std430) buffer Exchange {
    uint exchange[];
};

shared uint sum_low;
shared uint sum_high;

// Behind i kept tokens.
float p_of(uint i, uint token)
{
    return token < n_vocab ? p[i * target_stride + token] : 0.0;
}

float q_of(uint i, uint token)
{
    return token < n_vocab ? q[(i + 1u) * draft_stride + token] : 0.0;
}

// Drafted token i + 1: p / q, at most 1.
float ratio(uint i, float weight)
{
    uint token = exchange[X_TOKENS + 1u + i];
    precise float theirs = weight * p_of(i, token);
    float ours = q_of(i, token);
    return ours > 0.0 ? min(theirs / ours, 1.0) : 0.0;
}

// The part of the residual that an invocation has seen.
struct part {
    uvec2 best; // key and id of the token drawn
    uvec2 sum;
};

void take(inout part own, uint token, float weight, float score)
{
    if (!(weight > 0.0))
        return;
    keep_better(own.best, key_of(score), token);
    own.sum = add64(own.sum, to_units(weight));
}

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint i = gl_WorkGroupID.y;
    uint drafted = min(exchange[X_DRAFTED], uint(MAX_ROWS - 1));
    uint n = 0u; // of them, those from a distribution
    while (n < drafted && uintBitsToFloat(exchange[X_PROBABILITIES + n]) > 0.0)
        n++;
    if (i > drafted)
        return;

    uint root = exchange[X_ROOT];
    uvec2 seed = uvec2(state_words[S_SEED_LOW / 4][S_SEED_LOW % 4],
                       state_words[S_SEED_HIGH / 4][S_SEED_HIGH % 4]);
    float w = 1.0;
    if (rule == RULE_BLOCK)
        for (uint j = 0u; j < min(i, n); j++)
            w = ratio(j, w);
    else if (i > 0u)
        w = ratio(i - 1u, 1.0); // of the test; the residual's is 1
    float scale = rule == RULE_BLOCK ? w : 1.0;

    // The residual behind i tokens, and a token of it: argmax of ln(weight) + noise.
    part own = part(uvec2(0u, 0xffffffffu), uvec2(0u));
    for (uint v = lane; v < n_vocab && i < n; v += 4u * LANES) {
        uvec4 tokens = v + uvec4(0u, LANES, 2u * LANES, 3u * LANES);
        precise vec4 weight =
            scale * vec4(p_of(i, tokens.x), p_of(i, tokens.y), p_of(i, tokens.z), p_of(i, tokens.w)) -
            vec4(q_of(i, tokens.x), q_of(i, tokens.y), q_of(i, tokens.z), q_of(i, tokens.w));
        // What is no normal number is too small to be drawn.
        weight = mix(vec4(0.0), weight, greaterThanEqual(weight, vec4(1.1754944e-38)));
        if (weight == vec4(0.0))
            continue;
        precise vec4 score =
            natural_log(max(weight, vec4(1.1754944e-38))) +
            gumbel(noise_words(seed, root + i + 1u, tokens, uvec2(residual_stream, root)));
        take(own, tokens.x, weight.x, score.x);
        take(own, tokens.y, weight.y, score.y);
        take(own, tokens.z, weight.z, score.z);
        take(own, tokens.w, weight.w, score.w);
    }
    if (lane == 0u) {
        sum_low = 0u;
        sum_high = 0u;
    }
    barrier();
    uint before = atomicAdd(sum_low, own.sum.x);
    uint high = own.sum.y + (before + own.sum.x < before ? 1u : 0u);
    if (high != 0u)
        atomicAdd(sum_high, high);
    best_of_all(own.best.x, own.best.y);
    if (lane != 0u)
        return;

    uvec2 sum = uvec2(sum_low, sum_high);
    exchange[X_RESIDUALS + i] = sum == uvec2(0u) ? lane_words[LANE_RESULTS + R_TOKEN + i] : best_id;
    if (i == 0u)
        return;
    float chance = w;
    if (rule == RULE_BLOCK && i < n) {
        precise float s = from_units(sum);
        precise float others = s + (1.0 - w);
        chance = others > 0.0 ? s / others : 1.0; // 0 / 0: p and q are the same, and w is 1
    }
    // 23 bits and a half are exact, so that a chance of 0 never and of 1 always succeeds.
    uint word = noise_words(seed, root + i, uvec4(0u), uvec2(NOISE_ACCEPT, root)).x;
    precise float uniform01 = (float(word >> 9) + 0.5) * 1.1920928955078125e-7;
    exchange[X_PASSES + i - 1u] = i <= n && uniform01 < chance ? 1u : 0u;
}

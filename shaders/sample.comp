#version 450
// Chooses the token of each output row: repetition penalty, top-k, top-p, min-p, temperature, and the
// argmax of logit / T + Gumbel noise. One workgroup an output row (y = row). Output row r follows the
// context up to position p = base + out_first + r of the history and chooses the token at p + 1.
//
// Order of tokens: higher logit first, then lower id. Every set that is kept is a prefix of it, given by
// a cut (key, id). Cuts are found by walks: the 8-bit digits of a sort value from the top, with a
// histogram of weights over the next digit. Weights are integers (1 for top-k; exp(logit - highest) in
// units of 2^-42 for top-p), so sums do not depend on their order, and the result depends neither on the
// number of rows nor on LANES. NaN and -inf are in no set; +inf counts as the greatest finite number,
// and its choice has probability 0.
// Once the walk of top-k has few enough candidates, they are listed in shared memory, and the later
// passes look at the list alone.
//
// With a noise stream of its own (S_STREAM) the row's probabilities are left behind as well, for
// residual.comp.
//
// Loop iterations of an invocation: at most 15 passes of ceil(n / 4 LANES) [peak 1, top-k 4 and list 1,
// mass 1, top-p 4, ids 3, choice 1], one of n / 16 LANES [probabilities], 11 digits of 256 / LANES + 48,
// 22 for ties, and for the penalty 512 / LANES times 129. At n = 262,144: LANES 128: 9,100; LANES 32:
// 34,000. n is at most 2^21 for the sums; passes stay under the budget up to n = 440,000 at LANES 32.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"
#include "uint64.glsl"
#include "best.glsl"
#include "philox.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 128;

layout(push_constant) uniform Push {
    uint n_vocab;
    uint row_stride; // floats between rows of logits
};

// coherent: the penalties that one invocation writes are read by others.
layout(set = 0, binding = 0, std430) coherent buffer Logits {
    float logits[];
};
layout(set = 0, binding = 1, std430) buffer Lane {
    uint lane_words[];
};

#define MAX_WINDOW 512
#define LIST_CAPACITY 512

// What a walk sorts by (highest first) and what it adds up.
#define BY_COUNT 0 // key; tokens
#define BY_MASS 1  // key; exp(logit - highest)
#define BY_ID 2    // among tokens of one key, the lower id first; tokens

shared uint bins_low[256];
shared uint bins_high[256];
shared uint parts_low[16]; // of 16 bins each
shared uint parts_high[16];
shared uint chosen[5]; // digit, rest and bin of walk()
shared uint n_listed;
shared uint list_key[LIST_CAPACITY];
shared uint list_id[LIST_CAPACITY]; // first used for the penalty's window

// The same in all invocations.
uint row_start;
uint n_items;        // of a pass
bool listed = false; // a pass goes over the list, not the row
float peak;          // highest logit

// ---------------------------------------------------------------------------------------- bins

// The carry is counted by whoever causes it, so the sum is exact in any order.
void bin_add(uint bin, uvec2 weight)
{
    uint before = atomicAdd(bins_low[bin], weight.x);
    uint high = weight.y + (before + weight.x < before ? 1u : 0u);
    if (high != 0u)
        atomicAdd(bins_high[bin], high);
}

void bins_clear()
{
    barrier(); // the bins may still be read
    for (uint i = gl_LocalInvocationID.x; i < 256u; i += LANES) {
        bins_low[i] = 0u;
        bins_high[i] = 0u;
    }
    barrier();
}

// --------------------------------------------------------------------------------------- items

// Item i of a pass: x its key, y its token id.
uvec2 item(uint i)
{
    if (i >= n_items)
        return uvec2(0u);
    if (listed)
        return uvec2(list_key[i], list_id[i]);
    return uvec2(key_of(logits[row_start + i]), i);
}

// (value - peak) / T; 0 for the peak whatever T is.
float tempered(float value, float t)
{
    precise float below = value - peak;
    precise float result = below == 0.0 ? 0.0 : below / t;
    return result;
}

// exp(x), x <= 0, in units of 2^-42.
uvec2 mass(float x)
{
    return to_units(exp(x));
}

// ----------------------------------------------------------------------------------- penalties

// Each distinct token of the window once: logits above zero are divided, others multiplied.
void penalise(uint position, uint last_n, float penalty)
{
    uint n = min(min(last_n, uint(MAX_WINDOW)), position + 1u);
    for (uint i = gl_LocalInvocationID.x; i < n; i += LANES)
        list_id[i] = lane_words[LANE_HISTORY + position - i];
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < n; i += LANES) {
        uint token = list_id[i];
        bool first = token < n_vocab;
        for (uint j = 0u; j < i && first; j += 4u) {
            first = list_id[j] != token && (j + 1u >= i || list_id[j + 1u] != token) &&
                    (j + 2u >= i || list_id[j + 2u] != token) &&
                    (j + 3u >= i || list_id[j + 3u] != token);
        }
        if (first) {
            float value = logits[row_start + token];
            logits[row_start + token] = value > 0.0 ? value / penalty : value * penalty;
        }
    }
    memoryBarrierBuffer();
    barrier();
}

// --------------------------------------------------------------------------------------- walks

void list_item(uvec2 it, uint lowest)
{
    if (it.x < lowest)
        return;
    uint i = atomicAdd(n_listed, 1u);
    if (i < uint(LIST_CAPACITY)) {
        list_key[i] = it.x;
        list_id[i] = it.y;
    }
}

// Lists all items of key `lowest` and above. The list's order is left to chance; nothing depends on it.
void list_items(uint lowest)
{
    if (gl_LocalInvocationID.x == 0u)
        n_listed = 0u;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < n_items; i += 4u * LANES) {
        list_item(item(i), lowest);
        list_item(item(i + LANES), lowest);
        list_item(item(i + 2u * LANES), lowest);
        list_item(item(i + 3u * LANES), lowest);
    }
    barrier();
    n_items = min(n_listed, uint(LIST_CAPACITY));
    listed = true;
}

void tally(uvec2 it, uint mode, uint from_key, uint shift, uint prefix)
{
    bool inside = mode == BY_ID ? it.x == from_key : it.x >= from_key;
    uint value = mode == BY_ID ? n_vocab - 1u - it.y : it.x;
    if (!inside || (value >> shift) >> 8 != prefix)
        return;
    bin_add((value >> shift) & 255u,
            mode == BY_MASS ? mass(value_of(it.x) - peak) : uvec2(1u, 0u));
}

// The sort value at which the weights of the items from the highest down reach a target.
struct walk_end {
    uint value; // 0: they do not
    uvec2 rest; // what is still missing above the items of this value
    uvec2 bin;  // weight of the items of this value
};

// Items: from_key and above; for BY_ID those of from_key.
walk_end walk(uint mode, uint from_key, uint first_shift, uvec2 target)
{
    uint lane = gl_LocalInvocationID.x;
    walk_end end = walk_end(0u, target, uvec2(0u));
    for (int s = int(first_shift); s >= 0; s -= 8) {
        uint shift = uint(s);
        bins_clear();
        for (uint i = lane; i < n_items; i += 4u * LANES) {
            tally(item(i), mode, from_key, shift, end.value);
            tally(item(i + LANES), mode, from_key, shift, end.value);
            tally(item(i + 2u * LANES), mode, from_key, shift, end.value);
            tally(item(i + 3u * LANES), mode, from_key, shift, end.value);
        }
        barrier();
        if (lane < 16u) {
            uvec2 sum = uvec2(0u);
            for (uint i = 0u; i < 16u; i++)
                sum = add64(sum, uvec2(bins_low[16u * lane + i], bins_high[16u * lane + i]));
            parts_low[lane] = sum.x;
            parts_high[lane] = sum.y;
        }
        barrier();
        if (lane == 0u) {
            uvec2 rest = end.rest;
            uint part = 15u;
            for (; part > 0u; part--) {
                uvec2 sum = uvec2(parts_low[part], parts_high[part]);
                if (!less64(sum, rest))
                    break;
                rest = subtract64(rest, sum);
            }
            uint digit = 16u * part + 15u;
            for (; digit > 16u * part; digit--) {
                uvec2 sum = uvec2(bins_low[digit], bins_high[digit]);
                if (!less64(sum, rest))
                    break;
                rest = subtract64(rest, sum);
            }
            chosen[0] = digit;
            chosen[1] = rest.x;
            chosen[2] = rest.y;
            chosen[3] = bins_low[digit];
            chosen[4] = bins_high[digit];
        }
        barrier();
        end = walk_end(end.value << 8 | chosen[0], uvec2(chosen[1], chosen[2]),
                       uvec2(chosen[3], chosen[4]));
        if (mode == BY_COUNT && !listed) {
            uint n_above = target.x - end.rest.x + end.bin.x;
            if (n_above <= uint(LIST_CAPACITY))
                list_items(max(end.value << shift, from_key));
        }
    }
    return end;
}

// ---------------------------------------------------------------------------------- reductions

void mass_add(inout uvec2 sum, uvec2 it, uint from_key)
{
    if (it.x >= from_key)
        sum = add64(sum, mass(value_of(it.x) - peak));
}

// Sum over all invocations. Begins and ends with a barrier.
uvec2 total64(uvec2 own)
{
    bins_clear();
    bin_add(0u, own);
    barrier();
    return uvec2(bins_low[0], bins_high[0]);
}

// -------------------------------------------------------------------------------- kept set

// Items of a key above cut.key are kept, and those of cut.key up to id cut.id.
struct cut {
    uint key;
    uint id;
};

bool is_kept(uvec2 it, cut c)
{
    return it.x > c.key || (it.x == c.key && it.y <= c.id);
}

// The smallest n for which n * weight >= rest.
uint ties_needed(uvec2 rest, uvec2 weight)
{
    uint below = 0u; // the largest n for which it is not
    for (int bit = findMSB(n_vocab); bit >= 0; bit--) {
        uint n = below | 1u << uint(bit);
        if (less64(multiply64(weight, n), rest))
            below = n;
    }
    return below + 1u;
}

cut truncate(uint top_k, float top_p, float min_p)
{
    cut c = cut(1u, 0xffffffffu);
    uint n_ties = 0u; // of c.key, lowest ids first; 0: all
    uint n_left_out = 0u;
    if (top_k > 0u && top_k < n_vocab) {
        walk_end end = walk(BY_COUNT, 1u, 24u, uvec2(top_k, 0u));
        c.key = max(end.value, 1u);
        if (end.value != 0u && end.rest.x < end.bin.x) {
            n_ties = end.rest.x;
            n_left_out = end.bin.x - end.rest.x;
        }
    }
    if (top_p < 1.0) {
        uvec2 own = uvec2(0u);
        for (uint i = gl_LocalInvocationID.x; i < n_items; i += 4u * LANES) {
            mass_add(own, item(i), c.key);
            mass_add(own, item(i + LANES), c.key);
            mass_add(own, item(i + 2u * LANES), c.key);
            mass_add(own, item(i + 3u * LANES), c.key);
        }
        uvec2 total = total64(own);
        if (n_left_out != 0u)
            total = subtract64(total, multiply64(mass(value_of(c.key) - peak), n_left_out));
        uvec2 target = share64(total, uint(max(top_p, 0.0) * 4294967296.0));
        if (target == uvec2(0u))
            target.x = 1u;
        walk_end end = walk(BY_MASS, c.key, 24u, target);
        if (end.value > c.key)
            n_ties = 0u;
        if (end.value >= c.key) {
            c.key = end.value;
            // Not all of this key's when the others suffice without one.
            uvec2 weight = mass(value_of(c.key) - peak);
            if (!less64(end.bin, add64(end.rest, weight))) {
                uint n = ties_needed(end.rest, weight);
                n_ties = n_ties == 0u ? n : min(n, n_ties);
            }
        }
    }
    if (min_p > 0.0) {
        precise float lowest = peak + natural_log(vec4(clamp(min_p, 1.1754944e-38, 1.0))).x;
        uint key = min(key_of(lowest), key_of(peak));
        if (key > c.key) {
            c.key = key;
            n_ties = 0u;
        }
    }
    if (n_ties != 0u) {
        uint shift = uint(max(findMSB(n_vocab - 1u), 0)) & ~7u;
        c.id = n_vocab - 1u - walk(BY_ID, c.key, shift, uvec2(n_ties, 0u)).value;
    }
    return c;
}

void keep(inout uvec2 best, inout uvec2 sum, uint key, uint id, float logit)
{
    keep_better(best, key, id);
    sum = add64(sum, mass(logit));
}

float state_float(uint word)
{
    return uintBitsToFloat(state_words[word / 4u][word % 4u]);
}

uint state_uint(uint word)
{
    return state_words[word / 4u][word % 4u];
}

// ------------------------------------------------------------------------------- probabilities

void keep_probability(uint i, uint to, cut c, float temperature, float total)
{
    if (i >= n_vocab)
        return;
    uint key = key_of(logits[row_start + i]);
    bool kept = key != 0u && is_kept(uvec2(key, i), c);
    logits[to + i] = kept ? exp(tempered(value_of(key), temperature)) / total : 0.0;
}

// For verification by the ratio of probabilities: those of output row r, 0 for what is not kept, take the
// place of the logits of row S_KEEP + r. Sixteen in an iteration: see the head.
void keep_probabilities(uint r, cut c, float temperature, float total)
{
    uint to = (state_uint(S_KEEP) + r) * row_stride;
    for (uint i = gl_LocalInvocationID.x; i < n_vocab; i += 16u * LANES) {
        keep_probability(i, to, c, temperature, total);
        keep_probability(i + LANES, to, c, temperature, total);
        keep_probability(i + 2u * LANES, to, c, temperature, total);
        keep_probability(i + 3u * LANES, to, c, temperature, total);
        keep_probability(i + 4u * LANES, to, c, temperature, total);
        keep_probability(i + 5u * LANES, to, c, temperature, total);
        keep_probability(i + 6u * LANES, to, c, temperature, total);
        keep_probability(i + 7u * LANES, to, c, temperature, total);
        keep_probability(i + 8u * LANES, to, c, temperature, total);
        keep_probability(i + 9u * LANES, to, c, temperature, total);
        keep_probability(i + 10u * LANES, to, c, temperature, total);
        keep_probability(i + 11u * LANES, to, c, temperature, total);
        keep_probability(i + 12u * LANES, to, c, temperature, total);
        keep_probability(i + 13u * LANES, to, c, temperature, total);
        keep_probability(i + 14u * LANES, to, c, temperature, total);
        keep_probability(i + 15u * LANES, to, c, temperature, total);
    }
}

void main()
{
    uint lane = gl_LocalInvocationID.x;
    uint r = gl_WorkGroupID.y;
    if (r >= min(step_out_rows(), uint(MAX_ROWS)))
        return;
    uint position = step_base() + step_out_first() + r;
    row_start = r * row_stride;
    n_items = n_vocab;

    float penalty = state_float(S_PENALTY);
    if (penalty > 0.0 && penalty != 1.0)
        penalise(position, state_uint(S_LAST_N), penalty);

    uvec2 best = uvec2(0u);
    for (uint i = lane; i < n_items; i += 4u * LANES) {
        uint k0 = item(i).x;
        uint k1 = item(i + LANES).x;
        uint k2 = item(i + 2u * LANES).x;
        uint k3 = item(i + 3u * LANES).x;
        keep_better(best, k0, i);
        keep_better(best, k1, i + LANES);
        keep_better(best, k2, i + 2u * LANES);
        keep_better(best, k3, i + 3u * LANES);
    }
    best_of_all(best.x, best.y);
    if (best_key == 0u) { // no token can be chosen: the first, with probability 0
        if (lane == 0u) {
            lane_words[LANE_RESULTS + R_TOKEN + r] = 0u;
            lane_words[LANE_RESULTS + R_PROBABILITY + r] = 0u;
        }
        if (state_uint(S_STREAM) != NOISE_SHARED)
            keep_probabilities(r, cut(0xffffffffu, 0u), 1.0, 1.0);
        return;
    }
    peak = value_of(best_key);

    float temperature = state_float(S_TEMPERATURE);
    bool greedy = !(temperature > 0.0);
    cut c = cut(1u, 0xffffffffu);
    if (greedy)
        temperature = 1.0; // of the probability
    else
        c = truncate(state_uint(S_TOP_K), state_float(S_TOP_P), state_float(S_MIN_P));

    uvec2 seed = uvec2(state_uint(S_SEED_LOW), state_uint(S_SEED_HIGH));
    uvec2 stream = uvec2(state_uint(S_STREAM), state_uint(S_BLOCK));
    if (stream.x == NOISE_SHARED)
        stream.y = 0u;
    uvec2 own = uvec2(0u);
    best = uvec2(0u, 0xffffffffu);
    for (uint i = lane; i < n_items; i += 4u * LANES) {
        uvec2 items[4] = uvec2[](item(i), item(i + LANES), item(i + 2u * LANES),
                                 item(i + 3u * LANES));
        bvec4 kept = bvec4(is_kept(items[0], c), is_kept(items[1], c), is_kept(items[2], c),
                           is_kept(items[3], c));
        if (!any(kept))
            continue;
        precise vec4 logit = vec4(
            tempered(value_of(items[0].x), temperature), tempered(value_of(items[1].x), temperature),
            tempered(value_of(items[2].x), temperature), tempered(value_of(items[3].x), temperature));
        uvec4 keys = uvec4(items[0].x, items[1].x, items[2].x, items[3].x);
        if (!greedy) {
            uvec4 tokens = uvec4(items[0].y, items[1].y, items[2].y, items[3].y);
            precise vec4 score =
                logit +
                gumbel(noise_words(seed, state_uint(S_ORIGIN) + position + 1u, tokens, stream));
            keys = uvec4(key_of(score.x), key_of(score.y), key_of(score.z), key_of(score.w));
        }
        if (kept.x)
            keep(best, own, keys.x, items[0].y, logit.x);
        if (kept.y)
            keep(best, own, keys.y, items[1].y, logit.y);
        if (kept.z)
            keep(best, own, keys.z, items[2].y, logit.z);
        if (kept.w)
            keep(best, own, keys.w, items[3].y, logit.w);
    }
    uvec2 sum = total64(own);
    best_of_all(best.x, best.y);
    if (lane == 0u) {
        uint token = min(best_id, n_vocab - 1u);
        float logit = logits[row_start + token];
        float value = value_of(key_of(logit));
        precise float probability = exp(tempered(value, temperature)) / from_units(sum);
        if (floatBitsToUint(logit) == 0x7f800000u)
            probability = 0.0; // of a choice that means nothing
        lane_words[LANE_RESULTS + R_TOKEN + r] = token;
        lane_words[LANE_RESULTS + R_PROBABILITY + r] = floatBitsToUint(min(probability, 1.0));
    }
    if (state_uint(S_STREAM) != NOISE_SHARED) {
        barrier(); // the row has been read
        keep_probabilities(r, c, temperature, from_units(sum));
    }
}

#version 450
// Causal attention of query rows over the cached positions 0..base + row.
//
// A workgroup takes HEADS query heads of one key-value head (x), ROWS rows (y) and one part of SPLIT
// positions (z), so that a key or value is loaded once for HEADS x ROWS queries. Positions are taken
// in pages of PAGE, with a running maximum (online softmax): per page the lanes share the positions
// for the scores, then the words of the head for the sum of values. Where there are several parts,
// each leaves its sum, maximum and total in `attended`, and the workgroup that finishes last adds
// them up in the order of the parts.
//
// Parts and pages are of absolute position, and a query sees only its own numbers, so the order of
// summation depends neither on the rows of the pass nor on HEADS, ROWS or which part is last.
//
// Loop iterations of an invocation: for each page 1, PAGE / LANES (1 + WORDS), QUERIES / LANES
// (2 PAGE), QUERIES PAGE / LANES and PAGE / GROUPS.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 0) const uint LANES = 32;
layout(constant_id = 1) const uint WORDS = 32; // of a head in the cache
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint SPLIT = 256; // a multiple of PAGE
const uint PAGE = ATTENTION_PAGE;
const uint QUERIES = HEADS * ROWS;
const uint WORDS_PER_LANE = (WORDS + LANES - 1) / LANES;
// Lanes that sum the same words, each over its own positions of a page.
const uint GROUPS = WORDS < LANES ? LANES / WORDS : 1;

#include "attention_cache.glsl"

// The output's rows; the parts' sums [row][query head][part][WORDS + 1], the last of them (maximum,
// total); a counter of finished parts for each workgroup in x and y, 0 between dispatches.
layout(set = 0, binding = 3, std430) coherent buffer Out {
    VALUES attended[];
};
layout(set = 0, binding = 3, std430) coherent buffer Counters {
    uint counters[];
};

shared VALUES query[QUERIES * WORDS];
shared float scores[QUERIES * PAGE];
shared float maxima[QUERIES];
shared float totals[QUERIES];
shared float factors[QUERIES];
shared VALUES group_sums[LANES];
shared bool is_last;

// The workgroup's place.
uint first_row;
uint first_head;
uint kv_head;
uint end_positions; // of the last row

// Positions that query i sees.
uint positions_of(uint i)
{
    return min(step_base() + first_row + i / HEADS + 1u, end_positions);
}

void load_queries()
{
    for (uint i = gl_LocalInvocationID.x; i < QUERIES * WORDS; i += LANES) {
        uint of = i / WORDS;
        uint row = min(first_row + of / HEADS, step_rows() - 1u);
        precise VALUES value = q[row * q_stride + (first_head + of % HEADS) * WORDS + i % WORDS];
        query[i] = value * scale;
    }
    for (uint i = gl_LocalInvocationID.x; i < QUERIES; i += LANES) {
        maxima[i] = -3.4e38;
        totals[i] = 0.0;
    }
}

// Scores of the page's positions, one a lane.
void score_page(uint first, uint n_here)
{
    for (uint j = gl_LocalInvocationID.x; j < n_here; j += LANES) {
        uint at = ((first + j) * kv_heads + kv_head) * WORDS;
        precise float score[QUERIES];
        precise VALUES sums[QUERIES];
#ifdef CACHE_Q8_0
        uint scale_at = scales_at + at / BLOCK_WORDS;
        for (uint i = 0; i < QUERIES; i++)
            score[i] = 0.0;
        for (uint block = 0; block < WORDS / BLOCK_WORDS; block++) {
            for (uint i = 0; i < QUERIES; i++)
                sums[i] = VALUES(0.0);
            for (uint w = 0; w < BLOCK_WORDS; w++) {
                VALUES k = unpacked(k_cache[at + block * BLOCK_WORDS + w]);
                for (uint i = 0; i < QUERIES; i++)
                    sums[i] = fma(query[i * WORDS + block * BLOCK_WORDS + w], k, sums[i]);
            }
            float k_scale = uintBitsToFloat(k_cache[scale_at + block]);
            for (uint i = 0; i < QUERIES; i++)
                score[i] = fma(k_scale, sum_of(sums[i]), score[i]);
        }
#else
        for (uint i = 0; i < QUERIES; i++)
            sums[i] = VALUES(0.0);
        for (uint w = 0; w < WORDS; w++) {
            VALUES k = unpacked(k_cache[at + w]);
            for (uint i = 0; i < QUERIES; i++)
                sums[i] = fma(query[i * WORDS + w], k, sums[i]);
        }
        for (uint i = 0; i < QUERIES; i++)
            score[i] = sum_of(sums[i]);
#endif
        for (uint i = 0; i < QUERIES; i++)
            scores[i * PAGE + j] = score[i];
    }
}

// Scores become weights; those of positions that a query doesn't see are 0.
void weigh_page(uint first, uint n_here)
{
    uint lane = gl_LocalInvocationID.x;
    for (uint i = lane; i < QUERIES; i += LANES) {
        uint seen = positions_of(i);
        seen = seen > first ? min(seen - first, n_here) : 0u;
        precise float maximum = maxima[i];
        for (uint j = 0; j < seen; j++)
            maximum = max(maximum, scores[i * PAGE + j]);
        precise float factor = exp(maxima[i] - maximum);
        factors[i] = factor;
        maxima[i] = maximum;
    }
    barrier();
    for (uint i = lane; i < QUERIES * PAGE; i += LANES) {
        precise float weight = exp(scores[i] - maxima[i / PAGE]);
        scores[i] = first + i % PAGE < positions_of(i / PAGE) ? weight : 0.0;
    }
    barrier();
    for (uint i = lane; i < QUERIES; i += LANES) {
        precise float total = totals[i] * factors[i];
        for (uint j = 0; j < n_here; j++)
            total += scores[i * PAGE + j];
        totals[i] = total;
    }
}

#include "attention_parts.glsl"

void main()
{
    uint lane = gl_LocalInvocationID.x;
    first_head = gl_WorkGroupID.x * HEADS;
    first_row = gl_WorkGroupID.y * ROWS;
    kv_head = first_head / group;
    uint n_rows = min(ROWS, step_rows() - first_row);
    end_positions = step_base() + first_row + n_rows;
    uint n_parts = (end_positions + SPLIT - 1) / SPLIT;
    uint part = gl_WorkGroupID.z;
    if (part >= n_parts)
        return;

    load_queries();
    uint group_of_lane = GROUPS == 1 ? 0 : lane / WORDS;
    precise VALUES sums[QUERIES * WORDS_PER_LANE];
    for (uint i = 0; i < QUERIES * WORDS_PER_LANE; i++)
        sums[i] = VALUES(0.0);
    uint end = min((part + 1) * SPLIT, end_positions);
    for (uint first = part * SPLIT; first < end; first += PAGE) {
        uint n_here = min(PAGE, end - first);
        barrier(); // the queries are there; the last page's weights have been read
        score_page(first, n_here);
        barrier();
        weigh_page(first, n_here);
        for (uint i = 0; i < QUERIES; i++)
            for (uint w = 0; w < WORDS_PER_LANE; w++)
                sums[i * WORDS_PER_LANE + w] *= factors[i];
        if (group_of_lane < GROUPS) {
            for (uint j = group_of_lane; j < n_here; j += GROUPS) {
                uint at = ((first + j) * kv_heads + kv_head) * WORDS;
                for (uint w = 0; w < WORDS_PER_LANE; w++) {
                    uint word = GROUPS == 1 ? min(lane + w * LANES, WORDS - 1) : lane % WORDS;
                    VALUES v = unpacked(v_cache[at + word]);
#ifdef CACHE_Q8_0
                    v *= uintBitsToFloat(v_cache[scales_at + (at + word) / BLOCK_WORDS]);
#endif
                    for (uint i = 0; i < QUERIES; i++)
                        sums[i * WORDS_PER_LANE + w] =
                            fma(VALUES(scores[i * PAGE + j]), v, sums[i * WORDS_PER_LANE + w]);
                }
            }
        }
    }

    for (uint i = 0; i < QUERIES; i++) {
        bool written = i / HEADS < n_rows;
        uint row = first_row + i / HEADS;
        uint head = first_head + i % HEADS;
        uint to = row * out_stride + head * WORDS;
        if (n_parts > 1)
            to = partials_at + ((row * kv_heads * group + head) * max_parts + part) * (WORDS + 1u);
        if (GROUPS > 1) {
            barrier(); // the last query's sums have been read
            group_sums[lane] = sums[i];
            barrier();
        }
        for (uint w = 0; w < WORDS_PER_LANE; w++) {
            precise VALUES sum = sums[i * WORDS_PER_LANE + w];
            for (uint other = 1; other < GROUPS; other++)
                sum += group_sums[min(lane + other * WORDS, LANES - 1)];
            uint word = lane + w * LANES;
            if (n_parts == 1)
                sum /= totals[i];
            if (written && word < WORDS)
                attended[to + word] = sum;
        }
        if (n_parts > 1 && written && lane == 0) {
            VALUES part_end = VALUES(0.0);
            part_end.x = maxima[i];
            part_end.y = totals[i];
            attended[to + WORDS] = part_end;
        }
    }
    if (n_parts == 1)
        return;

    memoryBarrierBuffer();
    barrier();
    if (lane == 0) {
        uint counter = counters_at + gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
        is_last = atomicAdd(counters[counter], 1) == n_parts - 1;
        if (is_last)
            counters[counter] = 0;
    }
    barrier();
    if (!is_last)
        return;
    memoryBarrierBuffer();
    for (uint i = 0; i < QUERIES; i++)
        if (i / HEADS < n_rows)
            add_parts(first_row + i / HEADS, first_head + i % HEADS, n_parts);
}

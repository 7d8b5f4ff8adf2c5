#version 450
// Rotary embedding of Q and K, and the cache write of K and V, for the rows of a step; y = row. A row of
// qkv is [q][k][v]. Q is rotated in place, an invocation a pair of neighbouring elements; K is rotated
// and written to the cache at the row's position, V as it is, an invocation a unit: a pair, packed as
// halfs, or in a Q8_0 cache a block of 32, as signed bytes q with value = q d, d = largest / 127. What a
// half can't hold becomes the largest that it can.
// Pairs are (2i, 2i + 1), the "norm" order of llama-architecture files. Angles come from a table of
// (cos, sin) by position and pair, computed in double on the host: a GPU's sin is not exact for large
// arguments.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

#ifdef CACHE_Q8_0
#define UNIT_PAIRS 16u
#else
#define UNIT_PAIRS 1u
#endif

layout(push_constant) uniform Push {
    uint q_pairs; // of a row: heads * head size / 2
    uint kv_pairs;
    uint head_pairs;
    uint rope_pairs; // rotated pairs of a head, at its front; the others stay as they are
    uint qkv_stride; // pairs between rows of qkv
    uint scales_at;  // Q8_0: words before the scales in each cache
};

layout(set = 0, binding = 0, std430) buffer Qkv {
    vec2 qkv[];
};
layout(set = 0, binding = 1, std430) writeonly buffer KCache {
    uint k_cache[];
};
layout(set = 0, binding = 2, std430) writeonly buffer VCache {
    uint v_cache[];
};
layout(set = 0, binding = 3, std430) readonly buffer Angles {
    vec2 angles[]; // [position][rope_pairs]
};

vec2 rotated(uint pair, vec2 value, uint position)
{
    uint i = pair % head_pairs;
    if (i >= rope_pairs)
        return value;
    vec2 a = angles[position * rope_pairs + i];
    precise float real = fma(value.x, a.x, -(value.y * a.y));
    precise float imaginary = fma(value.x, a.y, value.y * a.x);
    return vec2(real, imaginary);
}

void store(bool is_k, uint at, uint word)
{
    if (is_k)
        k_cache[at] = word;
    else
        v_cache[at] = word;
}

#ifdef CACHE_Q8_0
uint byte_of(float value, float inverse)
{
    precise float scaled = value * inverse;
    return uint(int(roundEven(clamp(scaled, -127.0, 127.0)))) & 0xffu;
}
#endif

// Unit `unit` of K or V of the row whose qkv begins at `row_at`.
void write_unit(bool is_k, uint unit, uint row_at, uint position)
{
    uint from = row_at + q_pairs + (is_k ? 0u : kv_pairs) + unit * UNIT_PAIRS;
    vec2 values[UNIT_PAIRS];
    for (uint i = 0u; i < UNIT_PAIRS; i++) {
        values[i] = qkv[from + i];
        if (is_k)
            values[i] = rotated(unit * UNIT_PAIRS + i, values[i], position);
    }
    uint at = position * (kv_pairs / UNIT_PAIRS) + unit;
#ifdef CACHE_Q8_0
    float largest = 0.0;
    for (uint i = 0u; i < UNIT_PAIRS; i++)
        largest = max(largest, max(abs(values[i].x), abs(values[i].y)));
    precise float d = largest / 127.0;
    precise float inverse = largest > 1e-30 ? 127.0 / largest : 0.0;
    for (uint i = 0u; i < UNIT_PAIRS / 2u; i++) {
        vec2 low = values[2u * i];
        vec2 high = values[2u * i + 1u];
        store(is_k, at * (UNIT_PAIRS / 2u) + i,
              byte_of(low.x, inverse) | byte_of(low.y, inverse) << 8 |
                  byte_of(high.x, inverse) << 16 | byte_of(high.y, inverse) << 24);
    }
    store(is_k, scales_at + at, floatBitsToUint(d));
#else
    store(is_k, at, packHalf2x16(clamp(values[0], vec2(-65504.0), vec2(65504.0))));
#endif
}

void main()
{
    uint unit = gl_GlobalInvocationID.x;
    uint row = gl_WorkGroupID.y;
    uint position = step_base() + row;
    uint row_at = row * qkv_stride;
    uint kv_units = kv_pairs / UNIT_PAIRS;
    if (unit >= q_pairs + 2u * kv_units)
        return;
    if (unit < q_pairs)
        qkv[row_at + unit] = rotated(unit, qkv[row_at + unit], position);
    else if (unit < q_pairs + kv_units)
        write_unit(true, unit - q_pairs, row_at, position);
    else
        write_unit(false, unit - q_pairs - kv_units, row_at, position);
}

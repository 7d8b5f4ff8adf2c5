#version 450
// Matrix times matrix for prefill: y[r][o] = sum over k of w[o][k] * x[r][k] (+ bias[o]) (+ y[r][o]).
//
// One workgroup computes BM outputs for BN rows, one invocation TM x TN of them; the workgroup size
// (constant 0) is (BM / TM) * (BN / TN). Workgroups in x (folded into z) cover outputs, in y rows.
// A sum over k is one chain of fma in the order of k over dequantised weights: a row's bits depend
// neither on the number of rows nor on any size here.
//
// Slices of BK weights and activations go through shared memory, (BM + BN) * BK floats. CPU devices use
// matvec_direct.comp instead.
//
// Loop iterations of an invocation: k / BK * (1 + BK + chunks and vectors of a slice per invocation), at
// k = 32,768, BK 32: 40,000.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"
#include "linear.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 1) const uint BM = 64;
layout(constant_id = 2) const uint BN = 64;
layout(constant_id = 3) const uint BK = 32; // a multiple of WEIGHTS_CHUNK
layout(constant_id = 4) const uint TM = 4;  // even
layout(constant_id = 5) const uint TN = 8;

// Slices, k by k.
shared float w_slice[BK * BM];
shared float x_slice[BK * BN];

// Neighbouring invocations take neighbouring outputs and rows, so that their stores meet different
// banks. Past the end of k both slices are zero, which adds nothing.
void load_slices(uint k_first, uint output_first, uint row_first, uint rows)
{
    const uint threads = (BM / TM) * (BN / TN);
    for (uint i = gl_LocalInvocationID.x; i < BM * (BK / WEIGHTS_CHUNK); i += threads) {
        uint o = i % BM, part = i / BM;
        uint chunk = k_first / WEIGHTS_CHUNK + part;
        weights w = weights_load(min(output_first + o, m - 1), min(chunk, n_chunks - 1));
        for (uint quad = 0; quad < WEIGHTS_CHUNK / 4; quad++) {
            vec4 value = chunk < n_chunks ? weights_value(w, quad) : vec4(0.0);
            uint at = (part * WEIGHTS_CHUNK + quad * 4) * BM + o;
            w_slice[at] = value.x;
            w_slice[at + BM] = value.y;
            w_slice[at + 2 * BM] = value.z;
            w_slice[at + 3 * BM] = value.w;
        }
    }
    for (uint i = gl_LocalInvocationID.x; i < BN * (BK / 4); i += threads) {
        uint r = i % BN, quad = i / BN;
        uint at = quad * 4 * BN + r;
        vec4 in4 = vec4(0.0);
        if (k_first + quad * 4 < n_chunks * WEIGHTS_CHUNK)
            in4 = x[min(row_first + r, rows - 1) * (x_stride / 4) + k_first / 4 + quad];
        x_slice[at] = in4.x;
        x_slice[at + BN] = in4.y;
        x_slice[at + 2 * BN] = in4.z;
        x_slice[at + 3 * BN] = in4.w;
    }
}

void main()
{
    uint rows = linear_rows();
    if (workgroup_index() * BM >= m || gl_WorkGroupID.y * BN >= rows)
        return;

    uint output_first = workgroup_index() * BM, row_first = gl_WorkGroupID.y * BN;
    uint my_output = gl_LocalInvocationID.x % (BM / TM) * TM;
    uint my_row = gl_LocalInvocationID.x / (BM / TM) * TN;
    precise float sums[TM][TN];
    for (uint o = 0; o < TM; o++)
        for (uint r = 0; r < TN; r++)
            sums[o][r] = 0.0;

    for (uint k_first = 0; k_first < n_chunks * WEIGHTS_CHUNK; k_first += BK) {
        barrier(); // the last slices have been read
        load_slices(k_first, output_first, row_first, rows);
        barrier();
        for (uint i = 0; i < BK; i++) {
            float w[TM], in1[TN];
            for (uint o = 0; o < TM; o++)
                w[o] = w_slice[i * BM + my_output + o];
            for (uint r = 0; r < TN; r++)
                in1[r] = x_slice[i * BN + my_row + r];
            for (uint o = 0; o < TM; o++)
                for (uint r = 0; r < TN; r++)
                    sums[o][r] = fma(w[o], in1[r], sums[o][r]);
        }
    }
    // Loops over all of an array, which Mesa surely unrolls: the sums stay in registers.
    for (uint r = 0; r < TN; r++)
        for (uint o = 0; o < TM; o++)
            if ((o & 1u) == 0u && row_first + my_row + r < rows)
                store_pair(output_first + my_output + o, row_first + my_row + r, sums[o][r],
                           sums[o | 1u][r]);
}

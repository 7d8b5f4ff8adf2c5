#version 450
// Matrix times matrix for prefill with cooperative matrices (tier 3): as matmul.comp, with weights and
// activations rounded to halfs and sums in fp32.
//
// One workgroup computes BM outputs for BN rows, each of its four subgroups a quarter, in matrices of the
// shape SHAPE_M x SHAPE_N x SHAPE_K, which the device has enumerated. Workgroups in x (folded into z) cover
// outputs, in y rows. Slices of BK weights and activations go through shared memory: 2 * (BM + BN) * (BK + 8)
// bytes, and 16 * SHAPE_M * SHAPE_N for results.
//
// Halfs reach from 2^-24 to 65504 only. So a row of activations is multiplied by the power of two that brings
// its largest into [2^14, 2^15), and all weights of the matrix by one that the host chose; the sums are
// multiplied by the inverses. All of these are exact.
//
// An output is summed matrix by matrix in the order of k; within one the device has its own order, which is
// the same in all places of a matrix. So a row's bits depend neither on the number of rows nor on its place.
//
// Loop iterations of an invocation: runtime/loop_budget.c.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require
#include "step_state.h"
#include "state.glsl"
#include "linear.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in; // four full subgroups
layout(constant_id = 1) const uint BM = 64; // a multiple of 2 * SHAPE_M
layout(constant_id = 2) const uint BN = 64; // of 2 * SHAPE_N
layout(constant_id = 3) const uint BK = 32; // of SHAPE_K and WEIGHTS_CHUNK
layout(constant_id = 4) const uint SHAPE_M = 16; // even
layout(constant_id = 5) const uint SHAPE_N = 16;
layout(constant_id = 6) const uint SHAPE_K = 16;

// Matrices of a subgroup. Loops over them are unrolled: some drivers keep an array of matrices in memory
// otherwise.
const uint TILES_M = BM / 2 / SHAPE_M;
const uint TILES_N = BN / 2 / SHAPE_N;
#define SUBGROUPS 4

// Slices, row by row; 16 bytes more than a row, so that neighbouring rows begin in different banks.
const uint STRIDE = BK / 4 + 2;
shared f16vec4 w_slice[BM * STRIDE];
shared f16vec4 x_slice[BN * STRIDE];
shared float x_scale[BN];
shared float results[SUBGROUPS * SHAPE_M * SHAPE_N];

// The power of two for a row whose largest activation is `largest`; its inverse.
float scale_of(float largest)
{
    uint exponent = clamp(268u - (floatBitsToUint(largest) >> 23), 1u, 253u);
    return uintBitsToFloat(exponent << 23);
}

float inverse(float power_of_two)
{
    return uintBitsToFloat((254u << 23) - floatBitsToUint(power_of_two));
}

void find_scales(uint row_first, uint rows)
{
    for (uint r = gl_SubgroupID; r < BN; r += SUBGROUPS) {
        uint at = min(row_first + r, rows - 1) * (x_stride / 4);
        vec4 largest = vec4(0.0);
        for (uint quad = gl_SubgroupInvocationID; quad < n_chunks * (WEIGHTS_CHUNK / 4);
             quad += gl_SubgroupSize)
            largest = max(largest, abs(x[at + quad]));
        float all = subgroupMax(max(max(largest.x, largest.y), max(largest.z, largest.w)));
        if (subgroupElect())
            x_scale[r] = scale_of(all);
    }
}

// Rows and outputs past the last are copies of it that nobody stores. Past the end of k both slices are
// zero, which adds nothing.
void load_slices(uint k_first, uint output_first, uint row_first, uint rows)
{
    const uint parts = BK / WEIGHTS_CHUNK, quads = BK / 4;
    for (uint i = gl_LocalInvocationID.x; i < BM * parts; i += gl_WorkGroupSize.x) {
        uint o = i / parts, part = i % parts;
        uint chunk = k_first / WEIGHTS_CHUNK + part;
        weights w = weights_load(min(output_first + o, m - 1), min(chunk, n_chunks - 1));
        for (uint quad = 0; quad < WEIGHTS_CHUNK / 4; quad++) {
            vec4 value = chunk < n_chunks ? weights_value(w, quad) * weight_scale : vec4(0.0);
            w_slice[o * STRIDE + part * (WEIGHTS_CHUNK / 4) + quad] = f16vec4(value);
        }
    }
    for (uint i = gl_LocalInvocationID.x; i < BN * quads; i += gl_WorkGroupSize.x) {
        uint r = i / quads, quad = i % quads;
        vec4 value = vec4(0.0);
        if (k_first + quad * 4 < n_chunks * WEIGHTS_CHUNK)
            value = x[min(row_first + r, rows - 1) * (x_stride / 4) + k_first / 4 + quad] * x_scale[r];
        x_slice[r * STRIDE + quad] = f16vec4(value);
    }
}

void main()
{
    uint rows = linear_rows();
    if (workgroup_index() * BM >= m || gl_WorkGroupID.y * BN >= rows)
        return;

    uint output_first = workgroup_index() * BM, row_first = gl_WorkGroupID.y * BN;
    uint my_output = gl_SubgroupID % 2 * (BM / 2), my_row = gl_SubgroupID / 2 * (BN / 2);
    coopmat<float, gl_ScopeSubgroup, SHAPE_M, SHAPE_N, gl_MatrixUseAccumulator> sums[TILES_M * TILES_N];
    [[unroll]] for (uint i = 0; i < TILES_M * TILES_N; i++)
        sums[i] = coopmat<float, gl_ScopeSubgroup, SHAPE_M, SHAPE_N, gl_MatrixUseAccumulator>(0.0);

    find_scales(row_first, rows);
    for (uint k_first = 0; k_first < n_chunks * WEIGHTS_CHUNK; k_first += BK) {
        barrier(); // the last slices have been read, and the scales are there
        load_slices(k_first, output_first, row_first, rows);
        barrier();
        for (uint k = 0; k < BK; k += SHAPE_K) {
            coopmat<float16_t, gl_ScopeSubgroup, SHAPE_M, SHAPE_K, gl_MatrixUseA> w[TILES_M];
            [[unroll]] for (uint i = 0; i < TILES_M; i++)
                coopMatLoad(w[i], w_slice, (my_output + i * SHAPE_M) * STRIDE + k / 4, STRIDE,
                            gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < TILES_N; j++) {
                coopmat<float16_t, gl_ScopeSubgroup, SHAPE_K, SHAPE_N, gl_MatrixUseB> in1;
                coopMatLoad(in1, x_slice, (my_row + j * SHAPE_N) * STRIDE + k / 4, STRIDE,
                            gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0; i < TILES_M; i++)
                    sums[j * TILES_M + i] = coopMatMulAdd(w[i], in1, sums[j * TILES_M + i]);
            }
        }
    }

    const uint size = SHAPE_M * SHAPE_N;
    [[unroll]] for (uint j = 0; j < TILES_N; j++)
        [[unroll]] for (uint i = 0; i < TILES_M; i++) {
            coopMatStore(sums[j * TILES_M + i], results, gl_SubgroupID * size, SHAPE_M,
                         gl_CooperativeMatrixLayoutColumnMajor);
            barrier();
            for (uint at = 2 * gl_SubgroupInvocationID; at < size; at += 2 * gl_SubgroupSize) {
                uint o = my_output + i * SHAPE_M + at % SHAPE_M, r = my_row + j * SHAPE_N + at / SHAPE_M;
                precise float scale = inverse(x_scale[r]);
                precise float first = results[gl_SubgroupID * size + at] * scale * inverse(weight_scale);
                precise float second = results[gl_SubgroupID * size + at + 1] * scale *
                                       inverse(weight_scale);
                if (row_first + r < rows)
                    store_pair(output_first + o, row_first + r, first, second);
            }
            barrier(); // the results have been read
        }
}

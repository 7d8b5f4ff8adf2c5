#version 450
// Matrix times vector or matrix on CPU devices: y[r][o] = sum over k of w[o][k] * x[r][k] (+ bias[o])
// (+ y[r][o]). Takes the place of matvec.comp and matmul.comp there.
//
// A software device runs the lanes of a workgroup as one vector. It loads from an address that all lanes
// share once, but from differing addresses lane by lane, and barriers are dear. So each invocation has
// OUTPUTS outputs, LANES apart, of its own: it unpacks their weights once for a tile of up to 8 rows, and
// all lanes read the same activations. A sum is one chain of fma in the order of k over dequantised
// weights, whatever the number of rows and the sizes here.
// Loop iterations of an invocation: k / WEIGHTS_CHUNK x row tiles: at k = 65,536, F32, 17 rows 16,384 x 3.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"
#include "linear.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 1) const uint LANES = 8;       // the workgroup size
layout(constant_id = 2) const uint OUTPUTS = 4;     // of an invocation
layout(constant_id = 3) const uint ROWS_PER_Y = 32; // rows of one workgroup in y

#define TILE 1
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 2
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 4
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 8
#include "matvec_direct_tile.glsl"
#undef TILE

void main()
{
    uint rows = linear_rows();
    uint row = gl_WorkGroupID.y * ROWS_PER_Y;
    uint end = min(rows, row + ROWS_PER_Y);
    uint first = workgroup_index() * LANES * OUTPUTS + gl_LocalInvocationID.x;
    if (row >= end || workgroup_index() * LANES * OUTPUTS >= m)
        return;
    for (; row + 8 <= end; row += 8)
        tile_8(first, row, 8);
    uint left = end - row;
    if (left > 4)
        tile_8(first, row, left);
    else if (left > 2)
        tile_4(first, row, left);
    else if (left == 2)
        tile_2(first, row, left);
    else if (left == 1)
        tile_1(first, row, left);
}

#version 450
// Matrix times vector or matrix on CPU devices: y[r][o] = sum over k of w[o][k] * x[r][k] (+ bias[o])
// (+ y[r][o]). Takes the place of matvec.comp and matmul.comp there.
//
// A software device runs the lanes of a workgroup as one vector. It loads from an address that all lanes
// share once, but from differing addresses lane by lane, and barriers are dear. So each invocation has
// OUTPUTS outputs of its own, in pairs that are 2 * LANES apart: it unpacks their weights once for a tile of
// up to 12 rows, and all lanes read the same activations. A sum is one chain of fma in the order of k over dequantised
// weights, whatever the number of rows and the sizes here.
// Loop iterations of an invocation: k / WEIGHTS_CHUNK: at k = 65,536, F32, 16,384.
#extension GL_GOOGLE_include_directive : require
#include "step_state.h"
#include "state.glsl"
#include "linear.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 1) const uint LANES = 8;       // the workgroup size
layout(constant_id = 2) const uint OUTPUTS = 4;     // of an invocation: even
// Rows of this pipeline's tile, of TILES. Software devices run both sides of a branch under a mask, so
// each tile is a pipeline of its own, and the arguments of its dispatch (begin.comp) say if it runs.
layout(constant_id = 3) const uint TILE_ROWS = 8;

#define TILE 1
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 2
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 4
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 6
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 8
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 10
#include "matvec_direct_tile.glsl"
#undef TILE
#define TILE 12
#include "matvec_direct_tile.glsl"
#undef TILE

void main()
{
    uint rows = linear_rows();
    // Tiles of TILE_MAIN cover the rows from the first on, the others what is left after them.
    uint row = TILE_MAIN * (TILE_ROWS == TILE_MAIN ? gl_WorkGroupID.y : MAIN_TILES(rows));
    uint first = workgroup_index() * LANES * OUTPUTS + 2 * gl_LocalInvocationID.x;
    uint left = min(rows - row, TILE_ROWS);
    if (TILE_ROWS == 12)
        tile_12(first, row, left);
    if (TILE_ROWS == 10)
        tile_10(first, row, left);
    if (TILE_ROWS == 8)
        tile_8(first, row, left);
    if (TILE_ROWS == 6)
        tile_6(first, row, left);
    if (TILE_ROWS == 4)
        tile_4(first, row, left);
    if (TILE_ROWS == 2)
        tile_2(first, row, left);
    if (TILE_ROWS == 1)
        tile_1(first, row, left);
}

// The whole of matvec.comp (its head says how the work is cut) and of matvec_dot.comp, which defines
// WEIGHTS_DOT.
#include "step_state.h"
#include "state.glsl"
#include "linear.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
layout(constant_id = 1) const uint LANES = 8; // that share a row: the subgroup size, or the workgroup
layout(constant_id = 2) const uint OUTPUTS = 4;    // of one subgroup
layout(constant_id = 3) const uint ROWS_PER_Y = 32; // rows of one workgroup in y
// Most rows at a time: 8, or 1 where a pass has no more: without the code of the larger tiles a kernel has
// few registers, and many more workgroups fit on a device.
layout(constant_id = 4) const uint MAX_TILE = 8;

#if TIER == 0
shared float partial[OUTPUTS * MAX_TILE * LANES];
#endif

#define TILE 1
#include "matvec_tile.glsl"
#undef TILE
#define TILE 2
#include "matvec_tile.glsl"
#undef TILE
#define TILE 4
#include "matvec_tile.glsl"
#undef TILE
#define TILE 8
#include "matvec_tile.glsl"
#undef TILE

void main()
{
    uint rows = linear_rows();
    uint row = gl_WorkGroupID.y * ROWS_PER_Y;
    uint end = min(rows, row + ROWS_PER_Y);
#if TIER >= 1
    uint first = (workgroup_index() * gl_NumSubgroups + gl_SubgroupID) * OUTPUTS;
    uint lane = gl_SubgroupInvocationID;
#else
    uint first = workgroup_index() * OUTPUTS;
    uint lane = gl_LocalInvocationID.x;
#endif
    if (first >= m)
        return;
    for (; row < end; row += MAX_TILE) {
        uint left = min(end - row, MAX_TILE);
        if (MAX_TILE == 8 && left > 4)
            tile_8(first, row, left, lane);
        else if (MAX_TILE == 8 && left > 2)
            tile_4(first, row, left, lane);
        else if (MAX_TILE == 8 && left == 2)
            tile_2(first, row, left, lane);
        else
            tile_1(first, row, left, lane);
    }
}

#version 450
// Matrix times vector for 1..17 rows: y[r][o] = sum over k of w[o][k] * x[r][k] (+ bias[o]) (+ y[r][o]).
// Every pass of decoding, drafting and verification runs through this kernel.
//
// One subgroup (tier 1) or one workgroup (tier 0) computes OUTPUTS outputs for all rows. Its lanes share
// the row: lane l takes chunks l, l + LANES, … of WEIGHTS_CHUNK weights; weights are loaded and unpacked
// once for a tile of up to 8 rows. Per row and output the order of summation is: the chunk's products
// in order by fma, the chunk's sum times its scale added to the lane's sum, the lanes added at the end.
// It depends on k, the format and the device, never on the number of rows.
// Loop iterations of an invocation: (k / WEIGHTS_CHUNK / LANES) x row tiles: at k = 65,536, F32,
// 8 lanes, 17 rows 2,048 x 3.
#extension GL_GOOGLE_include_directive : require
#if TIER >= 1
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "matvec_rows.glsl"

#version 450
// Matrix times vector for 1..17 rows, as matvec.comp, with activations that quantise.comp rounded to 8
// bits: four products a step by the packed dot product of tier 2. Sums of a chunk are integers, so exact; they
// are multiplied by both scales and added up in floats in the order of matvec.comp.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_spirv_intrinsics : require

#define TIER 1
#define WEIGHTS_DOT 1

// OpSDot with operands of four signed bytes each; the literal 0 says so (PackedVectorFormat4x8Bit).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packed_dot(int a, int b, spirv_literal int format);

#include "matvec_rows.glsl"

#version 450
// What matmul_cooperative.comp needs of glslc. Only compiled at configuration, to see if it can be.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(constant_id = 0) const uint SIZE = 16;
shared f16vec4 slice[64];
shared float result[256];

void main()
{
    coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseA> a;
    coopmat<float16_t, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseB> b;
    coopmat<float, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator> sums[SIZE / 8];
    coopMatLoad(a, slice, 0, 4, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, slice, 0, 4, gl_CooperativeMatrixLayoutColumnMajor);
    sums[0] = coopmat<float, gl_ScopeSubgroup, SIZE, SIZE, gl_MatrixUseAccumulator>(0.0);
    sums[0] = coopMatMulAdd(a, b, sums[0]);
    coopMatStore(sums[0], result, 0, SIZE, gl_CooperativeMatrixLayoutColumnMajor);
}

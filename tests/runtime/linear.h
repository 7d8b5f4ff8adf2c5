/* The kernels that multiply by a weight matrix, for tests: random matrices on the device with a
 * reference in double precision, and one way to run matvec, matvec_direct and matmul. */
#ifndef OUTRIDER_TEST_LINEAR_H
#define OUTRIDER_TEST_LINEAR_H

#include "harness.h"
#include "random_weights.h"
#include "repack.h"

/* Flags of shaders/linear.glsl. */
#define LINEAR_ACCUMULATE 1u
#define LINEAR_BIAS 2u
#define LINEAR_OUT_ROWS 4u
#define LINEAR_SWIGLU 8u

extern const enum tensor_format linear_formats[];
#define N_LINEAR_FORMATS 16

/* Rows of matvec_direct's tiles. */
#define N_DIRECT_TILES 7
/* One kernel with its sizes. */
typedef struct linear_kernel {
    char shader[32];
    uint32_t constants[7], n_constants;
    uint32_t outputs_per_group, rows_per_group;
    uint32_t lanes;  /* that share a row; 0: a sum is one chain over k */
    bool uses_halfs; /* matmul_cooperative: factors are rounded to halfs */
    bool pins_subgroup;
    VkPipeline pipeline;
    VkPipeline tiles[N_DIRECT_TILES]; /* of matvec_direct instead: one for each tile of rows */
} linear_kernel;

#define MAX_LINEAR_KERNELS 13

/* All kernels and forms that the device can run for a format, with pipelines. Returns their number.
 * cooperative_kernels: only those of tier 3. */
uint32_t linear_kernels(harness *h, const repack_info *info, linear_kernel out[MAX_LINEAR_KERNELS]);
uint32_t cooperative_kernels(harness *h, const repack_info *info,
                             linear_kernel out[MAX_LINEAR_KERNELS]);

typedef struct matrix {
    const repack_info *info;
    uint32_t m, k, padded_k;
    uint32_t plane_words[REPACK_MAX_PLANES];
    double *values, *magnitudes; /* [m][k] */
    double largest;              /* no weight is larger */
    gpu_buffer buffer;
} matrix;

/* Of blocks in the format's own layout. */
matrix matrix_of(harness *h, const repack_info *info, uint32_t m, uint32_t k,
                 const uint8_t *blocks);
matrix matrix_random(harness *h, const repack_info *info, uint32_t m, uint32_t k,
                     enum weights_kind kind, uint64_t *state);
void matrix_free(harness *h, matrix *w);

/* What row o of w and x[k] make: the sum of the terms, that of their magnitudes, and the root of
 * that of their squares. */
typedef struct dot {
    double sum, magnitude, norm;
} dot;
dot matrix_dot(const matrix *w, uint32_t o, const float *x);
/* Largest rounding error of such an output, for activations of at most 1. */
double linear_error(const linear_kernel *kernel, const matrix *w, const dot *d);

typedef struct linear_run {
    uint32_t rows, x_stride, y_stride, y_offset, flags, bias_offset;
    const gpu_buffer *x, *y, *bias; /* bias: NULL without */
    bool fold;                      /* outputs over two workgroups in z */
} linear_run;

/* Whether subnormal floats are zero to the device, as Vulkan allows. */
bool flushes_subnormals(harness *h);

void linear_dispatch(harness *h, const linear_kernel *kernel, const matrix *w,
                     const gpu_buffer *state, const linear_run *run);

#endif

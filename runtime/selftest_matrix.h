/* Random matrices for the self-test's checks of kernels that read weights. */
#ifndef OUTRIDER_SELFTEST_MATRIX_H
#define OUTRIDER_SELFTEST_MATRIX_H

#include "repack.h"
#include "selftest.h"

/* No multiple of a workgroup's outputs. */
#define N_OUTPUTS 37

/* A matrix in a format: packed for the kernels, and its values. */
typedef struct matrix {
    const repack_info *info;
    bool has_minima;
    uint32_t m, k, padded_k, n_chunks;
    uint32_t planes[REPACK_MAX_PLANES];
    float scale; /* for matmul_cooperative */
    gpu_buffer *packed;
    double *values;     /* [m][k] */
    double *magnitudes; /* [m][k]: the most that was added up to get the value */
} matrix;

/* m rows of k random weights, whole blocks; 0: some. subnormal: all scales are. The memory is the
 * self-test's. */
void matrix_fill(selftest *t, matrix *w, enum tensor_format format, uint32_t m, uint32_t k,
                 bool subnormal);
/* Whether the format has scales that can be subnormal halfs. */
bool matrix_has_halfs(enum tensor_format format);

#endif

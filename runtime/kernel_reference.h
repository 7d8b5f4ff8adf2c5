/* What the kernels must compute, in double precision on the CPU, and how far a kernel may be from
 * it. For the self-test and for tests; matrices have format_dequantize (format.h) and noise
 * philox.h.
 *
 * A tolerance is a bound and not a guess: each counts the roundings on the way of a value, with
 * what Vulkan promises for exp, division and square root. u = 2^-24 is half a unit in the last
 * place of 1. */
#ifndef OUTRIDER_KERNEL_REFERENCE_H
#define OUTRIDER_KERNEL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; the tolerance is relative. */
void reference_rmsnorm(const float *x, const float *weight, uint32_t n, double eps, double *out);
double rmsnorm_tolerance(uint32_t n, uint32_t lanes);

/* silu(gate) * up. */
double reference_swiglu(double gate, double up);
double swiglu_tolerance(double gate, double up);

/* Rotates the pair by an angle given as (cos, sin). The tolerance is of both results. */
void reference_rotation(const float pair[2], const float angle[2], double out[2]);
double rotation_tolerance(const float pair[2], const float angle[2]);
/* Of a number stored as half: either neighbour, and subnormals may be flushed. */
double half_tolerance(double value);

/* Attention of one query (a head of one row) over n_positions. k and v: what the cache holds of this
 * key-value head at position 0; `stride` numbers to the next position. out and tolerance: [head_size]. */
typedef struct reference_head {
    const float *q;
    const float *k, *v;
    uint32_t stride, head_size, n_positions;
    double scale;
} reference_head;
/* weights: room for n_positions. */
void reference_attention(const reference_head *head, double *weights, double *out,
                         double *tolerance);

/* The step kernels, in place, on buffers as step_state.h lays them out. */
void reference_begin(uint32_t *lane, uint32_t *exchange, const uint32_t *request, uint32_t mode,
                     uint32_t n_grids);
void reference_propose(const uint32_t *lane, uint32_t *exchange, const uint32_t *request);
void reference_accept(uint32_t *target, uint32_t *exchange, uint32_t *record, uint32_t mode);

#endif

/* Workgroup shapes by class of device: one const table (tuning.c). A shape never changes the order
 * of a sum within a class's results; numbers only say how work is cut. Read when a lane's kernels
 * are made. */
#ifndef OUTRIDER_TUNING_H
#define OUTRIDER_TUNING_H

#include "device.h"

typedef struct tuning {
    const char *device_class;
    /* Outputs of an invocation of matvec_direct; 0: this class uses matvec and matmul instead. */
    uint32_t direct_outputs;
    uint32_t matvec_subgroups; /* of a workgroup (tier 1) */
    uint32_t matvec_lanes;     /* of a workgroup (tier 0) */
    uint32_t matvec_outputs;   /* of a subgroup (tier 1) or workgroup (tier 0) */
    uint32_t matmul[5];        /* BM, BN, BK, TM, TN of matmul.comp */
    uint32_t norm_sums; /* partial sums of a row */
    uint32_t norm_lanes;
    uint32_t attention_lanes;
    uint32_t elementwise_lanes;
    uint32_t sample_lanes;
    uint32_t prefill_rows; /* of a pass, at first */
} tuning;

const tuning *tuning_find(const gpu *g);
/* By name: for checks of kernels that a device's own class doesn't use. */
const tuning *tuning_of(const char *device_class);

#endif

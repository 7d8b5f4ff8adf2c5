/* The tuning table. Numbers of the software class were measured on lavapipe and SwiftShader
 * (tests/bench/NOTES.md); those of real GPUs follow what other projects report for each vendor. */
#include "tuning.h"

#include <string.h>

static const tuning table[] = {
    {
        .device_class = "software",
        .direct_outputs = 8,
        .norm_sums = 32,
        .norm_lanes = 32,
        .attention_lanes = 32,
        .elementwise_lanes = 64,
        .sample_lanes = 128,
        .prefill_rows = 128,
    },
    {
        .device_class = "gpu",
        .matvec_subgroups = 1,
        .matvec_lanes = 64,
        .matvec_outputs = 4,
        .matmul = {64, 64, 32, 4, 8},
        .norm_sums = 128,
        .norm_lanes = 128,
        .attention_lanes = 32,
        .elementwise_lanes = 64,
        .sample_lanes = 128,
        .prefill_rows = 256,
    },
};

const tuning *tuning_find(const gpu *g)
{
    return &table[g->is_cpu && !g->context->as_gpu ? 0 : 1];
}

const tuning *tuning_of(const char *device_class)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(table[i].device_class, device_class))
            return &table[i];
    return NULL;
}

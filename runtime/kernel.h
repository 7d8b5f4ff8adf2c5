/* Kernels: compute pipelines made from the embedded shaders, created on demand and shared by all
 * lanes of a gpu. One table row per shader (kernel.c, and shaders/meson.build for the variants). */
#ifndef OUTRIDER_KERNEL_H
#define OUTRIDER_KERNEL_H

#include "device.h"

/* One embedded SPIR-V module: file and variant, such as "matvec_Q8_0_t1". */
typedef struct shader_code {
    const char *name;
    const uint32_t *words;
    size_t n_bytes;
} shader_code;
/* Generated at build time (shaders/embed.py), sorted by name: runtime sees shaders only through
 * this list. */
extern const shader_code shader_list[];
extern const size_t n_shaders;
extern const uint64_t shaders_hash; /* of names and code of the whole list */

#define KERNEL_MAX_CONSTANTS 8

/* Compiles `shader` with specialisation constants 0..n-1 (constant 0 is the workgroup size in x).
 * pins_subgroup: the kernel's sums depend on the subgroup size. `label` for messages and debug
 * names. May be called from any thread. */
otr_result kernel_create(gpu *g, const char *shader, const uint32_t *constants,
                         uint32_t n_constants, bool pins_subgroup, const char *label,
                         VkPipeline *out);

#endif

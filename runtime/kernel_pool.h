/* Pipelines shared by the lanes of a gpu: the same shader with the same constants is compiled once.
 */
#ifndef OUTRIDER_KERNEL_POOL_H
#define OUTRIDER_KERNEL_POOL_H

#include "kernel.h"

/* As kernel_create, but owned by the gpu until it is closed. Thread-safe. */
otr_result kernel_get(gpu *g, const char *shader, const uint32_t *constants, uint32_t n_constants,
                      bool pins_subgroup, VkPipeline *out);
/* Destroys all of them; called by gpu_close. */
void kernel_pool_free(gpu *g);

#endif

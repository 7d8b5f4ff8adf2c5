/* Runs one kernel at a time on buffers that the host sees: for the self-test and for tests of
 * single kernels. Generation never comes here; lanes record their passes once (lane.c). */
#ifndef OUTRIDER_KERNEL_RUN_H
#define OUTRIDER_KERNEL_RUN_H

#include "memory.h"

/* The objects that a dispatch needs; of one thread. */
typedef struct kernel_runner {
    gpu *gpu;
    VkDescriptorPool descriptors;
    VkDescriptorSet set;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    gpu_buffer spare; /* bound where a kernel has no buffer */
} kernel_runner;

/* One dispatch. */
typedef struct kernel_run {
    VkPipeline pipeline;
    const gpu_buffer *buffers[KERNEL_STORAGE_BUFFERS]; /* NULL: the kernel has none there */
    const gpu_buffer *state;                           /* STATE_WORDS words or more; NULL: zeros */
    const void *push;
    uint32_t push_bytes;
    uint32_t groups[3];
} kernel_run;

/* On failure *out is zero, which kernel_runner_destroy takes. */
otr_result kernel_runner_create(gpu *g, kernel_runner *out);
void kernel_runner_destroy(kernel_runner *r);
/* Dispatches, and waits until the host can read what was written. `what` is for messages. */
otr_result kernel_runner_run(kernel_runner *r, const kernel_run *run, const char *what);

#endif

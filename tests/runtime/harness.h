/* Runs single kernels for tests: opens the default device with validation on, makes host-visible
 * buffers and dispatches one pipeline at a time. Failures end the Check test at once. Which device
 * is the default is the environment's choice (VK_DRIVER_FILES; tests/meson.build runs each program
 * once per device).
 *
 *     harness h;
 *     harness_open(&h);
 *     VkPipeline pipeline = harness_pipeline(&h, "rmsnorm", constants, n_constants, false);
 *     gpu_buffer x = harness_buffer(&h, n_bytes, data);
 *     harness_run(&h, pipeline, (const gpu_buffer *[4]){&x, &weight, &out}, &state, &push, sizeof
 * push, n_groups, n_rows, 1);
 *     ... read out.mapped ...
 *     harness_close(&h);   frees pipelines and buffers, and checks that validation had nothing to
 * say
 */
#ifndef OUTRIDER_TEST_HARNESS_H
#define OUTRIDER_TEST_HARNESS_H

#include "kernel.h"
#include "kernel_run.h"

#define HARNESS_MAX_OBJECTS 256

typedef struct harness {
    otr_context *context;
    gpu *gpu;
    kernel_runner runner;
    gpu_buffer buffers[HARNESS_MAX_OBJECTS];
    uint32_t n_buffers;
    VkPipeline pipelines[HARNESS_MAX_OBJECTS];
    uint32_t n_pipelines;
} harness;

void harness_open(harness *h);
/* Without validation: for so many dispatches that it would take most of the time. */
void harness_open_fast(harness *h);
void harness_close(harness *h);
/* A software device that is much slower than lavapipe: take smaller sizes. */
bool harness_is_slow(const harness *h);

/* An embedded shader, as kernel_create takes it. The harness owns the pipeline. */
VkPipeline harness_pipeline(harness *h, const char *shader, const uint32_t *constants,
                            uint32_t n_constants, bool pins_subgroup);
/* The same for a shader that only a test has. */
VkPipeline harness_pipeline_from(harness *h, const uint32_t *words, size_t n_bytes);

/* A mapped buffer with a copy of `data`, or zeros when it is NULL. The harness owns the memory; the
 * returned struct is a view of it. */
gpu_buffer harness_buffer(harness *h, size_t n_bytes, const void *data);
/* Gives it back before harness_close. */
void harness_free(harness *h, gpu_buffer *buffer);

/* Dispatches and waits. buffers[i] may be NULL; state may be NULL. */
void harness_run(harness *h, VkPipeline pipeline,
                 const gpu_buffer *const buffers[KERNEL_STORAGE_BUFFERS], const gpu_buffer *state,
                 const void *push, uint32_t push_bytes, uint32_t groups_x, uint32_t groups_y,
                 uint32_t groups_z);

#endif

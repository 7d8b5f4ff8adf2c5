/* Buffers on a gpu and copies into them. Device-local memory for weights, caches and scratch;
 * mapped, coherent memory only for what crosses to the host. All buffers must be destroyed before
 * gpu_close. */
#ifndef OUTRIDER_MEMORY_H
#define OUTRIDER_MEMORY_H

#include "device.h"

enum memory_use {
    MEMORY_DEVICE,   /* device-local, not mapped (a mapped type only where there is no other) */
    MEMORY_UPLOAD,   /* host-visible and coherent: written by the host, read by the device */
    MEMORY_READBACK, /* host-visible and coherent, cached if there is such a type: read by the host
                      */
};

typedef struct gpu_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t size;
    void *mapped; /* NULL for MEMORY_DEVICE */
} gpu_buffer;

/* Usage: storage, uniform, indirect, transfer both ways. `name` is for messages and debuggers. On
 * failure *out is zero. */
otr_result gpu_buffer_create(gpu *g, uint64_t size, enum memory_use use, const char *name,
                             gpu_buffer *out);
void gpu_buffer_destroy(gpu *g, gpu_buffer *buffer);

/* Copies host memory into device buffers through one staging buffer; each call returns when the
 * data may be reused. uploader_create, any number of uploads, uploader_destroy. */
typedef struct uploader {
    gpu *gpu;
    gpu_buffer staging;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
} uploader;
otr_result uploader_create(gpu *g, uint64_t staging_bytes, uploader *out);
void uploader_destroy(uploader *u);
/* offset and n_bytes: multiples of 4. */
otr_result upload(uploader *u, const gpu_buffer *dst, uint64_t offset, const void *src,
                  uint64_t n_bytes);
/* Fills with zeros. */
otr_result upload_zero(uploader *u, const gpu_buffer *dst, uint64_t offset, uint64_t n_bytes);

#endif

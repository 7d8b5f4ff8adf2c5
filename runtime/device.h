/* Devices: enumeration and choice (device.c), opening as a gpu (gpu.c in the same idea).
 *
 * A gpu is an opened VkDevice with its queue, function table, pipeline cache and the one pipeline layout
 * that all kernels share. Models on the same device of a context share one gpu (counted). */
#ifndef OUTRIDER_DEVICE_H
#define OUTRIDER_DEVICE_H

#include "context.h"

/* Fills context->physical and context->devices. Called once by otr_context_create. */
otr_result devices_enumerate(otr_context *context);

/* Every kernel's interface: storage buffers 0..3 and the step state as uniform buffer 4 of set 0, and
 * push constants. Four storage buffers are the least that Vulkan promises. */
#define KERNEL_STORAGE_BUFFERS 4
#define KERNEL_STATE_BINDING 4
#define KERNEL_PUSH_BYTES 64

typedef struct gpu {
    otr_context *context;
    struct gpu *next;
    uint32_t n_users;
    uint32_t index; /* in the context's list */
    const otr_device_info *info;
    int32_t tier;   /* 0 or 1 (2 and 3 when kernels exist); what kernels are built for */
    VkPhysicalDevice physical;
    VkDevice device;
    struct VolkDeviceTable vk;
    VkQueue queue;
    uint32_t queue_family;
    pthread_mutex_t queue_lock; /* held around vkQueueSubmit */
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceLimits limits;
    uint32_t subgroup_size;
    bool pins_subgroup_size; /* VK_EXT_subgroup_size_control: require subgroup_size in compute */
    bool is_cpu;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipelineCache pipeline_cache;
    bool cache_is_dirty; /* pipelines were created since the cache was loaded or stored */
    PFN_vkSetDebugUtilsObjectNameEXT set_name; /* NULL without debug utils */
} gpu;

/* Opens device `index`, or shares it when it is open already. */
otr_result gpu_open(otr_context *context, uint32_t index, gpu **out);
/* Gives it back; the last user closes it and stores the pipeline cache. *g becomes NULL. */
void gpu_close(gpu **g);

/* Debug name of any Vulkan object; does nothing without debug utils. */
void gpu_name(gpu *g, VkObjectType type, uint64_t handle, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Waits for a fence, at most `timeout_ms`; a time-out is OTR_ERROR_TIMEOUT, a lost device
 * OTR_ERROR_DEVICE_LOST. `what` is for the message. */
otr_result gpu_wait(gpu *g, VkFence fence, uint32_t timeout_ms, const char *what);

#endif

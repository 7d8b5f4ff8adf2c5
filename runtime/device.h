/* Devices: enumeration (device.c), choice (device_choice.c), opening as a gpu (gpu.c).
 *
 * A gpu is an opened VkDevice with its queues, function table, pipeline cache and the one pipeline
 * layout that all kernels share. Models on the same device of a context share one gpu (counted). */
#ifndef OUTRIDER_DEVICE_H
#define OUTRIDER_DEVICE_H

#include "context.h"
#include "tier_limit.h"
#include "tuning.h"

/* Of a product of cooperative matrices: m x n sums of k products. */
typedef struct cooperative_shape {
    uint32_t m, n, k;
} cooperative_shape;

/* What opening a device needs to know beyond otr_device_info. */
typedef struct device_facts {
    uint32_t api_version; /* usable: the lesser of device and instance */
    /* What the hardware could do, 0..3. otr_device_info.tier says what kernels exist for. Tier 3
     * doesn't say that there are the dot products of tier 2. */
    int32_t hardware_tier;
    int32_t full_tier;                  /* otr_device_info.tier without the limit */
    tier_limit limit;                   /* of a failed self-test */
    cooperative_shape cooperative;      /* that tier 3 uses; m is 0 below it */
    uint32_t queue_families[2];         /* of target and draft, by device_choose_queues */
    uint32_t subgroup_size;             /* 0: unknown */
    uint32_t min_subgroup_size;         /* that pipelines can have; 0: unknown */
    uint32_t max_workgroup_subgroups;   /* of pipelines that require subgroup_size */
    bool pins_subgroup_size;            /* compute pipelines can require subgroup_size */
    bool full_subgroups;                /* and full subgroups */
    bool subgroup_size_is_fixed;        /* pinned, or all pipelines have the same */
    bool subgroup_control_is_extension; /* VK_EXT_subgroup_size_control must be enabled by name */
    bool timeline_is_extension;         /* VK_KHR_timeline_semaphore must be enabled by name */
    bool is_portability_subset;         /* VK_KHR_portability_subset must be enabled */
    bool has_subgroup_arithmetic, has_16bit_storage, has_robust_access;
    /* Packed 8-bit dot products can be used; they are an extension to enable by name. */
    bool has_dot8, dot8_is_extension;
    bool has_pipeline_statistics;                    /* VK_KHR_pipeline_executable_properties */
    uint64_t max_allocation_bytes, max_buffer_bytes; /* of one allocation, of one buffer */
    bool has_pci_address;
    uint32_t pci_domain, pci_bus, pci_device, pci_function;
} device_facts;

/* The next lower tier whose kernels differ; -1 below 0. */
int32_t device_lower_tier(const otr_context *context, const device_facts *facts, int32_t tier);

/* Fills context->physical, ->devices and ->facts. Called once by otr_context_create. */
otr_result devices_enumerate(otr_context *context);

/* The rules of choice, as functions of the lists alone. */
#define DEVICE_NONE UINT32_MAX
/* Index of the default device, or DEVICE_NONE when none is usable. */
uint32_t device_choose(const otr_device_info *infos, uint32_t n);
/* Sets same_as of each device that is a GPU listed before under another driver. */
void devices_mark_same(otr_device_info *infos, const device_facts *facts, uint32_t n);
/* Families of the target's queue and the draft's. The first is one for compute without graphics
 * where there is one, because there the desktop's frames don't stand in line with ours. The second
 * is the same where that has two queues, so that both lanes can share a submission when they take
 * turns; else another for compute; else again the first, with one queue. DEVICE_NONE twice without
 * any for compute. */
void device_choose_queues(const otr_device_info *info, uint32_t families[2]);
/* What the device lacks to be used at all, written to info->problem; true when it lacks nothing. */
bool device_meets_minimum(otr_device_info *info, const VkPhysicalDeviceProperties *properties,
                          uint32_t queue_family);
/* Finds by index, UUID or part of a name as otr_device_find documents; on failure false, and
 * `message` says why and what there is. */
bool device_match(const otr_device_info *infos, uint32_t n, const char *selector, uint32_t *index,
                  char *message, size_t size);

/* Every kernel's interface: storage buffers 0..3 and the step state as uniform buffer 4 of set 0,
 * and push constants. Four storage buffers are the least that Vulkan promises. */
#define KERNEL_STORAGE_BUFFERS 4
#define KERNEL_STATE_BINDING 4
#define KERNEL_PUSH_BYTES 64

typedef struct gpu_queue {
    VkQueue queue;
    uint32_t family;
    pthread_mutex_t lock; /* held around vkQueueSubmit */
} gpu_queue;
#define GPU_MAX_QUEUES 2 /* one for each lane */

typedef struct gpu {
    otr_context *context;
    struct gpu *next;
    uint32_t n_users;
    uint32_t index; /* in the context's list */
    const otr_device_info *info;
    const device_facts *facts;
    /* What kernels are used: 0, 1, 2, or 3, where prefill has a kernel of its own and everything
     * else those of tier 1, or of tier 2 where uses_dot8. */
    int32_t tier;
    bool uses_dot8; /* passes of up to MAX_ROWS rows, in formats that have a kernel for it */
    VkPhysicalDevice physical;
    VkDevice device;
    struct VolkDeviceTable vk;
    gpu_queue queues[GPU_MAX_QUEUES]; /* [n_queues] */
    uint32_t n_queues;
    /* The queues are of two families: a command buffer is for one of them only. Buffers are for
     * both. */
    bool has_two_families;
    bool separate; /* not shared: a device of its own for one model */
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceLimits limits;
    uint32_t subgroup_size;
    bool is_cpu;
    tuning tuning;       /* guarded by kernels_lock: tuning_find */
    bool has_statistics; /* of pipelines: wanted (context.statistics) and to be had */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    pthread_mutex_t kernels_lock;  /* guards kernels and tuning */
    struct pooled_kernel *kernels; /* kernel_pool.h */
    VkPipelineCache pipeline_cache;
    atomic_bool cache_is_dirty; /* pipelines were created since the cache was loaded or stored */
    uint64_t cache_checksum;    /* of the cache data on disk, 0: none */
    /* A wait timed out: its work may still be running, so from then on Vulkan objects that it may
     * use are left alone, not destroyed (a driver may wait in there without an end). */
    atomic_bool hung;
} gpu;

/* OTR_ERROR_NO_DEVICE where there is no such device, or it can't be used. */
otr_result gpu_check_usable(otr_context *context, uint32_t index);
/* All that is known of a usable device before it is opened. */
void gpu_describe(otr_context *context, uint32_t index, int32_t tier, gpu *g);
/* Opens device `index`, or shares it when it is open already. separate: as a VkDevice of its own,
 * which nobody shares: its queues run beside those of the first even where a device has only one. */
otr_result gpu_open(otr_context *context, uint32_t index, bool separate, gpu **out);
/* For the self-test: the device at a tier that it can do, above its limit too. Not shared unless that
 * is its tier anyway. */
otr_result gpu_open_at_tier(otr_context *context, uint32_t index, int32_t tier, gpu **out);
/* Gives it back; the last user closes it and stores the pipeline cache. *g becomes NULL. */
void gpu_close(gpu **g);

/* Debug name of any Vulkan object; does nothing without debug utils. */
void gpu_name(gpu *g, VkObjectType type, uint64_t handle, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* vkQueueSubmit to queue number `queue`. */
VkResult gpu_submit(gpu *g, uint32_t queue, uint32_t n_infos, const VkSubmitInfo *infos,
                    VkFence fence);
/* Waits for a fence, at most `timeout_ms`; a time-out is OTR_ERROR_TIMEOUT, a lost device
 * OTR_ERROR_DEVICE_LOST. `what` is for the message. */
otr_result gpu_wait(gpu *g, VkFence fence, uint32_t timeout_ms, const char *what);

#endif

/* otr_context: instance, physical devices, log and error messages. Everything else hangs off it.
 * Threads: all functions here may be called from any thread. */
#ifndef OUTRIDER_CONTEXT_H
#define OUTRIDER_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include <volk.h>

#include "outrider/outrider.h"

/* Instance-level functions, per context: an application may load others into volk's globals. */
struct instance_table {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
    PFN_vkDestroyInstance vkDestroyInstance;
    PFN_vkEnumeratePhysicalDevices vkEnumeratePhysicalDevices;
    PFN_vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties; /* for Vulkan 1.0 devices */
    PFN_vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceProperties2;
    PFN_vkGetPhysicalDeviceFeatures2 vkGetPhysicalDeviceFeatures2;
    PFN_vkGetPhysicalDeviceMemoryProperties vkGetPhysicalDeviceMemoryProperties;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties vkGetPhysicalDeviceQueueFamilyProperties;
    PFN_vkEnumerateDeviceExtensionProperties vkEnumerateDeviceExtensionProperties;
    PFN_vkCreateDevice vkCreateDevice;
    PFN_vkGetDeviceProcAddr vkGetDeviceProcAddr;
    /* VK_EXT_debug_utils; NULL without it */
    PFN_vkCreateDebugUtilsMessengerEXT vkCreateDebugUtilsMessengerEXT;
    PFN_vkDestroyDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT;
    PFN_vkSetDebugUtilsObjectNameEXT vkSetDebugUtilsObjectNameEXT;
};

struct gpu;
struct device_facts;   /* device.h */
struct thread_message; /* the last error message of one thread */

struct otr_context {
    otr_log_callback log;
    void *log_user;
    otr_log_level log_level;
    bool validation;
    /* OUTRIDER_DEBUG=independent: the draft's noise is its own in coupled verification too, to
     * measure what sharing it earns. */
    bool independent_noise;
    bool timestamps;      /* OUTRIDER_DEBUG=timestamps: log the device time of each pass */
    bool statistics;      /* OUTRIDER_DEBUG=statistics: log what drivers tell of each pipeline */
    bool as_gpu;          /* OUTRIDER_DEBUG=gpu: on software devices too the kernels of GPUs */
    bool dot8;            /* OUTRIDER_DEBUG=dot8: decode with 8-bit dot products (tier 2) */
    bool force_tier0;     /* OUTRIDER_DEBUG=tier0: use the tier 0 kernels on every device */
    char *cache_dir;      /* NULL: no cache on disk */
    void *loader;         /* of dlopen */
    VkInstance instance;  /* NULL when there is no driver at all; then n_devices is 0 */
    uint32_t api_version; /* of the instance, at most 1.3 */
    struct instance_table vk;
    bool has_debug_utils;
    VkDebugUtilsMessengerEXT messenger;
    atomic_uint_least64_t validation_messages;
    uint32_t n_devices;
    VkPhysicalDevice *physical; /* [n_devices] */
    otr_device_info *devices;   /* [n_devices] */
    struct device_facts *facts; /* [n_devices] */
    pthread_mutex_t message_lock;
    struct thread_message *messages; /* guarded by message_lock */
    pthread_mutex_t gpu_lock;
    struct gpu *gpus; /* opened devices, shared by models: gpu_open; guarded by gpu_lock */
    bool abandoned;   /* a device hung and still exists, so the instance must too; gpu_lock */
};

/* Keeps the message as the calling thread's last error, logs it, and returns `result`. May be
 * called with gpu_lock held. */
otr_result context_fail(otr_context *context, otr_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a failed Vulkan call: maps the VkResult (out of memory, device lost, timeout,
 * other). The text names the call and the object, such as "vkAllocateMemory of 'weights'"; the
 * result's name follows. */
otr_result context_fail_vk(otr_context *context, VkResult vk_result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void context_log(otr_context *context, otr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Held while instances and devices are created, destroyed, named, and their function tables filled. Taken
 * after gpu_lock where both are. */
void loader_lock(void);
void loader_unlock(void);

/* Only for otr_context_destroy. */
void context_free_messages(otr_context *context);

/* "VK_ERROR_DEVICE_LOST" */
const char *vk_result_name(VkResult result);

#endif

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
    PFN_vkDestroyInstance vkDestroyInstance;
    PFN_vkEnumeratePhysicalDevices vkEnumeratePhysicalDevices;
    PFN_vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceProperties2;
    PFN_vkGetPhysicalDeviceFeatures2 vkGetPhysicalDeviceFeatures2;
    PFN_vkGetPhysicalDeviceMemoryProperties2 vkGetPhysicalDeviceMemoryProperties2;
    PFN_vkGetPhysicalDeviceQueueFamilyProperties vkGetPhysicalDeviceQueueFamilyProperties;
    PFN_vkEnumerateDeviceExtensionProperties vkEnumerateDeviceExtensionProperties;
    PFN_vkCreateDevice vkCreateDevice;
    PFN_vkGetDeviceProcAddr vkGetDeviceProcAddr;
    PFN_vkCreateDebugUtilsMessengerEXT vkCreateDebugUtilsMessengerEXT;   /* NULL without the extension */
    PFN_vkDestroyDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT; /* NULL without the extension */
};

struct gpu;
struct thread_message; /* the last error message of one thread */

struct otr_context {
    otr_log_callback log;
    void *log_user;
    otr_log_level log_level;
    bool validation;
    bool timestamps;  /* OUTRIDER_DEBUG=timestamps: log the device time of each pass */
    char *cache_dir;  /* NULL: no cache on disk */
    VkInstance instance;
    uint32_t api_version; /* of the instance */
    struct instance_table vk;
    bool has_debug_utils;
    VkDebugUtilsMessengerEXT messenger;
    atomic_uint_least64_t validation_messages;
    uint32_t n_devices;
    VkPhysicalDevice *physical; /* [n_devices] */
    otr_device_info *devices;   /* [n_devices] */
    pthread_mutex_t lock;       /* guards what follows */
    struct thread_message *messages;
    struct gpu *gpus; /* opened devices, shared by models: gpu_open */
};

/* Keeps the message as the calling thread's last error, logs it, and returns `result`. */
otr_result context_fail(otr_context *context, otr_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a failed Vulkan call: maps the VkResult (out of memory, device lost, timeout, other). `what`
 * names the call and the object, such as "vkAllocateMemory of 'weights'". */
otr_result context_fail_vk(otr_context *context, VkResult vk_result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void context_log(otr_context *context, otr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "VK_ERROR_DEVICE_LOST" */
const char *vk_result_name(VkResult result);

#endif

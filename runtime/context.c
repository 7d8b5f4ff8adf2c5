/* otr_context: loads Vulkan, creates the instance, counts validation messages. Called by
 * applications; everything else of the library takes a context. Messages and the log are in
 * message.c. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "device.h"

/* Environment variables that this file reads:
 *   OUTRIDER_DEBUG          comma-separated: validation, timestamps, statistics,
 *                           tier0, gpu, independent, dot8
 *   OUTRIDER_VULKAN_LOADER  path of the Vulkan loader to use instead of the system's libvulkan.so.1
 *   OUTRIDER_CACHE_DIR, XDG_CACHE_HOME, HOME  where the pipeline cache lives */

#define VALIDATION_LAYER "VK_LAYER_KHRONOS_validation"

static const char loader_advice[] =
    "install the Vulkan loader (Debian, Ubuntu: libvulkan1; Fedora: vulkan-loader; Arch: "
    "vulkan-icd-loader) or name one in OUTRIDER_VULKAN_LOADER";

/* Contexts are apart, but they share the loader and volk, whose process-wide lists (of instances and
 * their devices) Vulkan's rules let two threads change at a time and Debian 12's loader does not: it
 * walks them without a lock in vkGetDeviceProcAddr. */
static pthread_mutex_t lock_of_loader = PTHREAD_MUTEX_INITIALIZER;

void loader_lock(void)
{
    pthread_mutex_lock(&lock_of_loader);
}

void loader_unlock(void)
{
    pthread_mutex_unlock(&lock_of_loader);
}

otr_context_params otr_context_params_default(void)
{
    return (otr_context_params){
        .size = sizeof(otr_context_params),
        .log_level = OTR_LOG_WARNING,
    };
}

static void read_debug_options(otr_context *context)
{
    const char *at = getenv("OUTRIDER_DEBUG");
    const struct {
        const char *name;
        bool *flag;
    } options[] = {
        {"validation", &context->validation},
        {"timestamps", &context->timestamps},
        {"statistics", &context->statistics},
        {"tier0", &context->force_tier0},
        {"gpu", &context->as_gpu},
        {"independent", &context->independent_noise},
        {"dot8", &context->dot8},
    };

    while (at && *at) {
        size_t length = strcspn(at, ",");
        bool known = length == 0;
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
            if (strlen(options[i].name) == length && !memcmp(at, options[i].name, length)) {
                *options[i].flag = true;
                known = true;
            }
        }
        if (!known)
            context_log(
                context, OTR_LOG_WARNING,
                "OUTRIDER_DEBUG: unknown option '%.*s' (known: validation, timestamps, statistics, "
                "tier0, gpu, independent, dot8)",
                (int)length, at);
        at += length + (at[length] == ',');
    }
}

/* Sets context->cache_dir; NULL when there is to be no cache on disk. */
static otr_result choose_cache_dir(otr_context *context, const char *wanted)
{
    const char *base = wanted ? wanted : getenv("OUTRIDER_CACHE_DIR");
    const char *below = "";

    if (!base) {
        base = getenv("XDG_CACHE_HOME");
        below = "/outrider";
        /* The base directory specification: a relative path there is to be ignored. */
        if (!base || base[0] != '/') {
            base = getenv("HOME");
            below = "/.cache/outrider";
        }
        if (!base || base[0] == '\0') {
            context_log(
                context, OTR_LOG_WARNING,
                "no pipeline cache: none of OUTRIDER_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
            return OTR_OK;
        }
    }
    if (base[0] == '\0')
        return OTR_OK;
    if (asprintf(&context->cache_dir, "%s%s", base, below) < 0) {
        context->cache_dir = NULL;
        return context_fail(context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for the cache's path");
    }
    return OTR_OK;
}

static otr_result load_loader(otr_context *context)
{
    static const char *const system_names[] = {"libvulkan.so.1", "libvulkan.so"};
    const char *chosen = getenv("OUTRIDER_VULKAN_LOADER");

    if (chosen && *chosen) {
        context->loader = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
        if (!context->loader)
            return context_fail(
                context, OTR_ERROR_NO_VULKAN,
                "OUTRIDER_VULKAN_LOADER names a Vulkan loader that can't be loaded: %s", dlerror());
    }
    for (size_t i = 0; !context->loader && i < sizeof system_names / sizeof system_names[0]; i++)
        context->loader = dlopen(system_names[i], RTLD_NOW | RTLD_LOCAL);
    if (!context->loader)
        return context_fail(context, OTR_ERROR_NO_VULKAN, "Vulkan isn't installed: %s",
                            loader_advice);

    /* POSIX's way around C's lack of a cast from void * to a function. */
    *(void **)&context->vk.vkGetInstanceProcAddr = dlsym(context->loader, "vkGetInstanceProcAddr");
    if (!context->vk.vkGetInstanceProcAddr)
        return context_fail(context, OTR_ERROR_NO_VULKAN,
                            "the Vulkan loader has no vkGetInstanceProcAddr: %s", loader_advice);
    return OTR_OK;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_debug_message(
    VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
    const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    otr_context *context = user;

    atomic_fetch_add(&context->validation_messages, 1);
    context_log(context, OTR_LOG_ERROR, "validation: %s", data->pMessage ? data->pMessage : "");
    return VK_FALSE;
}

/* True when the instance extension is there, of the loader and drivers or of `layer`. */
static bool has_instance_extension(otr_context *context, const char *layer, const char *name)
{
    PFN_vkEnumerateInstanceExtensionProperties enumerate =
        (PFN_vkEnumerateInstanceExtensionProperties)context->vk.vkGetInstanceProcAddr(
            NULL, "vkEnumerateInstanceExtensionProperties");
    VkExtensionProperties *list = NULL;
    uint32_t n = 0;
    bool found = false;

    if (!enumerate || enumerate(layer, &n, NULL) != VK_SUCCESS || n == 0)
        return false;
    list = calloc(n, sizeof *list);
    if (list && enumerate(layer, &n, list) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n && !found; i++)
            found = strcmp(list[i].extensionName, name) == 0;
    free(list);
    return found;
}

static bool has_validation_layer(otr_context *context)
{
    PFN_vkEnumerateInstanceLayerProperties enumerate =
        (PFN_vkEnumerateInstanceLayerProperties)context->vk.vkGetInstanceProcAddr(
            NULL, "vkEnumerateInstanceLayerProperties");
    VkLayerProperties *list = NULL;
    uint32_t n = 0;
    bool found = false;

    if (!enumerate || enumerate(&n, NULL) != VK_SUCCESS || n == 0)
        return false;
    list = calloc(n, sizeof *list);
    if (list && enumerate(&n, list) >= VK_SUCCESS)
        for (uint32_t i = 0; i < n && !found; i++)
            found = strcmp(list[i].layerName, VALIDATION_LAYER) == 0;
    free(list);
    return found;
}

static void load_instance_table(otr_context *context)
{
    struct instance_table *vk = &context->vk;
#define LOAD(name) vk->name = (PFN_##name)vk->vkGetInstanceProcAddr(context->instance, #name)
    LOAD(vkDestroyInstance);
    LOAD(vkEnumeratePhysicalDevices);
    LOAD(vkGetPhysicalDeviceProperties);
    LOAD(vkGetPhysicalDeviceProperties2);
    LOAD(vkGetPhysicalDeviceFeatures2);
    LOAD(vkGetPhysicalDeviceMemoryProperties);
    LOAD(vkGetPhysicalDeviceQueueFamilyProperties);
    LOAD(vkEnumerateDeviceExtensionProperties);
    LOAD(vkCreateDevice);
    LOAD(vkGetDeviceProcAddr);
    if (context->has_debug_utils) {
        LOAD(vkCreateDebugUtilsMessengerEXT);
        LOAD(vkDestroyDebugUtilsMessengerEXT);
        LOAD(vkSetDebugUtilsObjectNameEXT);
    }
#undef LOAD
}

/* Leaves context->instance NULL, without an error, when no driver is installed. */
static otr_result create_instance(otr_context *context)
{
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)context->vk.vkGetInstanceProcAddr(
        NULL, "vkCreateInstance");
    PFN_vkEnumerateInstanceVersion get_version =
        (PFN_vkEnumerateInstanceVersion)context->vk.vkGetInstanceProcAddr(
            NULL, "vkEnumerateInstanceVersion");
    const char *layers[] = {VALIDATION_LAYER};
    const char *extensions[4];
    /* Warnings and errors of the validation layer itself; the loader's own remarks about drivers
     * that it skips are of the general type. */
    VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_debug_message,
        .pUserData = context,
    };
    const VkValidationFeatureEnableEXT enabled =
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .pNext = &messenger,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = &enabled,
    };
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "outrider",
        .pEngineName = "outrider",
    };
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
        .ppEnabledExtensionNames = extensions,
        .ppEnabledLayerNames = layers,
    };
    uint32_t version = VK_API_VERSION_1_0;
    VkResult result;

    if (get_version)
        get_version(&version);
    if (!create || version < VK_API_VERSION_1_1)
        return context_fail(context, OTR_ERROR_NO_VULKAN,
                            "the Vulkan loader is older than version 1.1: %s", loader_advice);
    context->api_version = version < VK_API_VERSION_1_3 ? version : VK_API_VERSION_1_3;
    application.apiVersion = context->api_version;

    context->has_debug_utils = has_instance_extension(context, NULL,
                                                      VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    if (context->validation) {
        if (!has_validation_layer(context))
            return context_fail(context, OTR_ERROR_NO_VULKAN,
                                "validation was asked for, but the layer " VALIDATION_LAYER
                                " isn't installed (Debian, Ubuntu: vulkan-validationlayers)");
        if (!has_instance_extension(context, VALIDATION_LAYER,
                                    VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME))
            return context_fail(context, OTR_ERROR_NO_VULKAN,
                                "the installed " VALIDATION_LAYER
                                " has no synchronisation validation: update it");
        context->has_debug_utils = true; /* the layer has it, should the loader not */
        info.enabledLayerCount = 1;
        info.pNext = &features;
        extensions[info.enabledExtensionCount++] = VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
    }
    if (context->has_debug_utils)
        extensions[info.enabledExtensionCount++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    /* Drivers over Metal are listed only for those who ask. */
    if (has_instance_extension(context, NULL, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions[info.enabledExtensionCount++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
        info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }

    result = create(&info, NULL, &context->instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        context->instance = NULL;
        context_log(context, OTR_LOG_INFO, "no Vulkan driver is installed");
        return OTR_OK;
    }
    if (result != VK_SUCCESS) {
        context->instance = NULL;
        context_fail_vk(context, result, "vkCreateInstance");
        return result == VK_ERROR_OUT_OF_HOST_MEMORY ? OTR_ERROR_OUT_OF_MEMORY
                                                     : OTR_ERROR_NO_VULKAN;
    }
    load_instance_table(context);
    if (context->validation) {
        result = context->vk.vkCreateDebugUtilsMessengerEXT(context->instance, &messenger, NULL,
                                                            &context->messenger);
        if (result != VK_SUCCESS)
            return context_fail_vk(context, result, "vkCreateDebugUtilsMessengerEXT");
    }
    return OTR_OK;
}

otr_result otr_context_create(const otr_context_params *params, otr_context **out)
{
    otr_context_params p = otr_context_params_default();
    otr_context *context = NULL;
    otr_result result = OTR_OK;

    if (!out)
        return OTR_ERROR_INVALID_ARGUMENT;
    *out = NULL;
    if (params) {
        if (params->size < sizeof params->size)
            return OTR_ERROR_INVALID_ARGUMENT;
        memcpy(&p, params, params->size < sizeof p ? params->size : sizeof p);
    }
    context = calloc(1, sizeof *context);
    if (!context) {
        if (p.log)
            p.log(OTR_LOG_ERROR, "out of memory for a context", p.log_user);
        return OTR_ERROR_OUT_OF_MEMORY;
    }
    context->log = p.log;
    context->log_user = p.log_user;
    context->log_level = p.log_level;
    context->validation = p.validation;
    pthread_mutex_init(&context->message_lock, NULL);
    pthread_mutex_init(&context->gpu_lock, NULL);
    read_debug_options(context);

    result = choose_cache_dir(context, p.cache_dir);
    if (result)
        goto end;
    loader_lock();
    result = load_loader(context);
    if (result == OTR_OK)
        result = create_instance(context);
    if (result == OTR_OK && context->instance)
        result = devices_enumerate(context);
    loader_unlock();
end:
    if (result)
        otr_context_destroy(&context);
    *out = context;
    return result;
}

void otr_context_destroy(otr_context **handle)
{
    otr_context *context = handle ? *handle : NULL;

    if (!context)
        return;
    *handle = NULL;
    if (context->gpus)
        context_log(context, OTR_LOG_ERROR,
                    "a context was destroyed before its models and sessions; it stays in memory");
    /* A device that still exists needs its instance, its loader and the messenger's context. */
    if (context->gpus || context->abandoned)
        return;
    loader_lock();
    if (context->messenger)
        context->vk.vkDestroyDebugUtilsMessengerEXT(context->instance, context->messenger, NULL);
    if (context->instance)
        context->vk.vkDestroyInstance(context->instance, NULL);
    if (context->loader)
        dlclose(context->loader);
    loader_unlock();
    free(context->facts);
    free(context->devices);
    free(context->physical);
    free(context->cache_dir);
    context_free_messages(context);
    pthread_mutex_destroy(&context->gpu_lock);
    pthread_mutex_destroy(&context->message_lock);
    free(context);
}

uint64_t otr_validation_message_count(const otr_context *context)
{
    return context ? atomic_load(&context->validation_messages) : 0;
}

uint32_t otr_device_count(const otr_context *context)
{
    return context ? context->n_devices : 0;
}

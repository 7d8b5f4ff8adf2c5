/* Devices: what there is and what each can do. Called by otr_context_create, and by whoever takes a
 * device from the user; the rules of choice are in device_choice.c, opening one is in gpu.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cooperative.h"

#define MIB (1024ull * 1024ull)

static void name_vendor(otr_device_info *info)
{
    static const struct {
        uint32_t id;
        const char *name;
    } vendors[] = {
        {0x1002, "AMD"},           {0x1010, "Imagination"},  {0x106b, "Apple"},
        {0x10de, "NVIDIA"},        {0x13b5, "Arm"},          {0x1414, "Microsoft"},
        {0x144d, "Samsung"},       {0x14e4, "Broadcom"},     {0x15ad, "VMware"},
        {0x19e5, "Huawei"},        {0x1ae0, "Google"},       {0x1af4, "Red Hat"},
        {0x1ed5, "Moore Threads"}, {0x5143, "Qualcomm"},     {0x8086, "Intel"},
        {0x10001, "Vivante"},      {0x10002, "VeriSilicon"}, {0x10003, "Kazan"},
        {0x10004, "Codeplay"},     {0x10005, "Mesa"},        {0x10006, "PoCL"},
        {0x10007, "Mobileye"},
    };

    for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++) {
        if (vendors[i].id == info->vendor_id) {
            snprintf(info->vendor, sizeof info->vendor, "%s", vendors[i].name);
            return;
        }
    }
    snprintf(info->vendor, sizeof info->vendor, "0x%04x", info->vendor_id);
}

static otr_device_type convert_type(VkPhysicalDeviceType type)
{
    static const otr_device_type types[] = {
        [VK_PHYSICAL_DEVICE_TYPE_OTHER] = OTR_DEVICE_OTHER,
        [VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU] = OTR_DEVICE_INTEGRATED,
        [VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU] = OTR_DEVICE_DISCRETE,
        [VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU] = OTR_DEVICE_VIRTUAL,
        [VK_PHYSICAL_DEVICE_TYPE_CPU] = OTR_DEVICE_CPU,
    };

    return (size_t)type < sizeof types / sizeof types[0] ? types[type] : OTR_DEVICE_OTHER;
}

/* ------------------------------------------------------------------------------ inspection */

struct extension_list {
    uint32_t n;
    VkExtensionProperties *list;
};

static bool has_extension(const struct extension_list *extensions, const char *name)
{
    for (uint32_t i = 0; i < extensions->n; i++)
        if (!strcmp(extensions->list[i].extensionName, name))
            return true;
    return false;
}

static void inspect_queues(otr_context *context, VkPhysicalDevice physical, otr_device_info *info,
                           device_facts *facts)
{
    VkQueueFamilyProperties families[OTR_MAX_QUEUE_FAMILIES];
    uint32_t n = 0;

    /* SwiftShader fills as many as there is room for, and has one. */
    context->vk.vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, NULL);
    n = n < OTR_MAX_QUEUE_FAMILIES ? n : OTR_MAX_QUEUE_FAMILIES;
    context->vk.vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families);
    info->n_queue_families = n;
    for (uint32_t i = 0; i < n; i++) {
        const VkQueueFlags flags = families[i].queueFlags;
        info->queue_families[i].n_queues = families[i].queueCount;
        info->queue_families[i].compute = (flags & VK_QUEUE_COMPUTE_BIT) != 0;
        info->queue_families[i].graphics = (flags & VK_QUEUE_GRAPHICS_BIT) != 0;
        /* Compute and graphics families can always transfer, even when they don't say so. */
        info->queue_families[i].transfer = (flags & (VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT |
                                                     VK_QUEUE_GRAPHICS_BIT)) != 0;
    }
    device_choose_queues(info, facts->queue_families);
    if (facts->queue_families[0] != DEVICE_NONE)
        info->timestamp_valid_bits = families[facts->queue_families[0]].timestampValidBits;
}

static void inspect_heaps(otr_context *context, VkPhysicalDevice physical, otr_device_info *info)
{
    VkPhysicalDeviceMemoryProperties memory;

    context->vk.vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    info->n_heaps = memory.memoryHeapCount < OTR_MAX_HEAPS ? memory.memoryHeapCount : OTR_MAX_HEAPS;
    for (uint32_t i = 0; i < info->n_heaps; i++) {
        info->heaps[i].size_bytes = memory.memoryHeaps[i].size;
        info->heaps[i].device_local = (memory.memoryHeaps[i].flags &
                                       VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    }
}

/* Puts a structure in front of the chain behind `head`. */
#define CHAIN(head, link) ((link).pNext = (head).pNext, (head).pNext = &(link))

/* Everything that takes Vulkan 1.1 to ask. A structure joins the chain only where the device knows
 * it. */
static void inspect_features(otr_context *context, VkPhysicalDevice physical,
                             const struct extension_list *extensions, otr_device_info *info,
                             device_facts *facts)
{
    const bool v12 = facts->api_version >= VK_API_VERSION_1_2;
    const bool v13 = facts->api_version >= VK_API_VERSION_1_3;
    const bool has_size_control_extension = has_extension(
        extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    const bool knows_size_control = v13 || has_size_control_extension;
    const bool knows_dot = v13 || has_extension(extensions,
                                                VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    const bool knows_maintenance4 = v13 ||
                                    has_extension(extensions, VK_KHR_MAINTENANCE_4_EXTENSION_NAME);
    const bool has_pci = has_extension(extensions, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties maintenance3 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceMaintenance4Properties maintenance4 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot8 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDevice16BitStorageFeatures storage16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures size_control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};

    CHAIN(properties, id);
    CHAIN(properties, maintenance3);
    CHAIN(properties, subgroup);
    CHAIN(features, storage16);
    if (knows_maintenance4)
        CHAIN(properties, maintenance4);
    if (knows_dot) {
        CHAIN(properties, dot);
        CHAIN(features, dot8);
    }
    if (knows_size_control) {
        CHAIN(properties, sizes);
        CHAIN(features, size_control);
    }
    if (v12 || has_extension(extensions, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        CHAIN(properties, driver);
    if (has_pci)
        CHAIN(properties, pci);
    if (v12 || has_extension(extensions, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME))
        CHAIN(features, timeline);
    context->vk.vkGetPhysicalDeviceProperties2(physical, &properties);
    context->vk.vkGetPhysicalDeviceFeatures2(physical, &features);

    memcpy(info->uuid, id.deviceUUID, sizeof info->uuid);
    snprintf(info->driver_name, sizeof info->driver_name, "%s", driver.driverName);
    snprintf(info->driver_info, sizeof info->driver_info, "%s", driver.driverInfo);
    info->subgroup_size = subgroup.subgroupSize;
    info->has_timeline_semaphores = timeline.timelineSemaphore;
    facts->timeline_is_extension = !v12;

    facts->max_allocation_bytes = maintenance3.maxMemoryAllocationSize;
    facts->max_buffer_bytes = knows_maintenance4 ? maintenance4.maxBufferSize : UINT64_MAX;
    facts->subgroup_size = subgroup.subgroupSize;
    facts->min_subgroup_size = sizes.minSubgroupSize;
    facts->max_workgroup_subgroups = sizes.maxComputeWorkgroupSubgroups;
    facts->has_subgroup_arithmetic = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                                     (subgroup.supportedOperations &
                                      VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
    facts->has_16bit_storage = storage16.storageBuffer16BitAccess;
    facts->has_robust_access = features.features.robustBufferAccess;
    facts->pins_subgroup_size = size_control.subgroupSizeControl &&
                                (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    facts->full_subgroups = facts->pins_subgroup_size && size_control.computeFullSubgroups;
    facts->subgroup_control_is_extension = !v13 && has_size_control_extension;
    /* Without the extension a driver may use another size than the one it reports. */
    facts->subgroup_size_is_fixed = facts->pins_subgroup_size ||
                                    (knows_size_control &&
                                     sizes.minSubgroupSize == sizes.maxSubgroupSize);
    facts->has_pci_address = has_pci;
    facts->pci_domain = pci.pciDomain;
    facts->pci_bus = pci.pciBus;
    facts->pci_device = pci.pciDevice;
    facts->pci_function = pci.pciFunction;

    facts->hardware_tier = 0;
    if (facts->has_subgroup_arithmetic && facts->has_16bit_storage &&
        facts->subgroup_size_is_fixed && facts->subgroup_size >= 4 && facts->subgroup_size <= 128) {
        facts->hardware_tier = 1;
        if (dot.integerDotProduct4x8BitPackedSignedAccelerated)
            facts->hardware_tier = 2;
        facts->has_dot8 = dot8.shaderIntegerDotProduct;
        facts->dot8_is_extension = !v13;
    }
}

/* Tier 3, which needs what tier 1 needs but not tier 2's dot products. */
static void inspect_cooperative(otr_context *context, VkPhysicalDevice physical,
                                const struct extension_list *extensions,
                                const VkPhysicalDeviceLimits *limits, otr_device_info *info,
                                device_facts *facts)
{
    char reason[128] = "";

    if (facts->hardware_tier < 1 ||
        !has_extension(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
        return;
    cooperative_inspect(context, physical, facts, limits, reason, sizeof reason);
    if (facts->cooperative.m > 0)
        facts->hardware_tier = 3;
    if (facts->cooperative.m > 0 && !cooperative_is_built())
        snprintf(reason, sizeof reason,
                 "no kernels for them in this build, whose GLSL compiler lacks "
                 "GL_KHR_cooperative_matrix");
    if (reason[0])
        snprintf(info->note, sizeof info->note, "cooperative matrices (tier 3) are not used: %s",
                 reason);
}

/* The highest tier that the hardware could do and kernels are used for. Those of tier 2 only when
 * asked for: on no device have they been measured to be faster. */
static int32_t kernel_tier(const otr_context *context, const device_facts *facts)
{
    if (context->force_tier0)
        return 0;
    if (facts->hardware_tier == 3 && cooperative_is_built())
        return 3;
    if (context->dot8 && facts->has_dot8)
        return 2;
    return facts->hardware_tier < 1 ? facts->hardware_tier : 1;
}

int32_t device_lower_tier(const otr_context *context, const device_facts *facts, int32_t tier)
{
    /* Tier 2 alone changes something where its dot products are used. */
    if (tier == 3 && !(context->dot8 && facts->has_dot8))
        return 1;
    return tier - 1;
}

bool device_meets_minimum(otr_device_info *info, const VkPhysicalDeviceProperties *properties,
                          uint32_t queue_family)
{
    const VkPhysicalDeviceLimits *limits = &properties->limits;
    const struct {
        uint64_t has, needs;
        const char *what;
    } least[] = {
        {limits->maxPerStageDescriptorStorageBuffers, KERNEL_STORAGE_BUFFERS,
         "storage buffers per shader stage"},
        {limits->maxComputeWorkGroupInvocations, 128, "invocations per workgroup"},
        {limits->maxComputeWorkGroupSize[0], 128, "invocations per workgroup in x"},
        {limits->maxComputeSharedMemorySize, 16 * 1024, "bytes of shared memory"},
        {limits->maxStorageBufferRange, 128 * MIB, "bytes per storage buffer binding"},
    };

    info->problem[0] = '\0';
    if (properties->apiVersion < VK_API_VERSION_1_1) {
        snprintf(info->problem, sizeof info->problem, "needs Vulkan 1.1, the driver has %u.%u",
                 VK_API_VERSION_MAJOR(properties->apiVersion),
                 VK_API_VERSION_MINOR(properties->apiVersion));
        return false;
    }
    if (queue_family == DEVICE_NONE) {
        snprintf(info->problem, sizeof info->problem, "has no queue for compute work");
        return false;
    }
    for (size_t i = 0; i < sizeof least / sizeof least[0]; i++) {
        if (least[i].has < least[i].needs) {
            snprintf(info->problem, sizeof info->problem, "needs %llu %s, has %llu",
                     (unsigned long long)least[i].needs, least[i].what,
                     (unsigned long long)least[i].has);
            return false;
        }
    }
    return true;
}

static otr_result inspect_device(otr_context *context, uint32_t index)
{
    VkPhysicalDevice physical = context->physical[index];
    otr_device_info *info = &context->devices[index];
    device_facts *facts = &context->facts[index];
    struct extension_list extensions = {0};
    VkPhysicalDeviceProperties properties;
    VkResult result;

    context->vk.vkGetPhysicalDeviceProperties(physical, &properties);
    info->size = sizeof *info;
    info->index = index;
    snprintf(info->name, sizeof info->name, "%s", properties.deviceName);
    info->vendor_id = properties.vendorID;
    info->device_id = properties.deviceID;
    name_vendor(info);
    info->type = convert_type(properties.deviceType);
    info->driver_version = properties.driverVersion;
    info->api_version = properties.apiVersion;
    info->same_as = -1;
    info->max_workgroup_invocations = properties.limits.maxComputeWorkGroupInvocations;
    info->max_shared_memory_bytes = properties.limits.maxComputeSharedMemorySize;
    info->max_storage_binding_bytes = properties.limits.maxStorageBufferRange;
    facts->api_version = properties.apiVersion < context->api_version ? properties.apiVersion
                                                                      : context->api_version;
    facts->max_buffer_bytes = UINT64_MAX;
    inspect_queues(context, physical, info, facts);
    inspect_heaps(context, physical, info);

    result = context->vk.vkEnumerateDeviceExtensionProperties(physical, NULL, &extensions.n, NULL);
    if (result == VK_SUCCESS && extensions.n > 0) {
        extensions.list = calloc(extensions.n, sizeof *extensions.list);
        if (!extensions.list)
            return context_fail(context, OTR_ERROR_OUT_OF_MEMORY,
                                "out of memory for the device list");
        result = context->vk.vkEnumerateDeviceExtensionProperties(physical, NULL, &extensions.n,
                                                                  extensions.list);
    }
    if (result < VK_SUCCESS) {
        /* One broken driver must not take the others away. */
        snprintf(info->problem, sizeof info->problem, "its extensions can't be listed: %s",
                 vk_result_name(result));
        info->tier = -1;
        goto end;
    }
    facts->has_pipeline_statistics = has_extension(
        &extensions, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    facts->is_portability_subset = has_extension(&extensions, "VK_KHR_portability_subset");
    if (facts->api_version >= VK_API_VERSION_1_1)
        inspect_features(context, physical, &extensions, info, facts);
    inspect_cooperative(context, physical, &extensions, &properties.limits, info, facts);
    if (!device_meets_minimum(info, &properties, facts->queue_families[0])) {
        info->tier = facts->hardware_tier = -1;
        goto end;
    }
    info->tier = facts->full_tier = kernel_tier(context, facts);
    tier_limit_apply(context, index);
end:
    context_log(context, OTR_LOG_DEBUG, "device %u: %s, %s %s, tier %d (hardware %d)%s%s", index,
                info->name, info->driver_name, info->driver_info, (int)info->tier,
                (int)facts->hardware_tier, info->problem[0] ? ": " : "", info->problem);
    free(extensions.list);
    return OTR_OK;
}

otr_result devices_enumerate(otr_context *context)
{
    uint32_t n = 0, chosen;
    VkResult vk_result;

    vk_result = context->vk.vkEnumeratePhysicalDevices(context->instance, &n, NULL);
    /* A driver without its hardware may say so only here. */
    if (vk_result == VK_ERROR_INITIALIZATION_FAILED || (vk_result == VK_SUCCESS && n == 0)) {
        context_log(context, OTR_LOG_INFO, "the installed Vulkan drivers offer no device");
        return OTR_OK;
    }
    if (vk_result != VK_SUCCESS)
        return context_fail_vk(context, vk_result, "vkEnumeratePhysicalDevices");
    context->physical = calloc(n, sizeof *context->physical);
    context->devices = calloc(n, sizeof *context->devices);
    context->facts = calloc(n, sizeof *context->facts);
    if (!context->physical || !context->devices || !context->facts)
        return context_fail(context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for the device list");
    vk_result = context->vk.vkEnumeratePhysicalDevices(context->instance, &n, context->physical);
    if (vk_result < VK_SUCCESS)
        return context_fail_vk(context, vk_result, "vkEnumeratePhysicalDevices");
    for (uint32_t i = 0; i < n; i++) {
        otr_result result = inspect_device(context, i);
        if (result)
            return result;
    }
    context->n_devices = n;
    devices_mark_same(context->devices, context->facts, n);
    chosen = device_choose(context->devices, n);
    if (chosen != DEVICE_NONE)
        context->devices[chosen].is_default = true;
    return OTR_OK;
}

otr_result otr_device_describe(otr_context *context, uint32_t index, otr_device_info *info)
{
    size_t size;

    if (!context)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!info || info->size < sizeof info->size)
        return context_fail(context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_device_describe: info->size is not set");
    if (index >= context->n_devices)
        return context_fail(context, OTR_ERROR_NO_DEVICE, "there is no device %u; there are %u",
                            index, context->n_devices);
    /* A program built before a field was added gets what it knows. */
    size = info->size < sizeof *info ? info->size : sizeof *info;
    memcpy(info, &context->devices[index], size);
    info->size = size;
    return OTR_OK;
}

otr_result otr_device_find(otr_context *context, const char *selector, uint32_t *index)
{
    char message[768];

    if (!context)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!index)
        return context_fail(context, OTR_ERROR_INVALID_ARGUMENT, "otr_device_find: index is NULL");
    if (!device_match(context->devices, context->n_devices, selector, index, message,
                      sizeof message))
        return context_fail(context, OTR_ERROR_NO_DEVICE, "%s", message);
    return OTR_OK;
}

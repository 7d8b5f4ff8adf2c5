/* Cooperative matrices: which devices can run shaders/matmul_cooperative.comp, in which shape. */
#include "cooperative.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel.h"

/* The kernel's workgroup: SIZE outputs and rows, slices of SLICE of k. Small
 * subgroups, as of software devices, take half of SIZE. */
#define SIZE 64u
#define SMALL_SIZE 32u
#define SLICE 32u
#define SMALL_SUBGROUP 16u /* smaller ones are small */
#define MAX_SUMS 16u       /* matrices of sums that a subgroup keeps in registers */

bool cooperative_is_built(void)
{
    for (size_t i = 0; i < n_shaders; i++)
        if (!strncmp(shader_list[i].name, "matmul_cooperative_", 19))
            return true;
    return false;
}

/* The kernel cuts SMALL_SIZE in two halves of whole matrices and SLICE in whole matrices, and has
 * pairs of outputs. */
static bool is_usable(const VkCooperativeMatrixPropertiesKHR *p)
{
    return p->scope == VK_SCOPE_SUBGROUP_KHR && p->AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
           p->BType == VK_COMPONENT_TYPE_FLOAT16_KHR && p->CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
           p->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && !p->saturatingAccumulation &&
           p->MSize >= 4 && p->NSize >= 4 && p->KSize >= 4 && p->MSize % 2 == 0 &&
           p->KSize % 4 == 0 && SMALL_SIZE / 2 % p->MSize == 0 && SMALL_SIZE / 2 % p->NSize == 0 &&
           SLICE % p->KSize == 0;
}

cooperative_shape cooperative_choose(const VkCooperativeMatrixPropertiesKHR *list, uint32_t n)
{
    cooperative_shape best = {0};

    /* The largest: the most multiplications for what is loaded. The first of equals, as the driver
     * lists them. */
    for (uint32_t i = 0; i < n; i++)
        if (is_usable(&list[i]) &&
            list[i].MSize * list[i].NSize * list[i].KSize > best.m * best.n * best.k)
            best = (cooperative_shape){list[i].MSize, list[i].NSize, list[i].KSize};
    return best;
}

static uint32_t size_for(uint32_t subgroup_size)
{
    return subgroup_size < SMALL_SUBGROUP ? SMALL_SIZE : SIZE;
}

/* Bytes of shared memory: see the kernel's head. */
static uint32_t shared_bytes(const cooperative_shape *s, uint32_t size)
{
    return 2 * 2 * size * (SLICE + 8) + 4 * size + 4 * COOPERATIVE_SUBGROUPS * s->m * s->n;
}

static cooperative_shape find_shape(otr_context *context, VkPhysicalDevice physical)
{
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR enumerate =
        (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)context->vk.vkGetInstanceProcAddr(
            context->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    VkCooperativeMatrixPropertiesKHR list[128];
    uint32_t n = sizeof list / sizeof list[0];

    for (uint32_t i = 0; i < n; i++)
        list[i] = (VkCooperativeMatrixPropertiesKHR){
            .sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    /* VK_INCOMPLETE, more than fit here, is above 0. */
    if (!enumerate || enumerate(physical, &n, list) < VK_SUCCESS)
        n = 0;
    return cooperative_choose(list, n);
}

void cooperative_inspect(otr_context *context, VkPhysicalDevice physical, device_facts *facts,
                         const VkPhysicalDeviceLimits *limits, char *reason, size_t size)
{
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, .pNext = &matrix};
    VkPhysicalDeviceShaderFloat16Int8Features float16 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
        .pNext = &memory_model};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &float16};
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR stages = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &stages};
    cooperative_shape shape = {0};
    const char *missing = NULL;

    if (facts->api_version < VK_API_VERSION_1_2) {
        missing = "Vulkan 1.2";
        goto end;
    }
    context->vk.vkGetPhysicalDeviceFeatures2(physical, &features);
    context->vk.vkGetPhysicalDeviceProperties2(physical, &properties);
    shape = find_shape(context, physical);
    if (!matrix.cooperativeMatrix ||
        !(stages.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
        missing = "them in compute shaders";
    else if (!float16.shaderFloat16)
        missing = "shaderFloat16";
    else if (!memory_model.vulkanMemoryModel || !memory_model.vulkanMemoryModelDeviceScope)
        missing = "vulkanMemoryModel or vulkanMemoryModelDeviceScope";
    else if (!facts->full_subgroups)
        missing = "computeFullSubgroups";
    else if (shape.m == 0)
        missing = "a shape of halfs with sums of floats that divides 16 x 16 x 32";
    else if (shared_bytes(&shape, size_for(facts->subgroup_size)) >
             limits->maxComputeSharedMemorySize)
        missing = "enough shared memory";
    else if (COOPERATIVE_SUBGROUPS * facts->subgroup_size > limits->maxComputeWorkGroupInvocations)
        missing = "workgroups of four subgroups";
    else
        facts->cooperative = shape;
end:
    if (missing)
        snprintf(reason, size, "the driver lacks %s", missing);
}

cooperative_sizes cooperative_find_sizes(const gpu *g, uint32_t size)
{
    const cooperative_shape *s = &g->facts->cooperative;

    size = size ? size : size_for(g->subgroup_size);
    return (cooperative_sizes){
        .outputs = size,
        .rows = size,
        .constants = {COOPERATIVE_SUBGROUPS * g->subgroup_size, size, size, SLICE, s->m, s->n,
                      s->k},
    };
}

bool cooperative_size_fits(const gpu *g, uint32_t size)
{
    const cooperative_shape *s = &g->facts->cooperative;

    if (!size)
        return true; /* cooperative_inspect has seen to it */
    return size / 2 % s->m == 0 && size / 2 % s->n == 0 &&
           size / 2 / s->m * (size / 2 / s->n) <= MAX_SUMS &&
           shared_bytes(s, size) <= g->limits.maxComputeSharedMemorySize;
}

float cooperative_scale(double largest)
{
    int exponent;

    if (!(largest > 0) || isinf(largest))
        return 1;
    frexp(largest, &exponent); /* largest < 2^exponent */
    exponent = 15 - exponent;
    return ldexpf(1, exponent < -126 ? -126 : exponent > 126 ? 126 : exponent);
}

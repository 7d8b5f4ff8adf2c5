/* Cooperative matrices (VK_KHR_cooperative_matrix, tier 3): what a device has of them, and the sizes
 * of the one kernel that uses them, shaders/matmul_cooperative.comp. Used by device.c, gpu.c, and by
 * whoever runs that kernel. */
#ifndef OUTRIDER_COOPERATIVE_H
#define OUTRIDER_COOPERATIVE_H

#include "device.h"

/* Headers before 1.3.255, such as Debian 12's, don't know the extension. */
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR                          \
    ((VkStructureType)1000506000)
#define VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR ((VkStructureType)1000506001)
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR                        \
    ((VkStructureType)1000506002)

typedef enum VkComponentTypeKHR {
    VK_COMPONENT_TYPE_FLOAT16_KHR = 0,
    VK_COMPONENT_TYPE_FLOAT32_KHR = 1,
} VkComponentTypeKHR;

typedef enum VkScopeKHR {
    VK_SCOPE_SUBGROUP_KHR = 3,
} VkScopeKHR;

typedef struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix;
    VkBool32 cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;

typedef struct VkPhysicalDeviceCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    VkShaderStageFlags cooperativeMatrixSupportedStages;
} VkPhysicalDeviceCooperativeMatrixPropertiesKHR;

typedef struct VkCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    VkComponentTypeKHR AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    VkScopeKHR scope;
} VkCooperativeMatrixPropertiesKHR;

typedef VkResult(VKAPI_PTR *PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(
    VkPhysicalDevice physical, uint32_t *n, VkCooperativeMatrixPropertiesKHR *properties);
#endif

/* True when this build has the kernel: its GLSL compiler could compile it. */
bool cooperative_is_built(void);

/* The best of the shapes that the device has enumerated, halfs in and floats out in a subgroup, of
 * those that the kernel can use; m is 0 when there is none. */
cooperative_shape cooperative_choose(const VkCooperativeMatrixPropertiesKHR *list, uint32_t n);

/* Fills facts->cooperative where the device has all that the kernel needs; otherwise, where it has
 * the extension, `reason` says what is missing. The rest of the facts must be there. */
void cooperative_inspect(otr_context *context, VkPhysicalDevice physical, device_facts *facts,
                         const VkPhysicalDeviceLimits *limits, char *reason, size_t size);

/* Sizes of the kernel on a device of tier 3: how many outputs and rows a workgroup takes. */
#define COOPERATIVE_CONSTANTS 7
#define COOPERATIVE_SUBGROUPS 4 /* of a workgroup */
typedef struct cooperative_sizes {
    uint32_t outputs, rows;
    uint32_t constants[COOPERATIVE_CONSTANTS];
} cooperative_sizes;
/* size: of a workgroup's side, tuning.cooperative_size. */
cooperative_sizes cooperative_find_sizes(const gpu *g, uint32_t size);
/* Whether the device can run that. */
bool cooperative_size_fits(const gpu *g, uint32_t size);

/* The power of two that the kernel multiplies weights by, none of which is above `largest`, so that
 * they fit into halfs. */
float cooperative_scale(double largest);

#endif

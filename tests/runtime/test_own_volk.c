/* A program that uses volk itself, with its symbols exported as a plug-in host's are, and
 * liboutrider from two threads: neither may touch the other's function pointers. Linked with the
 * shared library. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#define VOLK_IMPLEMENTATION
#include <volk.h>

#include "outrider/outrider.h"

#define N_WORDS 1024

struct own_device {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint32_t *mapped;
    VkCommandPool pool;
    VkCommandBuffer commands;
};

static const char *model_path;

#define CHECK_VK(call) ck_assert_int_eq(call, VK_SUCCESS)

static void own_open(struct own_device *own)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .apiVersion = VK_API_VERSION_1_1,
    };
    const VkInstanceCreateInfo instance = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
    };
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
    };
    const VkBufferCreateInfo buffer = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = N_WORDS * 4,
        .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    VkMemoryRequirements requirements;
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
    };
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandBufferCount = 1,
    };
    uint32_t n = 1;

    CHECK_VK(volkInitialize());
    CHECK_VK(vkCreateInstance(&instance, NULL, &own->instance));
    volkLoadInstanceOnly(own->instance);
    ck_assert_int_ge(vkEnumeratePhysicalDevices(own->instance, &n, &own->physical), VK_SUCCESS);
    ck_assert_uint_eq(n, 1);
    CHECK_VK(vkCreateDevice(own->physical, &device, NULL, &own->device));
    volkLoadDevice(own->device); /* the globals now belong to this device */
    vkGetDeviceQueue(own->device, 0, 0, &own->queue);
    CHECK_VK(vkCreateBuffer(own->device, &buffer, NULL, &own->buffer));
    vkGetBufferMemoryRequirements(own->device, own->buffer, &requirements);
    memory.allocationSize = requirements.size; /* type 0 is mappable on the software devices */
    CHECK_VK(vkAllocateMemory(own->device, &memory, NULL, &own->memory));
    CHECK_VK(vkBindBufferMemory(own->device, own->buffer, own->memory, 0));
    CHECK_VK(vkMapMemory(own->device, own->memory, 0, VK_WHOLE_SIZE, 0, (void **)&own->mapped));
    CHECK_VK(vkCreateCommandPool(own->device, &pool, NULL, &own->pool));
    commands.commandPool = own->pool;
    CHECK_VK(vkAllocateCommandBuffers(own->device, &commands, &own->commands));
}

/* Fills the buffer through the globals and looks at it. */
static void own_work(struct own_device *own, uint32_t value)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &own->commands,
    };

    CHECK_VK(vkBeginCommandBuffer(own->commands, &begin));
    vkCmdFillBuffer(own->commands, own->buffer, 0, VK_WHOLE_SIZE, value);
    CHECK_VK(vkEndCommandBuffer(own->commands));
    CHECK_VK(vkQueueSubmit(own->queue, 1, &submit, VK_NULL_HANDLE));
    CHECK_VK(vkQueueWaitIdle(own->queue));
    for (int i = 0; i < N_WORDS; i++)
        ck_assert_uint_eq(own->mapped[i], value);
}

static void own_close(struct own_device *own)
{
    vkDestroyCommandPool(own->device, own->pool, NULL);
    vkDestroyBuffer(own->device, own->buffer, NULL);
    vkFreeMemory(own->device, own->memory, NULL);
    vkDestroyDevice(own->device, NULL);
    vkDestroyInstance(own->instance, NULL);
}

/* Contexts come and go; each opens the device and uploads a model's weights. */
static void *use_outrider(void *unused)
{
    for (int i = 0; i < 4; i++) {
        otr_context_params context_params = otr_context_params_default();
        otr_model_params params = otr_model_params_default();
        otr_model_info info = {.size = sizeof info};
        otr_context *context;
        otr_model *model;
        char message[512];

        context_params.cache_dir = "";
        ck_assert_int_eq(otr_context_create(&context_params, &context), OTR_OK);
        ck_assert_uint_gt(otr_device_count(context), 0);
        params.path = model_path;
        if (otr_model_load(context, &params, &model) != OTR_OK) {
            otr_error_message(context, message, sizeof message);
            ck_abort_msg("%s", message);
        }
        ck_assert_int_eq(otr_model_describe(model, &info), OTR_OK);
        ck_assert_uint_gt(info.weight_bytes, 0);
        otr_model_destroy(&model);
        otr_context_destroy(&context);
    }
    return NULL;
}

START_TEST(volk_of_the_program_is_its_own)
{
    struct own_device own = {0};
    const void *globals[] = {(void *)&vkGetInstanceProcAddr, (void *)&vkGetDeviceProcAddr,
                             (void *)&vkCreateBuffer, (void *)&vkQueueSubmit};
    void *before[4];
    pthread_t threads[2];

    own_open(&own);
    for (int i = 0; i < 4; i++)
        before[i] = *(void *const *)globals[i];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_outrider, NULL), 0);
    for (uint32_t i = 0; i < 200; i++)
        own_work(&own, i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(*(void *const *)globals[i], before[i]);
    own_work(&own, 12345);
    own_close(&own);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("own volk");
    TCase *tests = tcase_create("threads");
    SRunner *runner = srunner_create(suite);
    int failed;

    if (argc != 2)
        return EXIT_FAILURE;
    model_path = argv[1];
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, volk_of_the_program_is_its_own);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

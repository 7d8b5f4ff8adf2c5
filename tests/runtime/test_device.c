/* Contexts, devices, buffers, uploads and kernels on a real device; run once per software device.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "capture.h"
#include "cooperative.h"
#include "kernel.h"
#include "memory.h"

static capture log_of_test;

static void check_message(otr_context *context, const char *text)
{
    char message[1024];

    ck_assert_uint_gt(otr_error_message(context, message, sizeof message), 0);
    ck_assert_msg(strstr(message, text) != NULL, "'%s' is not in: %s", text, message);
}

/* Ends a test that ran under validation. */
static void close_clean(otr_context **context)
{
    uint64_t n = otr_validation_message_count(*context);

    otr_context_destroy(context);
    ck_assert_ptr_null(*context);
    ck_assert_msg(n == 0, "%s", log_of_test.text);
}

static gpu *open_default(otr_context *context)
{
    uint32_t index;
    gpu *g = NULL;
    otr_result result = otr_device_find(context, NULL, &index);

    if (!result)
        result = gpu_open(context, index, false, &g);
    ck_assert_msg(result == OTR_OK, "%s", log_of_test.text);
    return g;
}

/* ------------------------------------------------------------------------------- contexts */

START_TEST(devices_are_described)
{
    otr_context *context = capture_context(&log_of_test, true, "");
    uint32_t n = otr_device_count(context), n_defaults = 0, found;

    ck_assert_uint_gt(n, 0);
    for (uint32_t i = 0; i < n; i++) {
        static const uint8_t no_uuid[16];
        otr_device_info info = {.size = sizeof info};
        bool has_compute = false;
        char number[16], uuid[33] = "";

        ck_assert_int_eq(otr_device_describe(context, i, &info), OTR_OK);
        ck_assert_uint_eq(info.size, sizeof info);
        ck_assert_uint_eq(info.index, i);
        ck_assert_str_ne(info.name, "");
        ck_assert_str_ne(info.vendor, "");
        ck_assert_str_ne(info.driver_name, "");
        ck_assert(memcmp(info.uuid, no_uuid, 16) != 0);
        ck_assert_uint_ge(info.api_version, VK_API_VERSION_1_1);
        ck_assert_str_eq(info.problem, "");
        ck_assert_int_eq(info.type, OTR_DEVICE_CPU); /* of the software devices that tests run on */
        if (context->facts[i].hardware_tier == 3 && cooperative_is_built())
            ck_assert_int_eq(info.tier, 3);
        else
            ck_assert_int_eq(info.tier, strstr(info.name, "SwiftShader") ? 0 : 1);
        ck_assert_int_eq(context->facts[i].cooperative.m > 0, context->facts[i].hardware_tier == 3);
        ck_assert_uint_ge(info.subgroup_size, 4);
        ck_assert_uint_ge(info.max_workgroup_invocations, 128);
        ck_assert_uint_ge(info.max_shared_memory_bytes, 16384);
        ck_assert_uint_ge(info.max_storage_binding_bytes, 1u << 27);
        ck_assert_uint_gt(info.n_heaps, 0);
        ck_assert_uint_gt(info.heaps[0].size_bytes, 0);
        ck_assert_uint_eq(info.n_queue_families, 1);
        for (uint32_t q = 0; q < info.n_queue_families; q++)
            has_compute |= info.queue_families[q].compute && info.queue_families[q].n_queues > 0;
        ck_assert(has_compute);
        n_defaults += info.is_default;

        snprintf(number, sizeof number, "%u", i);
        ck_assert_int_eq(otr_device_find(context, number, &found), OTR_OK);
        ck_assert_uint_eq(found, i);
        for (int b = 0; b < 16; b++)
            snprintf(uuid + 2 * b, 3, "%02x", info.uuid[b]);
        ck_assert_int_eq(otr_device_find(context, uuid, &found), OTR_OK);
        ck_assert_uint_eq(found, i);
    }
    ck_assert_uint_eq(n_defaults, 1);
    ck_assert_int_eq(otr_device_find(context, "no such device", &found), OTR_ERROR_NO_DEVICE);
    check_message(context, "no device matches 'no such device'");
    close_clean(&context);
}
END_TEST

START_TEST(sizes_of_older_programs_are_kept)
{
    otr_context *context = capture_context(&log_of_test, false, "");
    /* As if otr_device_info had ended with its name. */
    const size_t old = offsetof(otr_device_info, vendor);
    otr_device_info info;
    otr_context_params params = {.size = 0};
    otr_context *none;

    memset(&info, 0x55, sizeof info);
    info.size = old;
    ck_assert_int_eq(otr_device_describe(context, 0, &info), OTR_OK);
    ck_assert_uint_eq(info.size, old);
    ck_assert_str_ne(info.name, "");
    for (size_t i = old; i < sizeof info; i++)
        ck_assert_int_eq(((unsigned char *)&info)[i], 0x55);
    info.size = 0;
    ck_assert_int_eq(otr_device_describe(context, 0, &info), OTR_ERROR_INVALID_ARGUMENT);
    info.size = sizeof info;
    ck_assert_int_eq(otr_device_describe(context, 1000, &info), OTR_ERROR_NO_DEVICE);
    otr_context_destroy(&context);

    ck_assert_int_eq(otr_context_create(&params, &none), OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(otr_context_create(NULL, &none), OTR_OK);
    otr_context_destroy(&none);
    otr_context_destroy(&none);
    otr_context_destroy(NULL);
}
END_TEST

START_TEST(missing_loader_is_named)
{
    otr_context_params params = otr_context_params_default();
    otr_context *context = (otr_context *)&params;

    setenv("OUTRIDER_VULKAN_LOADER", "/nonexistent/libvulkan.so.1", 1);
    capture_start(&log_of_test);
    params.log = capture_log;
    params.log_user = &log_of_test;
    ck_assert_int_eq(otr_context_create(&params, &context), OTR_ERROR_NO_VULKAN);
    ck_assert_ptr_null(context);
    ck_assert(capture_has(&log_of_test, "/nonexistent/libvulkan.so.1"));

    /* A library, but not Vulkan's. */
    setenv("OUTRIDER_VULKAN_LOADER", "libm.so.6", 1);
    capture_start(&log_of_test);
    ck_assert_int_eq(otr_context_create(&params, &context), OTR_ERROR_NO_VULKAN);
    ck_assert_msg(capture_has(&log_of_test, "libvulkan1"), "%s", log_of_test.text);
}
END_TEST

START_TEST(chosen_loader_is_used)
{
    otr_context *context;

    setenv("OUTRIDER_VULKAN_LOADER", "libvulkan.so.1", 1);
    context = capture_context(&log_of_test, false, "");
    ck_assert_uint_gt(otr_device_count(context), 0);
    otr_context_destroy(&context);
}
END_TEST

START_TEST(no_driver_is_no_device)
{
    otr_context *context;
    uint32_t index;

    setenv("VK_DRIVER_FILES", "/nonexistent/icd.json", 1);
    setenv("VK_ICD_FILENAMES", "/nonexistent/icd.json", 1);
    context = capture_context(&log_of_test, false, "");
    ck_assert_uint_eq(otr_device_count(context), 0);
    ck_assert_msg(capture_has(&log_of_test, "2 no Vulkan driver is installed"), "%s",
                  log_of_test.text);
    ck_assert_int_eq(otr_device_find(context, NULL, &index), OTR_ERROR_NO_DEVICE);
    check_message(context, "mesa-vulkan-drivers");
    otr_context_destroy(&context);
}
END_TEST

START_TEST(debug_options_are_read)
{
    otr_context *context;
    otr_device_info info = {.size = sizeof info};

    setenv("OUTRIDER_DEBUG", "tier0,wrong,validation", 1);
    context = capture_context(&log_of_test, false, "");
    ck_assert(context->validation);
    ck_assert(!context->timestamps);
    ck_assert_int_eq(otr_device_describe(context, 0, &info), OTR_OK);
    ck_assert_int_eq(info.tier, 0);
    ck_assert(capture_has(&log_of_test, "1 OUTRIDER_DEBUG: unknown option 'wrong'"));
    close_clean(&context);
}
END_TEST

START_TEST(validation_messages_are_counted)
{
    otr_context *context = capture_context(&log_of_test, true, "");
    gpu *g = open_default(context);
    VkBufferCreateInfo wrong = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
    };
    VkBuffer buffer = VK_NULL_HANDLE;

    ck_assert_uint_eq(otr_validation_message_count(context), 0);
    g->vk.vkCreateBuffer(g->device, &wrong, NULL, &buffer); /* no bytes */
    ck_assert_uint_eq(otr_validation_message_count(context), 1);
    ck_assert_msg(capture_has(&log_of_test, "0 validation: "), "%s", log_of_test.text);
    ck_assert(capture_has(&log_of_test, "VUID-VkBufferCreateInfo-size"));
    if (buffer)
        g->vk.vkDestroyBuffer(g->device, buffer, NULL);
    gpu_close(&g);
    otr_context_destroy(&context);
}
END_TEST

static void *fail_in_thread(void *argument)
{
    otr_context *context = argument;
    char message[64];
    uint32_t index;

    ck_assert_uint_eq(otr_error_message(context, message, sizeof message), 0);
    ck_assert_int_eq(otr_device_find(context, "second", &index), OTR_ERROR_NO_DEVICE);
    check_message(context, "'second'");
    return NULL;
}

START_TEST(messages_are_per_thread)
{
    otr_context *context = capture_context(&log_of_test, false, "");
    char message[8] = "zzzzzzz";
    uint32_t index;
    pthread_t thread;

    ck_assert_uint_eq(otr_error_message(context, message, sizeof message), 0);
    ck_assert_str_eq(message, "");
    ck_assert_int_eq(otr_device_find(context, "first", &index), OTR_ERROR_NO_DEVICE);
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_in_thread, context), 0);
    pthread_join(thread, NULL);
    check_message(context, "'first'");
    /* Cut, but the full length is told. */
    ck_assert_uint_gt(otr_error_message(context, message, sizeof message), sizeof message);
    ck_assert_uint_eq(strlen(message), sizeof message - 1);
    ck_assert_uint_gt(otr_error_message(context, NULL, 0), 0);
    otr_context_destroy(&context);
}
END_TEST

START_TEST(many_threads_have_their_messages)
{
    otr_context *context = capture_context(&log_of_test, false, "");
    pthread_t threads[200];
    uint32_t index;

    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fail_in_thread, context), 0);
        /* Never so many at once that a message could give way before it is read. */
        if (i % 4 == 3)
            for (int j = i - 3; j <= i; j++)
                pthread_join(threads[j], NULL);
    }
    ck_assert_int_eq(otr_device_find(context, "last", &index), OTR_ERROR_NO_DEVICE);
    check_message(context, "'last'");
    otr_context_destroy(&context);
}
END_TEST

/* -------------------------------------------------------------------------------- devices */

START_TEST(gpus_are_shared)
{
    otr_context *context = capture_context(&log_of_test, true, "");
    gpu *a = open_default(context), *b = open_default(context), *kept = a;

    ck_assert_ptr_eq(a, b);
    ck_assert_ptr_eq(context->gpus, a);
    gpu_close(&a);
    ck_assert_ptr_null(a);
    ck_assert_ptr_eq(context->gpus, kept);
    gpu_close(&b);
    ck_assert_ptr_null(context->gpus);
    gpu_close(&b);
    ck_assert_int_eq(gpu_open(context, 99, false, &a), OTR_ERROR_NO_DEVICE);
    check_message(context, "there is no device 99");
    close_clean(&context);
}
END_TEST

START_TEST(weak_device_is_not_opened)
{
    otr_context *context = capture_context(&log_of_test, false, "");
    uint32_t index;
    gpu *g;

    /* What inspection writes about a device that lacks something. */
    for (uint32_t i = 0; i < context->n_devices; i++) {
        context->devices[i].tier = -1;
        snprintf(context->devices[i].problem, sizeof context->devices[i].problem,
                 "has no queue for compute work");
    }
    ck_assert_int_eq(gpu_open(context, 0, false, &g), OTR_ERROR_NO_DEVICE);
    check_message(context, "can't be used: it has no queue for compute work");
    ck_assert_int_eq(otr_device_find(context, NULL, &index), OTR_ERROR_NO_DEVICE);
    check_message(context, "has no queue for compute work");
    otr_context_destroy(&context);
}
END_TEST

static uint32_t n_asked_queues, asked_families[GPU_MAX_QUEUES], n_asked_of_families;

/* A driver that only notes which queues are asked for. */
static VkResult VKAPI_CALL note_queues(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                       const VkAllocationCallbacks *allocator, VkDevice *device)
{
    n_asked_queues = info->queueCreateInfoCount;
    for (uint32_t i = 0; i < n_asked_queues && i < GPU_MAX_QUEUES; i++) {
        asked_families[i] = info->pQueueCreateInfos[i].queueFamilyIndex;
        n_asked_of_families += info->pQueueCreateInfos[i].queueCount;
    }
    return VK_ERROR_INITIALIZATION_FAILED;
}

static VkResult VKAPI_CALL note_sharing(VkDevice device, const VkBufferCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkBuffer *buffer)
{
    ck_assert_int_eq(info->sharingMode, VK_SHARING_MODE_CONCURRENT);
    ck_assert_uint_eq(info->queueFamilyIndexCount, 2);
    ck_assert_uint_eq(info->pQueueFamilyIndices[0], 2);
    ck_assert_uint_eq(info->pQueueFamilyIndices[1], 0);
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

/* No software device has two: one queue of each is asked for, and buffers that both may use. */
START_TEST(queues_of_two_families_are_opened)
{
    otr_context *context = capture_context(&log_of_test, false, "");
    gpu *g = open_default(context), *other;
    device_facts *facts = &context->facts[g->index];
    gpu_buffer buffer;

    facts->queue_families[0] = 2;
    facts->queue_families[1] = 0;
    context->vk.vkCreateDevice = note_queues;
    ck_assert_int_ne(gpu_open(context, g->index, true, &other), OTR_OK);
    ck_assert_uint_eq(n_asked_queues, 2);
    ck_assert_uint_eq(asked_families[0], 2);
    ck_assert_uint_eq(asked_families[1], 0);
    ck_assert_uint_eq(n_asked_of_families, 2);
    g->vk.vkCreateBuffer = note_sharing;
    ck_assert_int_eq(gpu_buffer_create(g, 64, MEMORY_DEVICE, "of both", &buffer),
                     OTR_ERROR_OUT_OF_MEMORY);
    gpu_close(&g);
    otr_context_destroy(&context);
}
END_TEST

/* Copies a device buffer to a mapped one and waits. */
static void read_back(gpu *g, uploader *u, const gpu_buffer *from, gpu_buffer *to)
{
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkBufferCopy region = {.size = from->size};
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &u->commands,
    };

    g->vk.vkResetCommandPool(g->device, u->pool, 0);
    g->vk.vkBeginCommandBuffer(u->commands, &begin);
    g->vk.vkCmdCopyBuffer(u->commands, from->buffer, to->buffer, 1, &region);
    g->vk.vkCmdPipelineBarrier(u->commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                               VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    ck_assert_int_eq(g->vk.vkEndCommandBuffer(u->commands), VK_SUCCESS);
    g->vk.vkResetFences(g->device, 1, &u->fence);
    ck_assert_int_eq(gpu_submit(g, 0, 1, &submit, u->fence), VK_SUCCESS);
    ck_assert_int_eq(gpu_wait(g, u->fence, 10000, "a copy"), OTR_OK);
}

/* Uploads, overwrites and zeroes parts of a buffer in pieces of a small staging buffer, and
 * compares. */
static void round_trip(otr_context *context, unsigned seed)
{
    enum { N = 10007 };
    uint32_t *expected = malloc(N * sizeof *expected);
    gpu *g = open_default(context);
    gpu_buffer device, mapped;
    uploader u;

    ck_assert_ptr_nonnull(expected);
    ck_assert_int_eq(gpu_buffer_create(g, N * 4, MEMORY_DEVICE, "device", &device), OTR_OK);
    ck_assert_int_eq(gpu_buffer_create(g, N * 4, MEMORY_READBACK, "mapped", &mapped), OTR_OK);
    ck_assert_ptr_null(device.mapped);
    ck_assert_ptr_nonnull(mapped.mapped);
    ck_assert_int_eq(uploader_create(g, 4099, &u), OTR_OK); /* ten pieces, and not whole words */
    for (uint32_t i = 0; i < N; i++)
        expected[i] = seed = seed * 1664525u + 1013904223u;
    ck_assert_int_eq(upload(&u, &device, 0, expected, N * 4), OTR_OK);
    for (uint32_t i = 100; i < 3000; i++)
        expected[i] = ~expected[i];
    ck_assert_int_eq(upload(&u, &device, 400, expected + 100, 2900 * 4), OTR_OK);
    memset(expected + 5000, 0, 17 * 4);
    ck_assert_int_eq(upload_zero(&u, &device, 5000 * 4, 17 * 4), OTR_OK);
    ck_assert_int_eq(upload_zero(&u, &device, 0, 0), OTR_OK);
    read_back(g, &u, &device, &mapped);
    ck_assert_mem_eq(mapped.mapped, expected, N * 4);

    ck_assert_int_eq(upload(&u, &device, 2, expected, 4), OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(upload(&u, &device, 4, expected, N * 4), OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(upload(&u, &device, UINT64_MAX - 3, expected, 8), OTR_ERROR_INVALID_ARGUMENT);
    uploader_destroy(&u);
    uploader_destroy(&u);
    gpu_buffer_destroy(g, &mapped);
    gpu_buffer_destroy(g, &device);
    gpu_buffer_destroy(g, &device);
    gpu_close(&g);
    free(expected);
}

START_TEST(uploads_round_trip)
{
    otr_context *context = capture_context(&log_of_test, true, "");

    round_trip(context, 1);
    close_clean(&context);
}
END_TEST

static void *work_in_thread(void *argument)
{
    capture *log = calloc(1, sizeof *log);
    otr_context *context;

    ck_assert_ptr_nonnull(log);
    context = capture_context(log, false, "");
    for (unsigned i = 0; i < 5; i++)
        round_trip(context, (unsigned)(uintptr_t)argument + i);
    otr_context_destroy(&context);
    free(log);
    return NULL;
}

START_TEST(contexts_in_threads_are_apart)
{
    pthread_t threads[2];

    for (uintptr_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work_in_thread, (void *)(i * 100)), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(too_large_buffers_are_refused)
{
    otr_context *context = capture_context(&log_of_test, true, "");
    gpu *g = open_default(context);
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 4, 1ull << 62, 1ull << 44,
                              g->facts->max_allocation_bytes + 1};
    gpu_buffer buffer;
    uploader u;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int use = MEMORY_DEVICE; use <= MEMORY_READBACK; use++) {
            memset(&buffer, 0x55, sizeof buffer);
            ck_assert_int_eq(
                gpu_buffer_create(g, sizes[i], (enum memory_use)use, "huge cache", &buffer),
                OTR_ERROR_OUT_OF_MEMORY);
            check_message(context, "'huge cache'");
            check_message(context, "MiB");
            ck_assert(!buffer.buffer && !buffer.memory && !buffer.mapped && !buffer.size);
        }
    }
    ck_assert_int_eq(gpu_buffer_create(g, 0, MEMORY_DEVICE, "nothing", &buffer),
                     OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(uploader_create(g, 1ull << 44, &u), OTR_ERROR_OUT_OF_MEMORY);
    check_message(context, "'staging'");
    ck_assert_ptr_null(u.gpu);
    gpu_close(&g);
    close_clean(&context);
}
END_TEST

START_TEST(kernels_are_created)
{
    otr_context *context = capture_context(&log_of_test, true, "");
    gpu *g = open_default(context);
    const uint32_t constants[KERNEL_MAX_CONSTANTS + 1] = {32};
    uint32_t too_large = g->limits.maxComputeWorkGroupSize[0] + 1;
    VkPipeline pipeline;

    ck_assert_int_eq(kernel_create(g, "rmsnorm", constants, 1, true, "norm of the test", &pipeline),
                     OTR_OK);
    ck_assert(pipeline != VK_NULL_HANDLE);
    ck_assert(atomic_load(&g->cache_is_dirty));
    g->vk.vkDestroyPipeline(g->device, pipeline, NULL);

    ck_assert_int_eq(kernel_create(g, "nonesuch", constants, 1, false, "layer 3", &pipeline),
                     OTR_ERROR_UNSUPPORTED);
    check_message(context, "layer 3: no shader 'nonesuch' in this build");
    ck_assert(pipeline == VK_NULL_HANDLE);
    ck_assert_int_eq(kernel_create(g, "rmsnorm", constants, KERNEL_MAX_CONSTANTS + 1, false,
                                   "layer 3", &pipeline),
                     OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(kernel_create(g, "rmsnorm", &too_large, 1, false, "layer 3", &pipeline),
                     OTR_ERROR_UNSUPPORTED);
    check_message(context, "layer 3: shader 'rmsnorm' needs workgroups of");
    gpu_close(&g);
    close_clean(&context);
}
END_TEST

START_TEST(shader_list_is_sorted)
{
    ck_assert_uint_gt(n_shaders, 0);
    for (size_t i = 0; i < n_shaders; i++) {
        ck_assert_uint_eq(shader_list[i].words[0], 0x07230203); /* SPIR-V's magic number */
        ck_assert_uint_eq(shader_list[i].n_bytes % 4, 0);
        if (i > 0)
            ck_assert_int_lt(strcmp(shader_list[i - 1].name, shader_list[i].name), 0);
    }
}
END_TEST

/* A wait ends after its time, and what may still be in use is then left alone, without a hang. */
START_TEST(waits_end)
{
    otr_context *context = capture_context(&log_of_test, false, "");
    gpu *g = open_default(context);
    uploader u;

    ck_assert_int_eq(uploader_create(g, 4096, &u), OTR_OK);
    ck_assert_int_eq(gpu_wait(g, u.fence, 20, "a fence that nobody signals"), OTR_ERROR_TIMEOUT);
    check_message(context, "did not finish within 20 ms: a fence that nobody signals");
    ck_assert(atomic_load(&g->hung));
    uploader_destroy(&u);
    gpu_close(&g);
    ck_assert(capture_has(&log_of_test, "stays open until the program ends"));
    otr_context_destroy(&context);
    ck_assert_ptr_null(context);
    _exit(0); /* past the leak checker: what is left behind here is left on purpose */
}
END_TEST

START_TEST(vulkan_errors_are_mapped)
{
    otr_context *context = capture_context(&log_of_test, false, "");

    ck_assert_int_eq(context_fail_vk(context, VK_ERROR_DEVICE_LOST, "call of '%s'", "x"),
                     OTR_ERROR_DEVICE_LOST);
    check_message(context, "call of 'x' failed: VK_ERROR_DEVICE_LOST (-4)");
    ck_assert_int_eq(context_fail_vk(context, VK_ERROR_OUT_OF_DEVICE_MEMORY, "x"),
                     OTR_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(context_fail_vk(context, VK_ERROR_OUT_OF_HOST_MEMORY, "x"),
                     OTR_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(context_fail_vk(context, VK_TIMEOUT, "x"), OTR_ERROR_TIMEOUT);
    ck_assert_int_eq(context_fail_vk(context, VK_ERROR_UNKNOWN, "x"), OTR_ERROR_DEVICE);
    otr_context_destroy(&context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *contexts = tcase_create("contexts"), *devices = tcase_create("devices");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(contexts, 60);
    tcase_add_test(contexts, devices_are_described);
    tcase_add_test(contexts, sizes_of_older_programs_are_kept);
    tcase_add_test(contexts, missing_loader_is_named);
    tcase_add_test(contexts, chosen_loader_is_used);
    tcase_add_test(contexts, no_driver_is_no_device);
    tcase_add_test(contexts, debug_options_are_read);
    tcase_add_test(contexts, validation_messages_are_counted);
    tcase_add_test(contexts, messages_are_per_thread);
    tcase_add_test(contexts, many_threads_have_their_messages);
    tcase_add_test(contexts, vulkan_errors_are_mapped);
    suite_add_tcase(suite, contexts);
    tcase_set_timeout(devices, 60);
    tcase_add_test(devices, gpus_are_shared);
    tcase_add_test(devices, weak_device_is_not_opened);
    tcase_add_test(devices, queues_of_two_families_are_opened);
    tcase_add_test(devices, uploads_round_trip);
    tcase_add_test(devices, contexts_in_threads_are_apart);
    tcase_add_test(devices, too_large_buffers_are_refused);
    tcase_add_test(devices, kernels_are_created);
    tcase_add_test(devices, shader_list_is_sorted);
    tcase_add_exit_test(devices, waits_end, 0);
    suite_add_tcase(suite, devices);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

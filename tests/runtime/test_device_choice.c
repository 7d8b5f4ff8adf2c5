/* The rules of device choice, over lists that no one machine has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "device.h"

static otr_device_info device(const char *name, const char *driver, otr_device_type type,
                              int32_t tier)
{
    otr_device_info info = {.size = sizeof info, .type = type, .tier = tier, .same_as = -1};

    snprintf(info.name, sizeof info.name, "%s", name);
    snprintf(info.driver_name, sizeof info.driver_name, "%s", driver);
    if (tier < 0)
        snprintf(info.problem, sizeof info.problem, "needs Vulkan 1.1, the driver has 1.0");
    return info;
}

#define LAVAPIPE device("llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe", OTR_DEVICE_CPU, 1)
#define SWIFTSHADER device("SwiftShader Device (Subzero)", "SwiftShader driver", OTR_DEVICE_CPU, 0)
#define DISCRETE device("AMD Radeon RX 7900 XTX", "radv", OTR_DEVICE_DISCRETE, 1)
#define INTEGRATED                                                                                 \
    device("Intel(R) Graphics", "Intel open-source Mesa driver", OTR_DEVICE_INTEGRATED, 1)
#define VIRTUAL device("Virtio-GPU Venus", "venus", OTR_DEVICE_VIRTUAL, 1)
#define OTHER device("Box", "box", OTR_DEVICE_OTHER, 1)

START_TEST(default_follows_the_order)
{
    /* From the best to the worst: whichever is taken away, the next one is the default. */
    const otr_device_info order[] = {
        DISCRETE,    INTEGRATED, VIRTUAL,
        OTHER,       LAVAPIPE,   device("PoCL", "pocl", OTR_DEVICE_CPU, 1),
        SWIFTSHADER,
    };
    const uint32_t n = sizeof order / sizeof order[0];

    for (uint32_t first = 0; first < n; first++) {
        otr_device_info list[sizeof order / sizeof order[0]];
        uint32_t left = n - first;
        ck_assert_uint_eq(device_choose(order + first, left), 0);
        for (uint32_t i = 0; i < left; i++) /* and in the opposite order */
            list[i] = order[n - 1 - i];
        ck_assert_uint_eq(device_choose(list, left), left - 1);
    }
}
END_TEST

START_TEST(queues_follow_the_order)
{
    enum { N = 4 };
    const struct {
        struct {
            uint32_t n_queues;
            bool compute, graphics;
        } families[N];
        uint32_t expected[2];
    } cases[] = {
        {{{1, true, true}}, {0, 0}},                     /* lavapipe */
        {{{16, true, true}, {2, false, false}}, {0, 0}}, /* no family for compute alone */
        {{{16, true, true}, {2, false, false}, {8, true, false}}, {2, 2}}, /* NVIDIA */
        {{{1, true, true}, {4, true, false}, {2, false, false}}, {1, 1}},  /* AMD */
        {{{1, true, true}, {1, true, false}}, {1, 0}}, /* Intel with a compute engine */
        {{{4, true, true}, {1, true, false}}, {1, 0}},
        {{{1, true, true}, {1, true, true}}, {0, 1}},
        {{{1, true, true}, {0, true, false}}, {0, 0}},
        {{{1, false, true}, {1, true, false}, {1, true, true}, {1, true, false}}, {1, 3}},
        {{{1, false, true}}, {DEVICE_NONE, DEVICE_NONE}},
        {{{0}}, {DEVICE_NONE, DEVICE_NONE}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        otr_device_info info = DISCRETE;
        uint32_t families[2];
        info.n_queue_families = N;
        for (uint32_t f = 0; f < N; f++) {
            info.queue_families[f].n_queues = cases[i].families[f].n_queues;
            info.queue_families[f].compute = cases[i].families[f].compute;
            info.queue_families[f].graphics = cases[i].families[f].graphics;
        }
        device_choose_queues(&info, families);
        ck_assert_msg(memcmp(families, cases[i].expected, sizeof families) == 0,
                      "case %zu: families %u and %u", i, families[0], families[1]);
    }
}
END_TEST

START_TEST(weak_devices_are_no_default)
{
    otr_device_info list[] = {DISCRETE, SWIFTSHADER};

    list[0].tier = -1;
    ck_assert_uint_eq(device_choose(list, 2), 1);
    list[1].tier = -1;
    ck_assert_uint_eq(device_choose(list, 2), DEVICE_NONE);
    ck_assert_uint_eq(device_choose(list, 0), DEVICE_NONE);
}
END_TEST

START_TEST(default_prefers_tier_then_memory_then_order)
{
    otr_device_info list[] = {DISCRETE, DISCRETE, DISCRETE};

    ck_assert_uint_eq(device_choose(list, 3), 0);
    for (uint32_t i = 0; i < 3; i++) {
        list[i].n_heaps = 2;
        list[i].heaps[0].size_bytes = 64ull << 30; /* the host's: of no weight */
        list[i].heaps[1].size_bytes = (i == 1 ? 24ull : 8ull) << 30;
        list[i].heaps[1].device_local = true;
    }
    list[0].heaps[0].size_bytes = 128ull << 30;
    ck_assert_uint_eq(device_choose(list, 3), 1);
    list[1].tier = 0;
    ck_assert_uint_eq(device_choose(list, 3), 0);
}
END_TEST

START_TEST(one_gpu_under_two_drivers_is_marked)
{
    otr_device_info list[] = {
        INTEGRATED, DISCRETE,
        device("AMD Radeon RX 7900 XTX", "AMD open-source driver", OTR_DEVICE_DISCRETE, 1),
        DISCRETE};
    device_facts facts[4] = {0};

    for (uint32_t i = 1; i < 4; i++) {
        list[i].vendor_id = 0x1002;
        list[i].device_id = 0x744c;
        memset(list[i].uuid, i == 3 ? 7 : 5, sizeof list[i].uuid);
    }
    devices_mark_same(list, facts, 4);
    ck_assert_int_eq(list[0].same_as, -1);
    ck_assert_int_eq(list[1].same_as, -1);
    ck_assert_int_eq(list[2].same_as, 1);  /* by UUID */
    ck_assert_int_eq(list[3].same_as, -1); /* a second card */

    /* Two equal cards under one driver whose UUIDs collide are two cards. */
    memcpy(list[3].uuid, list[1].uuid, sizeof list[3].uuid);
    snprintf(list[2].name, sizeof list[2].name, "other");
    list[2].device_id = 1;
    devices_mark_same(list, facts, 4);
    ck_assert_int_eq(list[3].same_as, -1);

    /* The bus address decides where both know it, whatever the UUIDs say. */
    list[2].device_id = 0x744c;
    for (uint32_t i = 1; i < 4; i++) {
        facts[i].has_pci_address = true;
        facts[i].pci_bus = i == 2 ? 9 : 3;
    }
    memset(list[3].uuid, 1, sizeof list[3].uuid);
    devices_mark_same(list, facts, 4);
    ck_assert_int_eq(list[2].same_as, -1);
    ck_assert_int_eq(list[3].same_as, 1);
}
END_TEST

START_TEST(unknown_uuid_marks_nothing)
{
    otr_device_info list[] = {DISCRETE,
                              device("AMD Radeon RX 7900 XTX", "amdvlk", OTR_DEVICE_DISCRETE, 1)};
    device_facts facts[2] = {0};

    devices_mark_same(list, facts, 2);
    ck_assert_int_eq(list[1].same_as, -1);
}
END_TEST

START_TEST(devices_are_found)
{
    otr_device_info list[] = {
        LAVAPIPE,    device("NVIDIA GeForce RTX 4090", "NVIDIA", OTR_DEVICE_DISCRETE, 1),
        INTEGRATED,  device("NVIDIA GeForce RTX 3060", "NVIDIA", OTR_DEVICE_DISCRETE, 1),
        SWIFTSHADER,
    };
    const struct {
        const char *selector;
        uint32_t index;
    } cases[] = {
        {NULL, 1},
        {"", 1},
        {"0", 0},
        {"4", 4},
        {"4090", 1}, /* no index, but a part of a name */
        {"swiftshader", 4},
        {"LLVM", 0},
        {"Mesa", 2},   /* by driver */
        {"nvidia", 1}, /* two, of which one is the default */
        {"000102030405060708090a0b0c0d0e0f", 3},
        {"00010203-0405-0607-0809-0A0B0C0D0E0F", 3},
    };
    char message[512];
    uint32_t index;

    for (uint8_t i = 0; i < 16; i++)
        list[3].uuid[i] = i;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool ok = device_match(list, 5, cases[i].selector, &index, message, sizeof message);
        ck_assert_msg(ok, "'%s': %s", cases[i].selector, message);
        ck_assert_uint_eq(index, cases[i].index);
    }
}
END_TEST

START_TEST(failed_searches_say_why)
{
    otr_device_info list[] = {
        device("NVIDIA GeForce RTX 4090", "NVIDIA", OTR_DEVICE_DISCRETE, 1),
        device("Intel(R) UHD", "Mesa", OTR_DEVICE_INTEGRATED, 1),
        device("Intel(R) Arc", "Mesa", OTR_DEVICE_INTEGRATED, 1),
        device("Old Thing", "old", OTR_DEVICE_INTEGRATED, -1),
    };
    const struct {
        const char *selector, *message;
    } cases[] = {
        {"radeon",
         "no device matches 'radeon'; there are 0 (NVIDIA GeForce RTX 4090, NVIDIA), 1 (Intel"},
        {"7", "no device matches '7'; there are"},
        {"intel",
         "'intel' matches 2 devices, choose by index or UUID: 1 (Intel(R) UHD, Mesa), 2 ("},
        {"old", "device 3 (Old Thing) can't be used: it needs Vulkan 1.1, the driver has 1.0"},
        {"3", "device 3 (Old Thing) can't be used"},
        {"00010203-0405-0607-0809-0A0B0C0D0E0F", "no device matches '00010203"},
    };
    char message[512];
    uint32_t index;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert(!device_match(list, 4, cases[i].selector, &index, message, sizeof message));
        ck_assert_msg(strstr(message, cases[i].message) != NULL, "'%s': %s", cases[i].selector,
                      message);
        ck_assert_uint_eq(index, DEVICE_NONE);
    }
    ck_assert(!device_match(list, 0, NULL, &index, message, sizeof message));
    ck_assert_msg(strstr(message, "install") != NULL, "%s", message);
    ck_assert(!device_match(list + 3, 1, NULL, &index, message, sizeof message));
    ck_assert_msg(strstr(message, "Old Thing needs Vulkan 1.1") != NULL, "%s", message);
}
END_TEST

START_TEST(messages_stay_in_their_buffer)
{
    otr_device_info *list = calloc(64, sizeof *list);
    char message[256 + 8];
    uint32_t index;

    ck_assert_ptr_nonnull(list);
    for (uint32_t i = 0; i < 64; i++) {
        list[i] = DISCRETE;
        memset(list[i].name, 'x', sizeof list[i].name - 1);
    }
    memset(message, 42, sizeof message);
    ck_assert(!device_match(list, 64, "nothing", &index, message, 256));
    ck_assert_uint_lt(strlen(message), 256);
    for (uint32_t i = 256; i < sizeof message; i++)
        ck_assert_int_eq(message[i], 42);
    free(list);
}
END_TEST

/* A device with exactly the least that Vulkan 1.1 promises. */
static VkPhysicalDeviceProperties least_device(void)
{
    VkPhysicalDeviceProperties p = {.apiVersion = VK_API_VERSION_1_1};

    p.limits.maxPerStageDescriptorStorageBuffers = 4;
    p.limits.maxComputeWorkGroupInvocations = 128;
    p.limits.maxComputeWorkGroupSize[0] = 128;
    p.limits.maxComputeSharedMemorySize = 16384;
    p.limits.maxStorageBufferRange = 1u << 27;
    return p;
}

START_TEST(what_a_weak_device_lacks_is_named)
{
    const VkPhysicalDeviceProperties least = least_device();
    VkPhysicalDeviceProperties p = least;
    otr_device_info info = {0};

    ck_assert(device_meets_minimum(&info, &p, 0));
    ck_assert_str_eq(info.problem, "");

#define LACKS(change, text)                                                                        \
    do {                                                                                           \
        p = least;                                                                                 \
        change;                                                                                    \
        ck_assert(!device_meets_minimum(&info, &p, 0));                                            \
        ck_assert_str_eq(info.problem, text);                                                      \
    } while (0)
    LACKS(p.apiVersion = VK_API_VERSION_1_0, "needs Vulkan 1.1, the driver has 1.0");
    LACKS(p.limits.maxPerStageDescriptorStorageBuffers = 3,
          "needs 4 storage buffers per shader stage, has 3");
    LACKS(p.limits.maxComputeWorkGroupInvocations = 127,
          "needs 128 invocations per workgroup, has 127");
    LACKS(p.limits.maxComputeWorkGroupSize[0] = 64,
          "needs 128 invocations per workgroup in x, has 64");
    LACKS(p.limits.maxComputeSharedMemorySize = 8192,
          "needs 16384 bytes of shared memory, has 8192");
    LACKS(p.limits.maxStorageBufferRange = 1u << 26,
          "needs 134217728 bytes per storage buffer binding, has 67108864");
#undef LACKS
    p = least;
    ck_assert(!device_meets_minimum(&info, &p, DEVICE_NONE));
    ck_assert_str_eq(info.problem, "has no queue for compute work");
}
END_TEST

START_TEST(results_have_names)
{
    for (int i = OTR_OK; i <= OTR_ERROR_SELFTEST; i++) {
        ck_assert_str_ne(otr_result_string((otr_result)i), "unknown result");
        for (int j = OTR_OK; j < i; j++)
            ck_assert_str_ne(otr_result_string((otr_result)i), otr_result_string((otr_result)j));
    }
    ck_assert_str_eq(otr_result_string((otr_result)999), "unknown result");
    ck_assert_str_eq(otr_result_string((otr_result)-1), "unknown result");
    ck_assert_str_eq(vk_result_name(VK_ERROR_DEVICE_LOST), "VK_ERROR_DEVICE_LOST");
    ck_assert_str_eq(otr_version(), OTR_VERSION);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device choice");
    TCase *tests = tcase_create("choice");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, default_follows_the_order);
    tcase_add_test(tests, queues_follow_the_order);
    tcase_add_test(tests, weak_devices_are_no_default);
    tcase_add_test(tests, default_prefers_tier_then_memory_then_order);
    tcase_add_test(tests, one_gpu_under_two_drivers_is_marked);
    tcase_add_test(tests, unknown_uuid_marks_nothing);
    tcase_add_test(tests, devices_are_found);
    tcase_add_test(tests, failed_searches_say_why);
    tcase_add_test(tests, messages_stay_in_their_buffer);
    tcase_add_test(tests, what_a_weak_device_lacks_is_named);
    tcase_add_test(tests, results_have_names);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

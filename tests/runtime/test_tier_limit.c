/* A self-test that fails at a device's tier tests the lower ones, and what passes is what contexts use
 * the device at afterwards, until a self-test passes. Damage is planted as in test_selftest.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "../folder.h"
#include "../suite.h"
#include "cache_file.h"
#include "capture.h"
#include "selftest.h"

static char folder[64];
static capture log_of_test;
static otr_context *context;
static uint32_t device;

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/outrider-tier-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void tear_down(void)
{
    folder_remove(folder);
}

static void open_new(const char *where)
{
    context = capture_context(&log_of_test, true, where);
    ck_assert_int_eq(otr_device_find(context, NULL, &device), OTR_OK);
}

static void close_it(void)
{
    ck_assert_uint_eq(otr_validation_message_count(context), 0);
    otr_context_destroy(&context);
}

/* Path of the stored limit, to be freed; for a context that is open. */
static char *limit_path(void)
{
    char *path = cache_file_path(folder, &context->devices[device], ".selftest");

    ck_assert_ptr_nonnull(path);
    return path;
}

/* A device that is of tier 0 has none to drop to. */
static bool has_lower_tier(void)
{
    open_new("");
    bool has = context->facts[device].full_tier > 0;
    close_it();
    if (!has)
        printf("SKIP: the device is of tier 0, there is none below\n");
    return has;
}

/* --------------------------------------------------------------------------- self-tests */

typedef struct tally {
    uint32_t n_checks[4], n_failed[4], n_counted[4]; /* of each tier */
    int32_t last_tier;
} tally;

static bool on_result(const otr_selftest_result *result, void *user)
{
    tally *t = user;

    ck_assert_int_ge(result->tier, 0);
    ck_assert_int_le(result->tier, t->last_tier); /* from the highest down */
    t->last_tier = result->tier;
    t->n_checks[result->tier]++;
    t->n_failed[result->tier] += !result->passed;
    t->n_counted[result->tier] += !result->passed && result->counts;
    return true;
}

static void some_weights(selftest *t)
{
    check_linear(t, &(linear_shape){.format = FORMAT_F32, .k = 64});
}

static void weights_of_tier_2(selftest *t)
{
    check_linear(t, &(linear_shape){.format = FORMAT_Q8_0, .k = 64});
}

static void a_norm(selftest *t)
{
    check_rmsnorm(t, 64, 3, 0);
}

/* Of the tiers from 1 on, of tier 0 only, and of all. */
static const selftest_fault high_fault = {"matvec F32 tier=1 rows=3", 2, 4 * 7 + 3, 0x80, false};
static const selftest_fault low_fault = {"matvec F32 tier=0 rows=3", 2, 4 * 7 + 3, 0x80, false};
static const selftest_fault common_fault = {"rmsnorm n=64 rows=3", 2, 3, 0x80, false};

static const selftest_fault dot_fault = {"matvec_dot Q8_0 rows=3", 1, 5, 0x40, true};

static otr_result run(const selftest_fault *fault, tally *t)
{
    static const selftest_group groups[] = {some_weights, a_norm, weights_of_tier_2};
    /* The last takes long. */
    const selftest_plan plan = {groups, fault == &dot_fault ? 3 : 2, fault};

    *t = (tally){.last_tier = 3};
    return selftest_run(context, device, on_result, t, &plan);
}

static void expect_message(const char *text)
{
    char message[512];

    otr_error_message(context, message, sizeof message);
    ck_assert_msg(strstr(message, text) != NULL, "no '%s' in: %s", text, message);
}

/* What a new context has: its tier, and a note and a warning when it is opened if there is a limit. */
static void expect_device(int32_t tier, const char *note)
{
    otr_device_info info = {.size = sizeof info};
    gpu *g;

    open_new(folder);
    ck_assert_int_eq(otr_device_describe(context, device, &info), OTR_OK);
    ck_assert_int_eq(info.tier, tier);
    ck_assert_int_eq(gpu_open(context, device, false, &g), OTR_OK);
    ck_assert_int_eq(g->tier, tier);
    gpu_close(&g);
    ck_assert_msg(!note || strstr(info.note, note), "no '%s' in: %s", note, info.note);
    ck_assert_int_eq(note != NULL, strstr(info.note, "outrider selftest") != NULL);
    ck_assert_int_eq(note != NULL, capture_has(&log_of_test, "1 device "));
    close_it();
}

START_TEST(a_fault_of_the_tier_drops_it)
{
    tally t;
    int32_t full;

    if (!has_lower_tier())
        return;
    open_new(folder);
    full = context->facts[device].full_tier;
    ck_assert_int_eq(run(&high_fault, &t), OTR_ERROR_SELFTEST);
    expect_message("'matvec F32 tier=1 rows=3'");
    expect_message("tier 0 passes");
    ck_assert_uint_eq(t.n_failed[full], 1);
    ck_assert_uint_gt(t.n_checks[0], 0);
    ck_assert_uint_eq(t.n_failed[0], 0);
    close_it();

    expect_device(0, "'matvec F32 tier=1 rows=3' failed in a self-test at tier");
    /* Elsewhere it is as it was. */
    open_new("");
    ck_assert_int_eq(context->devices[device].tier, full);
    close_it();

    /* A self-test begins above the limit, and ends it. */
    open_new(folder);
    ck_assert_int_eq(run(NULL, &t), OTR_OK);
    ck_assert_uint_gt(t.n_checks[full], 0);
    ck_assert_uint_eq(t.n_checks[0], 0);
    char *path = limit_path();
    ck_assert_int_ne(access(path, F_OK), 0);
    free(path);
    close_it();
    expect_device(full, NULL);
}
END_TEST

/* The next lower tier, not the lowest. */
START_TEST(a_fault_of_tier_2_drops_to_tier_1)
{
    tally t;

    open_new(folder);
    if (context->facts[device].full_tier != 2) {
        printf("SKIP: the device is not used at tier 2\n");
        close_it();
        return;
    }
    ck_assert_int_eq(run(&dot_fault, &t), OTR_ERROR_SELFTEST);
    expect_message("tier 1 passes");
    ck_assert_uint_eq(t.n_counted[2], 1);
    ck_assert_uint_gt(t.n_checks[1], 0);
    ck_assert_uint_eq(t.n_counted[1], 0);
    ck_assert_uint_eq(t.n_checks[0], 0);
    close_it();
    expect_device(1, "'matvec_dot Q8_0 rows=3' failed");
}
END_TEST

/* A driver that can't compile matvec of tier 1, which alone has a lane for each of a subgroup. */
static PFN_vkCreateComputePipelines create_pipelines;
static uint32_t refused_lanes;

static VkResult refuse(VkDevice on, VkPipelineCache cache, uint32_t n,
                       const VkComputePipelineCreateInfo *infos,
                       const VkAllocationCallbacks *allocator, VkPipeline *out)
{
    const VkSpecializationInfo *constants = infos->stage.pSpecializationInfo;

    if (constants->mapEntryCount == 5 && ((const uint32_t *)constants->pData)[1] == refused_lanes) {
        *out = VK_NULL_HANDLE;
        return VK_ERROR_UNKNOWN;
    }
    return create_pipelines(on, cache, n, infos, allocator, out);
}

START_TEST(a_refused_pipeline_drops_the_tier)
{
    tally t;
    gpu *g;
    int32_t full;

    if (!has_lower_tier())
        return;
    open_new(folder);
    full = context->facts[device].full_tier;
    ck_assert_int_eq(gpu_open(context, device, false, &g), OTR_OK); /* shared with the self-test */
    create_pipelines = g->vk.vkCreateComputePipelines;
    refused_lanes = g->subgroup_size;
    g->vk.vkCreateComputePipelines = refuse;
    ck_assert_int_eq(run(NULL, &t), OTR_ERROR_SELFTEST);
    expect_message("'pipeline matvec_F32_t1'");
    ck_assert_uint_eq(t.n_counted[full], 1);
    gpu_close(&g);
    close_it();
    /* The next lower one has a device of its own, which refuses nothing. */
    open_new(folder);
    int32_t lower = device_lower_tier(context, &context->facts[device], full);
    close_it();
    ck_assert_uint_gt(t.n_checks[lower], 0);
    expect_device(lower, "'pipeline matvec_F32_t1' failed");
}
END_TEST

/* The self-test tries kernels of other tiers, too: they fail, and what comes after them is still seen. */
START_TEST(a_refused_pipeline_of_another_tier_drops_nothing)
{
    tally t;
    gpu *g;

    if (!has_lower_tier())
        return;
    open_new(folder);
    int32_t full = context->facts[device].full_tier;
    ck_assert_int_eq(gpu_open(context, device, false, &g), OTR_OK);
    create_pipelines = g->vk.vkCreateComputePipelines;
    refused_lanes = tuning_of("gpu")->matvec_lanes;
    ck_assert_uint_ne(refused_lanes, g->subgroup_size);
    g->vk.vkCreateComputePipelines = refuse;
    ck_assert_int_eq(run(NULL, &t), OTR_ERROR_SELFTEST);
    expect_message("'pipeline matvec_F32_t0'");
    expect_message("of kernels that it does not use");
    ck_assert_uint_eq(t.n_counted[full], 0);
    ck_assert_uint_gt(t.n_checks[full], 20);
    gpu_close(&g);
    close_it();
    open_new(folder);
    ck_assert_int_eq(context->devices[device].tier, full);
    close_it();
}
END_TEST

START_TEST(a_fault_of_every_tier_is_told)
{
    tally t;
    int32_t full;

    open_new(folder);
    full = context->facts[device].full_tier;
    ck_assert_int_eq(run(&common_fault, &t), OTR_ERROR_SELFTEST);
    expect_message("'rmsnorm n=64 rows=3'");
    expect_message("no tier passes");
    for (int32_t tier = full; tier >= 0;
         tier = device_lower_tier(context, &context->facts[device], tier))
        ck_assert_uint_eq(t.n_counted[tier], 1);
    close_it();
    expect_device(0, "can't be trusted");
    open_new(folder);
    ck_assert_int_eq(run(NULL, &t), OTR_OK);
    close_it();
    expect_device(full, NULL);
}
END_TEST

/* The device doesn't use the kernel: that is told, and its tier stays. */
START_TEST(a_fault_of_another_tier_drops_nothing)
{
    tally t;
    int32_t full;

    if (!has_lower_tier())
        return;
    open_new(folder);
    full = context->facts[device].full_tier;
    ck_assert_int_eq(run(&low_fault, &t), OTR_ERROR_SELFTEST);
    expect_message("does not use");
    ck_assert_uint_eq(t.n_failed[full], 1);
    ck_assert_uint_eq(t.n_counted[full], 0);
    ck_assert_uint_eq(t.n_checks[0], 0);
    close_it();
    expect_device(full, NULL);
}
END_TEST

/* Tier 0 alone was tested: that says nothing about what the device is used at otherwise. */
START_TEST(a_test_of_tier_0_alone_keeps_nothing)
{
    tally t;

    setenv("OUTRIDER_DEBUG", "tier0", 1);
    open_new(folder);
    ck_assert_int_eq(run(&common_fault, &t), OTR_ERROR_SELFTEST);
    expect_message("no tier passes");
    close_it();
    expect_device(0, NULL);
    unsetenv("OUTRIDER_DEBUG");
}
END_TEST

/* ------------------------------------------------------------------------- the stored limit */

static void store(tier_limit limit)
{
    open_new(folder);
    ck_assert(tier_limit_store(context, &context->devices[device], &limit));
    close_it();
}

START_TEST(damaged_files_are_ignored)
{
    uint8_t bytes[512];
    int32_t full;

    store((tier_limit){.tier = -1, .failed_tier = 1, .kernel = "rmsnorm"});
    open_new(folder);
    full = context->facts[device].full_tier;
    char *path = limit_path();
    close_it();
    expect_device(0, "rmsnorm");
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    ck_assert_uint_lt(n, sizeof bytes);
    fclose(file);
    for (size_t i = 0; i <= n; i += 7) { /* any byte; and one too few */
        bytes[i < n ? i : 0] ^= 0x5a;
        file = fopen(path, "wb");
        ck_assert_uint_eq(fwrite(bytes, 1, i < n ? n : n - 1, file), i < n ? n : n - 1);
        ck_assert_int_eq(fclose(file), 0);
        bytes[i < n ? i : 0] ^= 0x5a;
        open_new(folder);
        ck_assert_int_eq(context->devices[device].tier, full);
        ck_assert(!tier_limit_applies(context, device));
        ck_assert(capture_has(&log_of_test, "1 what a failed self-test left in "));
        close_it();
    }
    free(path);
}
END_TEST

START_TEST(impossible_limits_are_ignored)
{
    static const tier_limit limits[] = {
        {.tier = 1, .failed_tier = 1, .kernel = "k"},
        {.tier = -2, .failed_tier = 1, .kernel = "k"},
        {.tier = 0, .failed_tier = 1, .kernel = ""},
    };

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        store(limits[i]);
        open_new(folder);
        ck_assert(capture_has(&log_of_test, "is not possible"));
        ck_assert(!tier_limit_applies(context, device));
        close_it();
    }
}
END_TEST

START_TEST(without_a_folder_it_is_said)
{
    const tier_limit limit = {.tier = -1, .failed_tier = 0, .kernel = "k"};

    open_new("");
    ck_assert(!tier_limit_store(context, &context->devices[device], &limit));
    ck_assert(capture_has(&log_of_test, "OUTRIDER_CACHE_DIR names one"));
    close_it();
    open_new("/proc/outrider");
    ck_assert(!tier_limit_store(context, &context->devices[device], &limit));
    ck_assert(capture_has(&log_of_test, "can't be kept (/proc/outrider/"));
    close_it();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tier limit");
    TCase *tcase = tcase_create("tier limit");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, a_fault_of_the_tier_drops_it);
    tcase_add_test(tcase, a_fault_of_tier_2_drops_to_tier_1);
    tcase_add_test(tcase, a_refused_pipeline_drops_the_tier);
    tcase_add_test(tcase, a_refused_pipeline_of_another_tier_drops_nothing);
    tcase_add_test(tcase, a_fault_of_every_tier_is_told);
    tcase_add_test(tcase, a_fault_of_another_tier_drops_nothing);
    tcase_add_test(tcase, a_test_of_tier_0_alone_keeps_nothing);
    tcase_add_test(tcase, damaged_files_are_ignored);
    tcase_add_test(tcase, impossible_limits_are_ignored);
    tcase_add_test(tcase, without_a_folder_it_is_said);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

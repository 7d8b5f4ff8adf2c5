/* Which class of workgroup shapes a device gets, and which shapes otr_tune may choose: rules over
 * devices that no one machine has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "../suite.h"
#include "device.h"
#include "loop_budget.h"

START_TEST(class_follows_vendor_and_architecture)
{
    static const struct {
        otr_device_type type;
        uint32_t vendor, min_subgroup;
        bool as_gpu;
        const char *device_class;
    } cases[] = {
        {OTR_DEVICE_CPU, 0x10005, 8, false, "software"}, /* lavapipe */
        {OTR_DEVICE_CPU, 0x1ae0, 4, false, "software"},  /* SwiftShader */
        {OTR_DEVICE_CPU, 0x10005, 8, true, "gpu"},
        {OTR_DEVICE_DISCRETE, 0x1002, 64, false, "amd-gcn"},
        {OTR_DEVICE_INTEGRATED, 0x1002, 64, true, "amd-gcn"},
        {OTR_DEVICE_DISCRETE, 0x1002, 32, false, "amd-rdna"},
        {OTR_DEVICE_DISCRETE, 0x1002, 0, false, "amd-rdna"}, /* a driver that doesn't tell */
        {OTR_DEVICE_DISCRETE, 0x10de, 32, false, "nvidia"},
        {OTR_DEVICE_INTEGRATED, 0x8086, 8, false, "intel"},
        {OTR_DEVICE_DISCRETE, 0x8086, 16, false, "intel"},
        {OTR_DEVICE_INTEGRATED, 0x106b, 32, false, "apple"},
        {OTR_DEVICE_INTEGRATED, 0x5143, 64, false, "mobile"},
        {OTR_DEVICE_INTEGRATED, 0x13b5, 16, false, "mobile"},
        {OTR_DEVICE_INTEGRATED, 0x1010, 32, false, "mobile"},
        {OTR_DEVICE_INTEGRATED, 0x144d, 32, false, "mobile"},
        {OTR_DEVICE_VIRTUAL, 0x1af4, 32, false, "gpu"},
        {OTR_DEVICE_DISCRETE, 0xffff, 128, false, "gpu"},
        {OTR_DEVICE_OTHER, 0, 0, false, "gpu"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        otr_device_info info = {.type = cases[i].type, .vendor_id = cases[i].vendor};
        device_facts facts = {.min_subgroup_size = cases[i].min_subgroup};

        ck_assert_str_eq(tuning_class(&info, &facts, cases[i].as_gpu)->device_class,
                         cases[i].device_class);
    }
}
END_TEST

static const char *const names[] = {"software", "gpu",   "amd-gcn", "amd-rdna",
                                    "nvidia",   "intel", "apple",   "mobile"};
#define N_NAMES (sizeof names / sizeof names[0])

/* A gpu with nothing but what the functions under test look at. */
typedef struct fake {
    otr_device_info info;
    device_facts facts;
    otr_context context;
    gpu g;
} fake;

static void make_fake(fake *f, const char *device_class, int32_t tier, uint32_t subgroup_size)
{
    static const struct {
        const char *device_class;
        uint32_t vendor, min_subgroup;
    } devices[] = {{"software", 0, 0},       {"gpu", 0, 0},          {"amd-gcn", 0x1002, 64},
                   {"amd-rdna", 0x1002, 32}, {"nvidia", 0x10de, 32}, {"intel", 0x8086, 8},
                   {"apple", 0x106b, 32},    {"mobile", 0x5143, 64}};

    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (!strcmp(devices[i].device_class, device_class)) {
            f->info.vendor_id = devices[i].vendor;
            f->facts.min_subgroup_size = devices[i].min_subgroup;
        }
    f->info.type = strcmp(device_class, "software") ? OTR_DEVICE_DISCRETE : OTR_DEVICE_CPU;
    f->facts.full_subgroups = f->facts.pins_subgroup_size = true;
    f->facts.max_workgroup_subgroups = 1;
    if (tier >= 3)
        f->facts.cooperative = (cooperative_shape){16, 16, 16};
    f->g.context = &f->context;
    f->g.info = &f->info;
    f->g.facts = &f->facts;
    f->g.tier = tier;
    f->g.subgroup_size = subgroup_size;
    f->g.is_cpu = f->info.type == OTR_DEVICE_CPU;
    /* The least that Vulkan promises. */
    f->g.limits.maxComputeWorkGroupInvocations = 128;
    f->g.limits.maxComputeWorkGroupSize[0] = 128;
    f->g.limits.maxComputeSharedMemorySize = 16384;
}

static void make_large(fake *f)
{
    f->facts.max_workgroup_subgroups = 32;
    f->g.limits.maxComputeWorkGroupInvocations = 1024;
    f->g.limits.maxComputeWorkGroupSize[0] = 1024;
    f->g.limits.maxComputeSharedMemorySize = 65536;
}

/* Every device has shapes that it can run, whatever its class asks for. */
START_TEST(weakest_devices_fit)
{
    for (size_t i = 0; i < N_NAMES; i++)
        for (int32_t tier = 0; tier <= 1; tier++)
            for (uint32_t subgroup = 4; subgroup <= 128; subgroup *= 2)
                for (int full = 0; full < 2; full++) {
                    fake f;

                    make_fake(&f, names[i], tier, subgroup);
                    f.facts.full_subgroups = full;
                    ck_assert(tuning_fits(&f.g, tuning_of_gpu(&f.g)));
                    ck_assert(tuning_allows(&f.g, tuning_of_gpu(&f.g)));
                }
}
END_TEST

START_TEST(own_class_is_taken_where_it_fits)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        fake f;

        make_fake(&f, names[i], 1, 32);
        make_large(&f);
        ck_assert_str_eq(tuning_of_gpu(&f.g)->device_class, names[i]);
    }
}
END_TEST

static bool is_among(const tuning *choices, uint32_t n, const tuning_setting *setting,
                     const uint32_t *words)
{
    for (uint32_t i = 0; i < n; i++) {
        tuning copy = choices[i];

        if (!memcmp(tuning_words(&copy, setting), words, setting->n_words * sizeof *words))
            return true;
    }
    return false;
}

static const tuning_setting *setting_named(const char *name)
{
    for (size_t i = 0; i < N_TUNING_SETTINGS; i++)
        if (!strcmp(tuning_settings[i].name, name))
            return &tuning_settings[i];
    ck_abort_msg("no setting %s", name);
}

/* Choices: the present one first, each once, all allowed; on a large GPU all of the table's. */
START_TEST(choices_are_allowed_and_whole)
{
    for (size_t i = 0; i < N_NAMES; i++)
        for (int32_t tier = 0; tier <= 3; tier++)
            for (int large = 0; large < 2; large++) {
                fake f;

                make_fake(&f, names[i], tier, 32);
                if (large)
                    make_large(&f);
                tuning t = *tuning_of_gpu(&f.g);
                for (size_t k = 0; k < N_TUNING_SETTINGS; k++) {
                    const tuning_setting *setting = &tuning_settings[k];
                    tuning out[TUNING_MAX_CHOICES];
                    uint32_t n = tuning_choices(&f.g, &t, setting, out);

                    ck_assert_uint_eq(n != 0, tuning_applies(&f.g, &t, setting));
                    if (n)
                        ck_assert_mem_eq(tuning_words(&out[0], setting), tuning_words(&t, setting),
                                         setting->n_words * 4);
                    for (uint32_t c = 0; c < n; c++) {
                        ck_assert(tuning_allows(&f.g, &out[c]));
                        ck_assert(c == 0 ||
                                  !is_among(out, c, setting, tuning_words(&out[c], setting)));
                    }
                    ck_assert(!n || n > 1 || !large);
                    for (uint32_t c = 0; n && large && !f.g.is_cpu && c < setting->n_choices; c++) {
                        const uint32_t *words = setting->choices[c];
                        bool wanted = true;

                        if (setting->is_matmul)
                            wanted = words[0] >= t.matmul_sides[0] &&
                                     words[0] <= t.matmul_sides[1] &&
                                     words[1] >= t.matmul_sides[0] && words[1] <= t.matmul_sides[1];
                        if (!strcmp(setting->name, "norm lanes"))
                            wanted = words[0] * 4 >= t.norm_sums;
                        if (setting->is_cooperative) /* 64 is what a subgroup of 32 has */
                            wanted = words[0] != 64;
                        ck_assert_msg(is_among(out, n, setting, words) == wanted, "%s, %s %u",
                                      names[i], setting->name, words[0]);
                    }
                }
            }
}
END_TEST

START_TEST(settings_apply_to_the_kernels_of_a_class)
{
    fake software, tier0, tier1, tier3;

    make_fake(&software, "software", 1, 8);
    make_fake(&tier0, "gpu", 0, 0);
    make_fake(&tier1, "gpu", 1, 32);
    make_fake(&tier3, "gpu", 3, 32);
    for (size_t k = 0; k < N_TUNING_SETTINGS; k++) {
        const tuning_setting *setting = &tuning_settings[k];
        bool direct = setting->is_direct, cooperative = setting->is_cooperative;
        bool gpu_only = setting->is_matvec || setting->is_matmul || cooperative;

        ck_assert_int_eq(tuning_applies(&software.g, tuning_of("software"), setting), !gpu_only);
        ck_assert_int_eq(tuning_applies(&tier1.g, tuning_of("gpu"), setting),
                         !direct && !cooperative);
        ck_assert_int_eq(tuning_applies(&tier0.g, tuning_of("gpu"), setting),
                         !direct && !cooperative && strcmp(setting->name, "matvec subgroups"));
        ck_assert_int_eq(tuning_applies(&tier3.g, tuning_of("gpu"), setting),
                         !direct && !setting->is_matmul);
    }
}
END_TEST

/* What a file could ask for, and must not get. */
START_TEST(other_values_are_refused)
{
    fake f;
    tuning t;

    make_fake(&f, "nvidia", 1, 32);
    make_large(&f);
    const tuning good = *tuning_of_gpu(&f.g);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        t = good;                                                                                  \
        ck_assert(tuning_allows(&f.g, &t));                                                        \
        change;                                                                                    \
        ck_assert_msg(!tuning_allows(&f.g, &t), "%s", #change);                                    \
    } while (0)
    REFUSED(t.matvec_outputs = 0);
    REFUSED(t.matvec_outputs = 3);
    REFUSED(t.matvec_outputs = 1u << 30);
    REFUSED(t.matvec_subgroups = 64);
    REFUSED(t.direct_outputs = 8); /* another kernel: other sums */
    REFUSED(t.matvec_lanes = 32);  /* these are the order of a sum */
    REFUSED(t.norm_sums = 64);
    REFUSED(t.attention_lanes = 64);
    REFUSED(t.norm_lanes = 0);
    REFUSED(t.norm_lanes = 8);
    REFUSED(t.sample_lanes = 8);
    REFUSED(t.elementwise_lanes = 65);
    REFUSED(t.prefill_rows = 4096);
    REFUSED(t.matmul[0] = 128);
    REFUSED(t.matmul[2] = 16);
    REFUSED(t.matmul[3] = 0);
    REFUSED(t = *tuning_of("intel"));
    REFUSED(f.g.limits.maxComputeSharedMemorySize = 1024);
    make_large(&f);
    f.facts.full_subgroups = false;
    t = good;
    t.matvec_subgroups = 2;
    ck_assert(!tuning_allows(&f.g, &t));
    f.facts.full_subgroups = true;
    ck_assert(tuning_allows(&f.g, &t));
    f.facts.max_workgroup_subgroups = 1;
    ck_assert(!tuning_allows(&f.g, &t));
    make_fake(&f, "nvidia", 3, 32);
    make_large(&f);
    t = good;
    t.cooperative_size = 128;
    ck_assert(tuning_allows(&f.g, &t));
    f.g.limits.maxComputeSharedMemorySize = 16384;
    ck_assert(!tuning_allows(&f.g, &t)); /* 25,088 bytes */
    make_large(&f);
    f.facts.cooperative = (cooperative_shape){8, 8, 16};
    ck_assert(!tuning_allows(&f.g, &t)); /* 64 matrices of sums */
    t.cooperative_size = 48;
    ck_assert(!tuning_allows(&f.g, &t));
    t.cooperative_size = 32;
    ck_assert(tuning_allows(&f.g, &t));
    f.g.tier = 1;
    ck_assert(!tuning_allows(&f.g, &t)); /* the kernel is not used */
    make_fake(&f, "apple", 1, 32);
    make_large(&f);
    t = *tuning_of("apple");
    ck_assert(tuning_allows(&f.g, &t));
    const uint32_t tile[] = {32, 32, 32, 4, 4};
    memcpy(t.matmul, tile, sizeof tile);
    ck_assert(!tuning_allows(&f.g, &t));
    make_fake(&f, "software", 1, 8);
    t = *tuning_of("software");
    ck_assert(tuning_allows(&f.g, &t));
    t.direct_outputs = 0;
    ck_assert(!tuning_allows(&f.g, &t));
}
END_TEST

START_TEST(choices_have_names)
{
    char text[64];
    const tuning *t = tuning_of("gpu");

    tuning_describe(t, setting_named("matmul tile"), text, sizeof text);
    ck_assert_str_eq(text, "64 x 64, 4 x 8");
    tuning_describe(t, setting_named("cooperative tile"), text, sizeof text);
    ck_assert_str_eq(text, "by subgroup");
    tuning_describe(t, setting_named("matvec outputs"), text, sizeof text);
    ck_assert_str_eq(text, "4");
}
END_TEST

/* On software devices a choice must not take a model away that the class can run. */
START_TEST(choices_keep_the_loop_budget)
{
    fake f;

    make_fake(&f, "software", 1, 8);
    make_large(&f);
    for (size_t k = 0; k < N_TUNING_SETTINGS; k++) {
        tuning out[TUNING_MAX_CHOICES];
        uint32_t n = tuning_choices(&f.g, tuning_of("software"), &tuning_settings[k], out);

        for (uint32_t c = 0; c < n; c++) {
            ck_assert_uint_le(loops_of_sample(&out[c], 1 << 19), LOOP_BUDGET);
            ck_assert_uint_le(loops_of_rmsnorm(&out[c], 1 << 17), LOOP_BUDGET);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tuning");
    TCase *tcase = tcase_create("tuning");

    tcase_add_test(tcase, class_follows_vendor_and_architecture);
    tcase_add_test(tcase, weakest_devices_fit);
    tcase_add_test(tcase, own_class_is_taken_where_it_fits);
    tcase_add_test(tcase, choices_are_allowed_and_whole);
    tcase_add_test(tcase, settings_apply_to_the_kernels_of_a_class);
    tcase_add_test(tcase, other_values_are_refused);
    tcase_add_test(tcase, choices_have_names);
    tcase_add_test(tcase, choices_keep_the_loop_budget);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

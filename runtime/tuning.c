/* The tuning tables. Numbers of the software class were measured on lavapipe and SwiftShader
 * (tests/bench/NOTES.md); those of real GPUs follow what other projects report for each vendor, and
 * are alike where nothing is known. One subgroup a workgroup: matrices of small models have few
 * outputs, and all of a GPU should have some. */
#include "tuning.h"

#include <stdio.h>
#include <string.h>

#include "cooperative.h"
#include "loop_budget.h"

/* clang-format off */
static const tuning classes[] = {
    /* class  direct  matvec    matmul tile          coop. its      norm      att. elem. sample prefill
     *      outputs sg. l. o. BM  BN  BK  TM TN    size sides      sums lns. lanes lanes lanes rows */
    {"software", 8, 0,  0, 0, { 0,  0,  0, 0, 0}, 0, { 0,   0},  32,  32,  32,  64,  128, 128},
    {"gpu",      0, 1, 64, 4, {64, 64, 32, 4, 8}, 0, {32, 128}, 128, 128,  32,  64,  128, 256},
    /* Wave 64 and four SIMDs a compute unit: a tile of four waves. */
    {"amd-gcn",  0, 1, 64, 4, {64, 64, 32, 4, 4}, 0, {32, 128}, 128, 128,  32,  64,  128, 256},
    {"amd-rdna", 0, 1, 64, 4, {64, 64, 32, 4, 8}, 0, {32, 128}, 128, 128,  32,  64,  128, 256},
    {"nvidia",   0, 1, 64, 4, {64, 64, 32, 4, 8}, 0, {32, 128}, 128, 128,  32,  64,  128, 256},
    {"intel",    0, 1, 64, 4, {64, 64, 32, 4, 8}, 0, {32, 128}, 128, 128,  32,  64,  128, 256},
    /* Other projects had wrong results there with larger and smaller tiles. */
    {"apple",    0, 1, 64, 4, {64, 64, 32, 4, 8}, 0, {64,  64}, 128, 128,  32,  64,  128, 256},
    /* Little shared memory, and watchdogs that want short passes. */
    {"mobile",   0, 1, 64, 4, {64, 64, 32, 4, 8}, 0, {32,  64}, 128, 128,  32,  64,  128, 128},
};
/* clang-format on */
#define N_CLASSES (sizeof classes / sizeof classes[0])

/* The first that fits counts: PCI vendor, and the least subgroup size that a pipeline can have (0:
 * any, or unknown). */
/* clang-format off */
static const struct {
    uint32_t vendor, least_subgroup;
    const char *device_class;
} rules[] = {
    {0x1002, 64, "amd-gcn"}, /* RDNA has 32 too */
    {0x1002, 0, "amd-rdna"},
    {0x10de, 0, "nvidia"},
    {0x8086, 0, "intel"},
    {0x106b, 0, "apple"},
    {0x5143, 0, "mobile"}, /* Qualcomm */
    {0x13b5, 0, "mobile"}, /* Arm */
    {0x1010, 0, "mobile"}, /* Imagination */
    {0x144d, 0, "mobile"}, /* Samsung */
    {0x14e4, 0, "mobile"}, /* Broadcom */
    {0x19e5, 0, "mobile"}, /* Huawei */
};
/* clang-format on */

const tuning *tuning_of(const char *device_class)
{
    for (size_t i = 0; i < N_CLASSES; i++)
        if (!strcmp(classes[i].device_class, device_class))
            return &classes[i];
    return NULL;
}

const tuning *tuning_class(const otr_device_info *info, const device_facts *facts, bool as_gpu)
{
    if (info->type == OTR_DEVICE_CPU)
        return tuning_of(as_gpu ? "gpu" : "software");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].vendor == info->vendor_id &&
            rules[i].least_subgroup <= facts->min_subgroup_size)
            return tuning_of(rules[i].device_class);
    return tuning_of("gpu");
}

const tuning *tuning_of_gpu(const gpu *g)
{
    const tuning *t = tuning_class(g->info, g->facts, g->context->as_gpu);

    /* The second has what every device can do. */
    return tuning_fits(g, t) ? t : tuning_of(t->direct_outputs ? "software" : "gpu");
}

tuning tuning_find(gpu *g)
{
    pthread_mutex_lock(&g->kernels_lock);
    tuning t = g->tuning;
    pthread_mutex_unlock(&g->kernels_lock);
    return t;
}

void tuning_set(gpu *g, const tuning *t)
{
    pthread_mutex_lock(&g->kernels_lock);
    g->tuning = *t;
    pthread_mutex_unlock(&g->kernels_lock);
}

/* --------------------------------------------------------------------------------- settings */

/* Outputs are even: an invocation stores them in pairs. */
static const uint32_t direct_outputs[][TUNING_MAX_WORDS] = {{2}, {4}, {8}, {16}};
static const uint32_t matvec_subgroups[][TUNING_MAX_WORDS] = {{1}, {2}, {4}, {8}};
static const uint32_t matvec_outputs[][TUNING_MAX_WORDS] = {{2}, {4}, {8}};
static const uint32_t tiles[][TUNING_MAX_WORDS] = {
    {32, 32, 32, 4, 4}, {64, 32, 32, 4, 4}, {32, 64, 32, 4, 4},  {64, 64, 32, 4, 4},
    {64, 64, 32, 4, 8}, {64, 64, 32, 8, 4}, {128, 64, 32, 8, 8}, {128, 128, 32, 8, 8},
};
static const uint32_t cooperative_tiles[][TUNING_MAX_WORDS] = {{32}, {64}, {128}};
static const uint32_t norm_lanes[][TUNING_MAX_WORDS] = {{8}, {16}, {32}, {64}, {128}};
static const uint32_t elementwise_lanes[][TUNING_MAX_WORDS] = {{32}, {64}, {128}, {256}};
static const uint32_t sample_lanes[][TUNING_MAX_WORDS] = {{64}, {128}, {256}, {512}};
static const uint32_t prefill_rows[][TUNING_MAX_WORDS] = {{64}, {128}, {256}, {512}};

#define SETTING(text, field, list)                                                                 \
    .name = text, .offset = offsetof(tuning, field),                                               \
    .n_words = sizeof((tuning *)0)->field / sizeof(uint32_t), .choices = list,                     \
    .n_choices = sizeof list / sizeof list[0]

/* The order in which they are tuned, and that of the stored file. */
const tuning_setting tuning_settings[N_TUNING_SETTINGS] = {
    {SETTING("direct outputs", direct_outputs, direct_outputs), .kinds = OPERATION_MATRIX,
     .in_decode = true, .in_rows = true, .in_prefill = true, .is_direct = true},
    {SETTING("matvec outputs", matvec_outputs, matvec_outputs), .kinds = OPERATION_MATRIX,
     .in_decode = true, .in_rows = true, .is_matvec = true},
    {SETTING("matvec subgroups", matvec_subgroups, matvec_subgroups), .kinds = OPERATION_MATRIX,
     .in_decode = true, .in_rows = true, .is_matvec = true},
    {SETTING("matmul tile", matmul, tiles), .kinds = OPERATION_MATRIX, .in_prefill = true,
     .is_matmul = true},
    {SETTING("cooperative tile", cooperative_size, cooperative_tiles), .kinds = OPERATION_MATRIX,
     .in_prefill = true, .is_cooperative = true},
    {SETTING("norm lanes", norm_lanes, norm_lanes), .kinds = OPERATION_NORM, .in_decode = true,
     .in_rows = true, .in_prefill = true},
    {SETTING("elementwise lanes", elementwise_lanes, elementwise_lanes),
     .kinds = OPERATION_ELEMENTWISE, .in_decode = true, .in_rows = true, .in_prefill = true},
    {SETTING("sample lanes", sample_lanes, sample_lanes), .kinds = OPERATION_SAMPLE,
     .in_decode = true, .in_rows = true},
    {SETTING("prefill rows", prefill_rows, prefill_rows), .kinds = OPERATION_ALL,
     .in_prefill = true},
};

uint32_t *tuning_words(tuning *t, const tuning_setting *setting)
{
    return (uint32_t *)((char *)t + setting->offset);
}

bool tuning_applies(const gpu *g, const tuning *t, const tuning_setting *setting)
{
    bool is_direct = t->direct_outputs != 0;

    if (setting->offset == offsetof(tuning, matvec_subgroups) && g->tier < 1)
        return false;
    if (setting->is_cooperative || setting->is_matmul)
        return !is_direct && setting->is_cooperative == (g->tier >= 3);
    return !(setting->is_direct && !is_direct) && !(setting->is_matvec && is_direct);
}

bool tuning_fits(const gpu *g, const tuning *t)
{
    const uint32_t most = g->limits.maxComputeWorkGroupInvocations <
                                  g->limits.maxComputeWorkGroupSize[0]
                              ? g->limits.maxComputeWorkGroupInvocations
                              : g->limits.maxComputeWorkGroupSize[0];
    const uint64_t shared_bytes = g->limits.maxComputeSharedMemorySize;
    const uint32_t *m = t->matmul; /* BM, BN, BK, TM, TN */

    if (t->norm_lanes > most || t->elementwise_lanes > most || t->sample_lanes > most)
        return false;
    /* More lanes than sums would stand idle, and a lane with many sums is slow. */
    if (t->norm_lanes > t->norm_sums || t->norm_lanes * 4 < t->norm_sums)
        return false;
    if (!t->direct_outputs) {
        uint64_t partial_bytes = t->matvec_outputs * 8ull * t->matvec_lanes * sizeof(float);

        if (g->tier < 1 && (t->matvec_lanes > most || partial_bytes > shared_bytes))
            return false;
        if (g->tier >= 1 && g->subgroup_size * t->matvec_subgroups > most)
            return false;
        /* Where a subgroup's outputs begin follows from its number, which means something only
         * where all subgroups are full. */
        if (g->tier >= 1 && t->matvec_subgroups > 1 && !g->facts->full_subgroups)
            return false;
        if (g->tier >= 1 && g->facts->pins_subgroup_size &&
            t->matvec_subgroups > g->facts->max_workgroup_subgroups)
            return false;
        if (m[0] / m[3] * (m[1] / m[4]) > most ||
            (m[0] + m[1]) * (uint64_t)m[2] * sizeof(float) > shared_bytes)
            return false;
        if (g->tier >= 3 && !cooperative_size_fits(g, t->cooperative_size))
            return false;
    }
    return !g->is_cpu || loop_budget_allows(t);
}

static bool is_choice(const tuning_setting *setting, const uint32_t *words)
{
    for (uint32_t i = 0; i < setting->n_choices; i++)
        if (!memcmp(setting->choices[i], words, setting->n_words * sizeof *words))
            return true;
    return false;
}

/* What only the class's tile may be outside of. */
static bool has_allowed_sides(const tuning *t)
{
    return t->matmul[0] >= t->matmul_sides[0] && t->matmul[0] <= t->matmul_sides[1] &&
           t->matmul[1] >= t->matmul_sides[0] && t->matmul[1] <= t->matmul_sides[1];
}

bool tuning_allows(const gpu *g, const tuning *t)
{
    tuning rest = *t, own = *tuning_of_gpu(g);

    for (size_t i = 0; i < N_TUNING_SETTINGS; i++) {
        const tuning_setting *setting = &tuning_settings[i];
        size_t n_bytes = setting->n_words * sizeof(uint32_t);
        uint32_t *words = tuning_words(&rest, setting), *class_words = tuning_words(&own, setting);

        if (memcmp(words, class_words, n_bytes) == 0)
            continue;
        if (!tuning_applies(g, &own, setting) || !is_choice(setting, words) ||
            (setting->is_matmul && !has_allowed_sides(t)))
            return false;
        memcpy(words, class_words, n_bytes); /* what is left must be the class's */
    }
    return rest.device_class == own.device_class && rest.matvec_lanes == own.matvec_lanes &&
           rest.norm_sums == own.norm_sums && rest.attention_lanes == own.attention_lanes &&
           tuning_fits(g, t);
}

uint32_t tuning_choices(const gpu *g, const tuning *t, const tuning_setting *setting,
                        tuning out[TUNING_MAX_CHOICES])
{
    uint32_t n = 0;

    if (!tuning_applies(g, t, setting))
        return 0;
    out[n++] = *t;
    for (uint32_t i = 0; i < setting->n_choices && n < TUNING_MAX_CHOICES; i++) {
        size_t n_bytes = setting->n_words * sizeof(uint32_t);
        uint32_t *words = tuning_words(&out[n], setting);

        out[n] = *t;
        if (memcmp(words, setting->choices[i], n_bytes) == 0 ||
            (setting->is_cooperative &&
             setting->choices[i][0] == cooperative_find_sizes(g, t->cooperative_size).outputs))
            continue;
        memcpy(words, setting->choices[i], n_bytes);
        n += tuning_allows(g, &out[n]);
    }
    return n;
}

void tuning_describe(const tuning *t, const tuning_setting *setting, char *out, size_t size)
{
    tuning copy = *t;
    const uint32_t *w = tuning_words(&copy, setting);

    if (setting->is_matmul)
        snprintf(out, size, "%u x %u, %u x %u", w[0], w[1], w[3], w[4]);
    else if (setting->is_cooperative && w[0] == 0)
        snprintf(out, size, "by subgroup");
    else
        snprintf(out, size, "%u", w[0]);
}

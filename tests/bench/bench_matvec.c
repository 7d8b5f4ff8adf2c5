/* Times one matrix kernel for one shape, format and row count, and checks its result against the
 * reference dequantiser in double precision. Run by hand: bench_matvec [kernel=matvec]
 * [format=Q8_0] [m=1536] [k=576] [rows=1] [repeats=200] [c1=8 c2=4 …] kernel: matvec,
 * matvec_direct, matmul. cN: specialisation constants, for trying shapes. Prints nanoseconds a
 * dispatch (median of 7 submissions of `repeats` dispatches), G multiply-adds/s and the weights'
 * bytes/s. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "format.h"
#include "kernel_pool.h"
#include "memory.h"
#include "record.h"
#include "repack.h"
#include "step_state.h"
#include "submission.h"

#define N_SUBMISSIONS 7

typedef struct settings {
    char kernel[32], format[16];
    uint32_t m, k, rows, repeats;
    uint32_t constants[6], n_constants;
    uint32_t outputs_per_group, rows_per_y;
} settings;

static bool parse(int argc, char **argv, settings *s)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            return false;
        *value++ = 0;
        uint32_t number = (uint32_t)strtoul(value, NULL, 10);
        if (!strcmp(argv[i], "kernel"))
            snprintf(s->kernel, sizeof s->kernel, "%s", value);
        else if (!strcmp(argv[i], "format"))
            snprintf(s->format, sizeof s->format, "%s", value);
        else if (!strcmp(argv[i], "m"))
            s->m = number;
        else if (!strcmp(argv[i], "k"))
            s->k = number;
        else if (!strcmp(argv[i], "rows"))
            s->rows = number;
        else if (!strcmp(argv[i], "repeats"))
            s->repeats = number;
        else if (argv[i][0] == 'c' && argv[i][1] >= '0' && argv[i][1] <= '5')
            s->constants[argv[i][1] - '0'] = number;
        else
            return false;
    }
    return s->m && s->k && s->rows && s->repeats;
}

static void print_log(otr_log_level level, const char *message, void *user)
{
    (void)level;
    (void)user;
    fprintf(stderr, "%s\n", message);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float random_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(*state >> 40) / 8388608.0f - 1.0f;
}

/* Random blocks whose scales are small positive halfs, whatever the format. */
static void fill_weights(const format_info *f, uint8_t *data, uint64_t n_bytes, uint64_t *state)
{
    for (uint64_t i = 0; i < n_bytes; i++)
        data[i] = (uint8_t)(random_unit(state) * 127);
    if (f->id == FORMAT_F32)
        for (uint64_t i = 0; i < n_bytes / 4; i++)
            ((float *)(void *)data)[i] = random_unit(state);
    else if (f->id == FORMAT_F16 || f->id == FORMAT_BF16)
        for (uint64_t i = 0; i < n_bytes; i += 2)
            data[i + 1] = (data[i + 1] & 0x80) | 0x3b;
    else
        for (uint64_t b = 0; b < n_bytes / f->block_bytes; b++) {
            uint8_t *block = data + b * f->block_bytes;
            uint8_t *scale = f->id == FORMAT_Q6_K ? block + 208 : block;
            scale[1] = 0x24;
            if (f->id == FORMAT_Q4_1 || f->id == FORMAT_Q4_K)
                scale[3] = 0x24;
        }
}

int main(int argc, char **argv)
{
    settings s = {"matvec", "Q8_0", 1536, 576, 1, 200, {0}, 0, 0, 0};
    otr_context_params params = otr_context_params_default();
    otr_context *context = NULL;
    gpu *g = NULL;
    uint32_t index, words[REPACK_MAX_PLANES];
    uint64_t state = 1;
    const repack_info *info = NULL;

    if (!parse(argc, argv, &s))
        return fprintf(stderr, "usage: see the head of tests/bench/bench_matvec.c\n"), 2;
    for (uint32_t id = 0; id < 64; id++)
        if (format_find(id) && !strcmp(format_find(id)->name, s.format))
            info = repack_find((enum tensor_format)id);
    if (!info)
        return fprintf(stderr, "no kernel reads format %s\n", s.format), 2;
    params.log = print_log;
    params.log_level = OTR_LOG_WARNING;
    if (otr_context_create(&params, &context) || otr_device_find(context, NULL, &index) ||
        gpu_open(context, index, false, &g))
        return 1;

    /* Constants that were not given: what the transformer uses on this device. */
    char shader[64];
    bool is_matvec = !strcmp(s.kernel, "matvec"), is_direct = !strcmp(s.kernel, "matvec_direct");
    if (is_matvec) {
        uint32_t lanes = g->tier >= 1 ? g->subgroup_size : 16, d[5] = {lanes, lanes, 4, 32, s.rows};
        for (int i = 0; i < 5; i++)
            s.constants[i] = s.constants[i] ? s.constants[i] : d[i];
        s.n_constants = 5;
        s.outputs_per_group = s.constants[0] / s.constants[1] * s.constants[2];
        s.rows_per_y = s.constants[3];
        snprintf(shader, sizeof shader, "matvec_%s_t%d", info->shader, g->tier >= 1);
    } else if (is_direct) {
        uint32_t d[4] = {8, 8, 8, TILE_OF(s.rows)}; /* up to 12 rows: one tile */
        for (int i = 0; i < 4; i++)
            s.constants[i] = s.constants[i] ? s.constants[i] : d[i];
        s.n_constants = 4;
        s.outputs_per_group = s.constants[1] * s.constants[2];
        s.rows_per_y = s.constants[3];
        snprintf(shader, sizeof shader, "matvec_direct_%s", info->shader);
    } else {
        uint32_t d[6] = {128, 64, 64, 32, 4, 8};
        for (int i = 0; i < 6; i++)
            s.constants[i] = s.constants[i] ? s.constants[i] : d[i];
        s.n_constants = 6;
        s.outputs_per_group = s.constants[1];
        s.rows_per_y = s.constants[2];
        snprintf(shader, sizeof shader, "%s_%s", s.kernel, info->shader);
    }

    const format_info *f = format_find((uint32_t)info->format);
    uint32_t padded = (uint32_t)repack_padded_k(info, s.k);
    uint64_t src_bytes = (uint64_t)s.m * s.k / f->block_size * f->block_bytes;
    uint64_t w_bytes = repack_bytes(info, s.m, s.k, words);
    uint8_t *src = malloc(src_bytes);
    gpu_buffer w, x, y, st;
    if (!src || gpu_buffer_create(g, w_bytes, MEMORY_UPLOAD, "w", &w) ||
        gpu_buffer_create(g, (uint64_t)s.rows * padded * 4, MEMORY_UPLOAD, "x", &x) ||
        gpu_buffer_create(g, (uint64_t)s.rows * s.m * 4, MEMORY_READBACK, "y", &y) ||
        gpu_buffer_create(g, STATE_WORDS * 4, MEMORY_UPLOAD, "state", &st))
        return 1;
    fill_weights(f, src, src_bytes, &state);
    memset(w.mapped, 0, w_bytes);
    repack_rows(info, src, s.m, s.k, w.mapped);
    for (uint32_t i = 0; i < s.rows * padded; i++)
        ((float *)x.mapped)[i] = i % padded < s.k ? random_unit(&state) : 0.0f;
    memset(st.mapped, 0, STATE_WORDS * 4);
    ((uint32_t *)st.mapped)[S_ROWS] = s.rows;

    VkPipeline pipeline;
    VkDescriptorSet set;
    VkCommandBuffer commands;
    VkFence fence;
    VkDescriptorPool descriptors;
    VkCommandPool pool;
    VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 4},
                                    {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1}};
    VkDescriptorPoolCreateInfo dp = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                     .maxSets = 1,
                                     .poolSizeCount = 2,
                                     .pPoolSizes = sizes};
    VkCommandPoolCreateInfo cp = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .queueFamilyIndex = g->queues[0].family};
    VkFenceCreateInfo fc = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkDescriptorSetAllocateInfo da = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                      .descriptorSetCount = 1,
                                      .pSetLayouts = &g->set_layout};
    if (kernel_get(g, shader, s.constants, s.n_constants, is_matvec && g->tier >= 1, &pipeline) ||
        g->vk.vkCreateDescriptorPool(g->device, &dp, NULL, &descriptors) ||
        g->vk.vkCreateCommandPool(g->device, &cp, NULL, &pool) ||
        g->vk.vkCreateFence(g->device, &fc, NULL, &fence))
        return 1;
    da.descriptorPool = descriptors;
    if (g->vk.vkAllocateDescriptorSets(g->device, &da, &set))
        return 1;
    const gpu_buffer *bound[5] = {&w, &x, &y, &x, &st};
    for (uint32_t i = 0; i < 5; i++) {
        VkDescriptorBufferInfo b = {bound[i]->buffer, 0, i == 4 ? STATE_WORDS * 4 : VK_WHOLE_SIZE};
        VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .dstBinding = i,
                                      .descriptorCount = 1,
                                      .pBufferInfo = &b,
                                      .descriptorType = i == 4 ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
                                                               : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
        g->vk.vkUpdateDescriptorSets(g->device, 1, &write, 0, NULL);
    }
    uint32_t push[11] = {s.m, padded / info->chunk, words[1], words[2], words[3], padded, s.m};
    uint32_t groups = (s.m + s.outputs_per_group - 1) / s.outputs_per_group;
    uint32_t groups_y = (s.rows + s.rows_per_y - 1) / s.rows_per_y;
    if (record_begin(g, pool, "bench", &commands))
        return 1;
    g->vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    g->vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, g->pipeline_layout, 0,
                                  1, &set, 0, NULL);
    g->vk.vkCmdPushConstants(commands, g->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             sizeof push, push);
    for (uint32_t i = 0; i < s.repeats; i++) {
        g->vk.vkCmdDispatch(commands, groups, groups_y, 1);
        VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                   .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_SHADER_READ_BIT |
                                                    VK_ACCESS_SHADER_WRITE_BIT};
        g->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                   VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                   NULL);
    }
    if (record_end(g, commands, "bench"))
        return 1;

    double ns[N_SUBMISSIONS], cpu = 0;
    for (int i = -1; i < N_SUBMISSIONS; i++) { /* the first one compiles and warms up */
        submission sub = {0};
        submission_add(&sub, commands, 0);
        if (i == 0)
            cpu = cpu_seconds();
        uint64_t start = clock_ns();
        if (submission_run(&sub, &(work_place){.gpu = g, .fence = fence}, "bench", NULL))
            return 1;
        if (i >= 0)
            ns[i] = (double)(clock_ns() - start) / s.repeats;
        submission_free(&sub);
    }
    cpu = (cpu_seconds() - cpu) * 1e9 / N_SUBMISSIONS / s.repeats;
    qsort(ns, N_SUBMISSIONS, sizeof ns[0], compare);

    double *values = malloc(s.k * sizeof *values), worst = 0;
    for (uint32_t o = 0; o < s.m; o += s.m / 16 + 1) {
        format_dequantize(f, src + (uint64_t)o * s.k / f->block_size * f->block_bytes, s.k, values);
        for (uint32_t r = 0; r < s.rows; r++) {
            double sum = 0, size = 0;
            for (uint32_t i = 0; i < s.k; i++) {
                double term = values[i] * (double)((float *)x.mapped)[(uint64_t)r * padded + i];
                sum += term;
                size += fabs(term);
            }
            worst = fmax(worst,
                         fabs(sum - (double)((float *)y.mapped)[(uint64_t)r * s.m + o]) / size);
        }
    }
    double median = ns[N_SUBMISSIONS / 2];
    printf("%s m=%u k=%u rows=%u: %.0f ns (%.0f to %.0f), %.2f G multiply-adds/s, %.2f GB/s, error "
           "%.1e; "
           "CPU %.0f ns\n",
           shader, s.m, s.k, s.rows, median, ns[0], ns[N_SUBMISSIONS - 1],
           (double)s.m * s.k * s.rows / median, (double)src_bytes / median, worst, cpu);
    free(values);
    free(src);
    g->vk.vkDestroyFence(g->device, fence, NULL);
    g->vk.vkDestroyCommandPool(g->device, pool, NULL);
    g->vk.vkDestroyDescriptorPool(g->device, descriptors, NULL);
    gpu_buffer_destroy(g, &w);
    gpu_buffer_destroy(g, &x);
    gpu_buffer_destroy(g, &y);
    gpu_buffer_destroy(g, &st);
    gpu_close(&g);
    otr_context_destroy(&context);
    return worst > 1e-4;
}

/* All kernels, compiled for AMD GPUs without one: Mesa's RADV offers a null device for the family
 * that RADV_FORCE_FAMILY names, which makes real machine code and runs nothing. Prints registers,
 * local memory, occupancy and the compiler's own estimates; a kernel of decoding must not spill. */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "attention.h"
#include "format.h"
#include "kernel.h"
#include "repack.h"
#include "tuning.h"

#define ICD_PATTERN "/usr/share/vulkan/icd.d/radeon_icd*.json"

static const char *const families[] = {"polaris10", "vega10", "navi21", "gfx1100"};
#define N_FAMILIES (int)(sizeof families / sizeof families[0])

/* Names as Mesa 22.3 has them, and headings of the table. */
static const char *const columns[][2] = {
    {"VGPRs", "VGPR"},     {"SGPRs", "SGPR"},           {"Spilled VGPRs", "spilled"},
    {"LDS size", "LDS"},   {"Scratch size", "scratch"}, {"Subgroups per SIMD", "waves"},
    {"Code size", "code"}, {"Latency", "latency"},      {"Inverse Throughput", "1/throughput"},
};
#define N_COLUMNS (sizeof columns / sizeof columns[0])
enum { VGPRS, SGPRS, SPILLED, LDS, SCRATCH, WAVES };

typedef struct statistics {
    uint32_t n;             /* lines seen */
    long values[N_COLUMNS]; /* of the newest, -1: not told */
} statistics;

static void read_line(otr_log_level level, const char *message, void *user)
{
    statistics *s = user;
    const char *start = strncmp(message, "statistics of ", 14) ? NULL : strstr(message, ": ");

    if (level <= OTR_LOG_WARNING)
        printf("log: %s\n", message);
    if (!start)
        return;
    s->n++;
    for (size_t c = 0; c < N_COLUMNS; c++) {
        size_t length = strlen(columns[c][0]);
        s->values[c] = -1;
        for (const char *at = start + 2; at; at = strstr(at, ", ") ? strstr(at, ", ") + 2 : NULL)
            if (!strncmp(at, columns[c][0], length) && at[length] == ' ')
                s->values[c] = atol(at + length);
    }
}

typedef struct compilation {
    gpu *g;
    statistics *s;
    uint32_t n;
} compilation;

static void compile(compilation *c, const char *shader, const uint32_t *constants,
                    uint32_t n_constants, bool pins_subgroup)
{
    VkPipeline pipeline;
    uint32_t before = c->s->n;

    ck_assert_msg(kernel_create(c->g, shader, constants, n_constants, pins_subgroup, shader,
                                &pipeline) == OTR_OK,
                  "%s doesn't compile", shader);
    c->g->vk.vkDestroyPipeline(c->g->device, pipeline, NULL);
    ck_assert_msg(c->s->n == before + 1, "no statistics of %s", shader);
    printf("  %-18s", shader);
    for (size_t i = 0; i < N_COLUMNS; i++)
        printf(" %12ld", c->s->values[i]);
    printf("\n");
    ck_assert_int_gt(c->s->values[VGPRS], 0);
    ck_assert_int_gt(c->s->values[WAVES], 0);
    if (strncmp(shader, "matmul", 6)) { /* prefill */
        ck_assert_msg(c->s->values[SPILLED] == 0, "%s spills %ld registers", shader,
                      c->s->values[SPILLED]);
        ck_assert_msg(c->s->values[SCRATCH] == 0, "%s keeps %ld bytes in memory", shader,
                      c->s->values[SCRATCH]);
    }
    c->n++;
}

static void compile_format(compilation *c, const tuning *t, const repack_info *repack)
{
    const char *format = repack->shader;
    const uint32_t *m = t->matmul, lanes = c->g->subgroup_size;
    const uint32_t tiled[] = {m[0] / m[3] * (m[1] / m[4]), m[0], m[1], m[2], m[3], m[4]};
    uint32_t tier1[] = {lanes * t->matvec_subgroups, lanes, t->matvec_outputs, 32, 0};
    uint32_t tier0[] = {t->matvec_lanes, t->matvec_lanes, t->matvec_outputs, 32, 0};
    char shader[32];

    for (uint32_t max_tile = 1; max_tile <= 8; max_tile += 7) {
        tier1[4] = tier0[4] = max_tile;
        snprintf(shader, sizeof shader, "matvec_%s_t1", format);
        compile(c, shader, tier1, 5, true);
        snprintf(shader, sizeof shader, "matvec_%s_t0", format);
        compile(c, shader, tier0, 5, false);
    }
    if (repack->has_dot8)
        for (tier1[4] = 1; tier1[4] <= 8; tier1[4] += 7) {
            snprintf(shader, sizeof shader, "matvec_dot_%s", format);
            compile(c, shader, tier1, 5, true);
        }
    snprintf(shader, sizeof shader, "matmul_%s", format);
    compile(c, shader, tiled, 6, false);
    snprintf(shader, sizeof shader, "embed_%s", format);
    compile(c, shader, &t->elementwise_lanes, 1, false);
}

START_TEST(every_kernel_compiles)
{
    otr_context_params params = otr_context_params_default();
    otr_context *context = NULL;
    statistics s = {0};
    compilation c = {.s = &s};
    glob_t icd;

    ck_assert_int_eq(glob(ICD_PATTERN, 0, NULL, &icd), 0);
    setenv("VK_DRIVER_FILES", icd.gl_pathv[0], 1);
    setenv("VK_ICD_FILENAMES", icd.gl_pathv[0], 1);
    setenv("RADV_FORCE_FAMILY", families[_i], 1);
    setenv("OUTRIDER_DEBUG", "statistics,dot8", 1);
    globfree(&icd);
    params.log = read_line;
    params.log_user = &s;
    params.log_level = OTR_LOG_INFO;
    params.cache_dir = ""; /* so that everything is compiled */
    ck_assert_int_eq(otr_context_create(&params, &context), OTR_OK);
    ck_assert_int_eq(gpu_open(context, 0, false, &c.g), OTR_OK);
    ck_assert_int_eq(c.g->tier, 2);

    const tuning found = tuning_find(c.g), *t = &found;
    printf("%s\n  %-18s", c.g->info->name, "kernel");
    for (size_t i = 0; i < N_COLUMNS; i++)
        printf(" %12s", columns[i][1]);
    printf("\n");
    for (uint32_t id = 0; id < 64; id++)
        if (repack_find((enum tensor_format)id))
            compile_format(&c, t, repack_find((enum tensor_format)id));
    for (uint32_t head_size = 32; head_size <= 256; head_size *= 2) {
        for (int i = 0; i < 4; i++) {
            const attention_shape shape = {8, 2, head_size, (otr_cache_type)(i / 2)};
            const attention_plan plan = attention_make_plan(
                t, c.g->subgroup_size, &shape, i % 2 ? ATTENTION_ROWS : ATTENTION_ONE_ROW, MAX_ROWS,
                4096, 0, 1);
            compile(&c, plan.shader, plan.constants, ATTENTION_CONSTANTS, false);
        }
    }
    const uint32_t norm[] = {t->norm_lanes, t->norm_sums};
    compile(&c, "rmsnorm", norm, 2, false);
    compile(&c, "rope_f16", &t->elementwise_lanes, 1, false);
    compile(&c, "rope_q8", &t->elementwise_lanes, 1, false);
    compile(&c, "quantise", &t->elementwise_lanes, 1, false);
    compile(&c, "swiglu", &t->elementwise_lanes, 1, false);
    compile(&c, "sample", &t->sample_lanes, 1, false);
    compile(&c, "begin", NULL, 0, false);
    compile(&c, "propose", NULL, 0, false);
    compile(&c, "accept", NULL, 0, false);
    compile(&c, "residual", &t->sample_lanes, 1, false);
    compile(&c, "decide", NULL, 0, false);
    ck_assert_uint_eq(s.n, c.n);
    gpu_close(&c.g);
    otr_context_destroy(&context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("AMD");
    TCase *tcase = tcase_create("AMD");
    glob_t icd;

    if (glob(ICD_PATTERN, 0, NULL, &icd) != 0) {
        printf("SKIP: no %s (package mesa-vulkan-drivers)\n", ICD_PATTERN);
        return 77;
    }
    globfree(&icd);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, every_kernel_compiles, 0, N_FAMILIES);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

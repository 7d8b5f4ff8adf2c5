/* The self-test's inside: what its checks share. selftest_tiers.c runs them, selftest.c reports;
 * selftest_weights.c, selftest_bytes.c, selftest_layer.c, selftest_step.c and selftest_rule.c hold the
 * checks of the kernels; kernel_reference.c and verify_reference.c compute what is right.
 *
 * After the first failed call (not a failed check) `result` is set and everything here does
 * nothing, so that a check needs to look at it only before it touches memory. One thread. */
#ifndef OUTRIDER_SELFTEST_H
#define OUTRIDER_SELFTEST_H

#include "format.h"
#include "kernel.h"
#include "kernel_run.h"
#include "tuning.h"

/* Each check runs so often: a device that is wrong now and then shows. */
#define SELFTEST_RUNS 3
#define SELFTEST_MAX_MEMORY 64

/* Damage done to a buffer in the last run of one check, for tests of the self-test. */
typedef struct selftest_fault {
    const char *kernel; /* name of the check */
    uint32_t binding;
    uint64_t byte;
    uint8_t flip; /* bits of that byte */
    bool before;  /* an input: only while the kernel runs; else a result, afterwards */
} selftest_fault;

typedef struct selftest {
    otr_context *context;
    gpu *gpu;
    tuning tuning;
    kernel_runner runner;
    otr_selftest_callback on_result;
    void *user;
    const selftest_fault *fault; /* NULL: none */
    otr_result result;
    bool is_refused;       /* the device could not make a pipeline: `kernel` is the shader */
    uint32_t n_failed;     /* checks */
    uint32_t n_unfit;      /* of them: of kernels that the gpu's tier may use */
    char first_failed[96]; /* of these where there are any */
    uint64_t random_state;
    gpu_buffer buffers[SELFTEST_MAX_MEMORY]; /* until selftest_release */
    uint32_t n_buffers;
    void *memory[SELFTEST_MAX_MEMORY];
    uint32_t n_memory;
    /* the check that is going on */
    char kernel[96];
    int32_t lowest_tier, highest_tier; /* that may use the kernel */
    uint32_t run;                      /* 0..SELFTEST_RUNS - 1 */
    double max_error;
    char detail[224]; /* of the first difference that is too large */
} selftest;

/* A self-test with nothing run yet, of the device at a tier. On failure, too, selftest_close must
 * follow, which returns the result of all: OTR_ERROR_SELFTEST when a check failed. */
otr_result selftest_open_at_tier(selftest *t, otr_context *context, uint32_t device_index,
                                 int32_t tier, otr_selftest_callback on_result, void *user);
/* At the tier that the context uses it at. */
otr_result selftest_open(selftest *t, otr_context *context, uint32_t device_index,
                         otr_selftest_callback on_result, void *user);
otr_result selftest_close(selftest *t);
/* The same without a message: t->result says only whether the checks could be made. */
void selftest_free(selftest *t);
/* Makes a failed check of a refused pipeline, of the tiers that were said, after which other checks can
 * follow. */
void selftest_report_refusal(selftest *t);

/* otr_selftest with a fault, or with other checks (selftest_tiers.c). */
typedef void (*selftest_group)(selftest *t);
typedef struct selftest_plan {
    const selftest_group *groups;
    size_t n_groups;
    const selftest_fault *fault; /* NULL: none */
} selftest_plan;
otr_result selftest_run(otr_context *context, uint32_t device_index,
                        otr_selftest_callback on_result, void *user, const selftest_plan *plan);
#define N_SELFTEST_GROUPS 4
extern const selftest_group selftest_groups[N_SELFTEST_GROUPS]; /* all checks */

/* ------------------------------------------------------------------------- for the checks */

/* The groups of checks. */
void selftest_weights(selftest *t);
void selftest_layer(selftest *t);
void selftest_step(selftest *t);
void selftest_rule(selftest *t);

/* Single checks over other shapes, for tests. check_linear: the kernels that multiply by weights of
 * a format, those of other device classes too, and the gather. */
typedef struct linear_shape {
    enum tensor_format format;
    uint32_t k;           /* weights of a row, whole blocks; 0: some */
    bool subnormal;       /* all scales are */
    uint32_t flags;       /* of shaders/linear.glsl */
    uint32_t matvec_rows; /* of a workgroup in y of matvec; 0: 32 */
} linear_shape;
void check_linear(selftest *t, const linear_shape *shape);
typedef struct head_shape {
    uint32_t n_heads, n_kv_heads, head_size, rope_size;
    otr_cache_type cache;
} head_shape;
/* The kernel that rounds rows of x, [rows][k], to 8 bits, on a device that uses tier 2. Returns its
 * result, of which `values` becomes what it stands for; NULL after a failure. */
gpu_buffer *check_quantise(selftest *t, const gpu_buffer *x, uint32_t k, uint32_t rows,
                           double *values);
void check_rmsnorm(selftest *t, uint32_t n, uint32_t rows, uint32_t out_first);
void check_swiglu(selftest *t, uint32_t n, uint32_t rows);
void check_rope(selftest *t, const head_shape *shape, uint32_t base, uint32_t rows);
void check_attention(selftest *t, const head_shape *shape, uint32_t base, uint32_t rows);

/* Host memory (zeros), and a mapped buffer with zeros; both until selftest_release. NULL after a
 * failure. */
void *selftest_memory(selftest *t, uint64_t n_bytes);
gpu_buffer *selftest_buffer(selftest *t, uint64_t n_bytes);
void selftest_release(selftest *t);

/* The tuning of kernels as software devices have them (direct), or as GPUs do: the device's own where
 * its class uses them. */
const tuning *selftest_tuning(const selftest *t, bool direct);
VkPipeline selftest_pipeline(selftest *t, const char *shader, const uint32_t *constants,
                             uint32_t n_constants, bool pins_subgroup);
void selftest_dispatch(selftest *t, const kernel_run *run);

/* Begins a check, and ends and reports it. Its kernel is one of all tiers unless selftest_tiers, before
 * its pipelines are made, says otherwise for this check. Between them SELFTEST_RUNS times: dispatch and compare.
 */
void selftest_begin(selftest *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void selftest_tiers(selftest *t, int32_t lowest, int32_t highest);
/* Whether the tier that is tested may use it. */
bool selftest_counts(const selftest *t);
void selftest_end(selftest *t, const char *detail);

/* Compares element i of a row; tolerance 0: equal bits are asked for. */
void expect_near(selftest *t, uint32_t row, uint64_t i, double got, double want, double tolerance);
void expect_words(selftest *t, const char *what, const uint32_t *got, const uint32_t *want,
                  uint64_t n);

/* What outputs are filled with before a dispatch: a NaN that no kernel writes. */
#define SELFTEST_POISON 0x7fc0dead
void poison(gpu_buffer *buffer);
/* The words [from, to) of a buffer must still be poison. */
void expect_poison(selftest *t, const gpu_buffer *buffer, uint64_t from, uint64_t to);

/* Random numbers, the same in every run. */
uint32_t random_bits(selftest *t);
float random_between(selftest *t, float low, float high);
void random_words(selftest *t, uint32_t *words, uint32_t n);
void random_floats(selftest *t, float *out, uint64_t n, float low, float high);

#endif

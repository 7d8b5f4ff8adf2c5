/* What the checks of the self-test share: memory, dispatches with damage, comparisons, reports. Which
 * checks run at which tier is in selftest_tiers.c. */
#include "selftest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_pool.h"

void *selftest_memory(selftest *t, uint64_t n_bytes)
{
    if (t->result != OTR_OK)
        return NULL;
    void *memory = t->n_memory < SELFTEST_MAX_MEMORY ? calloc(1, n_bytes) : NULL;
    if (!memory) {
        t->result = context_fail(t->context, OTR_ERROR_OUT_OF_MEMORY,
                                 "out of memory for the self-test");
        return NULL;
    }
    t->memory[t->n_memory++] = memory;
    return memory;
}

gpu_buffer *selftest_buffer(selftest *t, uint64_t n_bytes)
{
    if (t->result != OTR_OK)
        return NULL;
    if (t->n_buffers == SELFTEST_MAX_MEMORY) {
        t->result = context_fail(t->context, OTR_ERROR_OUT_OF_MEMORY, "too many self-test buffers");
        return NULL;
    }
    gpu_buffer *buffer = &t->buffers[t->n_buffers];
    t->result = gpu_buffer_create(t->gpu, n_bytes, MEMORY_READBACK, "self-test", buffer);
    if (t->result != OTR_OK)
        return NULL;
    t->n_buffers++;
    memset(buffer->mapped, 0, n_bytes);
    return buffer;
}

void selftest_release(selftest *t)
{
    while (t->n_buffers > 0)
        gpu_buffer_destroy(t->gpu, &t->buffers[--t->n_buffers]);
    while (t->n_memory > 0)
        free(t->memory[--t->n_memory]);
}

const tuning *selftest_tuning(const selftest *t, bool direct)
{
    if ((t->tuning.direct_outputs > 0) == direct)
        return &t->tuning;
    return tuning_of(direct ? "software" : "gpu");
}

VkPipeline selftest_pipeline(selftest *t, const char *shader, const uint32_t *constants,
                             uint32_t n_constants, bool pins_subgroup)
{
    VkPipeline pipeline = VK_NULL_HANDLE;

    if (t->result != OTR_OK)
        return pipeline;
    t->result = kernel_get(t->gpu, shader, constants, n_constants, pins_subgroup, &pipeline);
    if (t->result == OTR_ERROR_DEVICE || t->result == OTR_ERROR_UNSUPPORTED) {
        t->is_refused = true;
        snprintf(t->kernel, sizeof t->kernel, "%s", shader);
    }
    return pipeline;
}

/* Does the damage that a test asked for; done twice to an input, it is gone again. */
static void damage(const selftest *t, const kernel_run *run)
{
    const selftest_fault *fault = t->fault;

    if (t->run == SELFTEST_RUNS - 1 && !strcmp(fault->kernel, t->kernel) &&
        run->buffers[fault->binding] && fault->byte < run->buffers[fault->binding]->size)
        ((uint8_t *)run->buffers[fault->binding]->mapped)[fault->byte] ^= fault->flip;
}

void selftest_dispatch(selftest *t, const kernel_run *run)
{
    if (t->result != OTR_OK)
        return;
    if (t->fault && t->fault->before)
        damage(t, run);
    t->result = kernel_runner_run(&t->runner, run, t->kernel);
    if (t->fault)
        damage(t, run);
}

/* ----------------------------------------------------------------------- what came out of it */

void selftest_begin(selftest *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(t->kernel, sizeof t->kernel, format, arguments);
    va_end(arguments);
    t->run = 0;
    t->max_error = 0;
    t->detail[0] = '\0';
}

void selftest_tiers(selftest *t, int32_t lowest, int32_t highest)
{
    t->lowest_tier = lowest;
    t->highest_tier = highest;
}

bool selftest_counts(const selftest *t)
{
    return t->lowest_tier <= t->gpu->tier && t->gpu->tier <= t->highest_tier;
}

void selftest_end(selftest *t, const char *detail)
{
    otr_selftest_result report = {
        .kernel = t->kernel,
        .passed = t->max_error <= 1,
        .max_error = t->max_error,
        .tier = t->gpu->tier,
        .counts = selftest_counts(t),
    };

    if (t->result != OTR_OK)
        return;
    selftest_tiers(t, 0, 3); /* of the next, unless it says otherwise */
    snprintf(report.detail, sizeof report.detail, "%.24s%s%s", detail,
             *detail && *t->detail ? ": " : "", t->detail);
    if (!report.passed && (t->n_failed == 0 || (report.counts && t->n_unfit == 0)))
        snprintf(t->first_failed, sizeof t->first_failed, "%s", t->kernel);
    t->n_failed += !report.passed;
    t->n_unfit += !report.passed && report.counts;
    if (t->on_result && !t->on_result(&report, t->user))
        t->result = context_fail(t->context, OTR_ERROR_CANCELLED, "the self-test was cancelled");
}

void selftest_report_refusal(selftest *t)
{
    char shader[sizeof t->kernel];

    memcpy(shader, t->kernel, sizeof shader);
    t->result = OTR_OK;
    t->is_refused = false;
    selftest_begin(t, "pipeline %.80s", shader);
    otr_error_message(t->context, t->detail, sizeof t->detail);
    t->max_error = INFINITY;
    selftest_end(t, "");
}

static void note(selftest *t, double error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Keeps the largest error, and the place of the first one that is too large. */
static void note(selftest *t, double error, const char *format, ...)
{
    va_list arguments;

    if (error > 1 && !t->detail[0]) {
        int n = snprintf(t->detail, sizeof t->detail, "run %u: ", t->run + 1);
        va_start(arguments, format);
        vsnprintf(t->detail + n, sizeof t->detail - (size_t)n, format, arguments);
        va_end(arguments);
    }
    if (error > t->max_error)
        t->max_error = error;
}

void expect_near(selftest *t, uint32_t row, uint64_t i, double got, double want, double tolerance)
{
    double error = got == want ? 0 : fabs(got - want) / tolerance;

    if (isnan(error))
        error = INFINITY;
    if (error > t->max_error)
        note(t, error, "row %u, element %llu is %.9g, not %.9g (tolerance %.3g)", row,
             (unsigned long long)i, got, want, tolerance);
}

void expect_words(selftest *t, const char *what, const uint32_t *got, const uint32_t *want,
                  uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (got[i] != want[i]) {
            note(t, INFINITY, "%s: word %llu is 0x%08x, not 0x%08x", what, (unsigned long long)i,
                 got[i], want[i]);
            return;
        }
}

void poison(gpu_buffer *buffer)
{
    uint32_t *words = buffer->mapped;

    for (uint64_t i = 0; i < buffer->size / 4; i++)
        words[i] = SELFTEST_POISON;
}

void expect_poison(selftest *t, const gpu_buffer *buffer, uint64_t from, uint64_t to)
{
    const uint32_t *words = buffer->mapped;

    for (uint64_t i = from; i < to; i++)
        if (words[i] != SELFTEST_POISON) {
            note(t, INFINITY, "word %llu outside the output was written", (unsigned long long)i);
            return;
        }
}

/* --------------------------------------------------------------------------- random numbers */

/* SplitMix64. */
uint32_t random_bits(selftest *t)
{
    uint64_t z = t->random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(z >> 32);
}

float random_between(selftest *t, float low, float high)
{
    return low + (high - low) * (float)(random_bits(t) >> 8) * 0x1p-24f;
}

void random_words(selftest *t, uint32_t *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        words[i] = random_bits(t);
}

void random_floats(selftest *t, float *out, uint64_t n, float low, float high)
{
    for (uint64_t i = 0; out && i < n; i++)
        out[i] = random_between(t, low, high);
}

/* ------------------------------------------------------------------------- begin and end */

otr_result selftest_open_at_tier(selftest *t, otr_context *context, uint32_t device_index,
                                 int32_t tier, otr_selftest_callback on_result, void *user)
{
    *t = (selftest){.context = context, .highest_tier = 3, .on_result = on_result, .user = user};
    t->result = gpu_open_at_tier(context, device_index, tier, &t->gpu);
    if (t->result == OTR_OK)
        t->result = kernel_runner_create(t->gpu, &t->runner);
    if (t->result == OTR_OK)
        t->tuning = tuning_find(t->gpu);
    return t->result;
}

otr_result selftest_open(selftest *t, otr_context *context, uint32_t device_index,
                         otr_selftest_callback on_result, void *user)
{
    int32_t tier = device_index < context->n_devices ? context->devices[device_index].tier : 0;

    return selftest_open_at_tier(t, context, device_index, tier, on_result, user);
}

otr_result selftest_close(selftest *t)
{
    if (t->result == OTR_OK && t->n_failed > 0)
        t->result = context_fail(t->context, OTR_ERROR_SELFTEST,
                                 "device %u (%s): %u self-test check%s failed at tier %d, '%s' "
                                 "first",
                                 t->gpu->index, t->gpu->info->name, t->n_failed,
                                 t->n_failed > 1 ? "s" : "", (int)t->gpu->tier, t->first_failed);
    selftest_free(t);
    return t->result;
}

void selftest_free(selftest *t)
{
    if (!t->gpu)
        return;
    selftest_release(t);
    kernel_runner_destroy(&t->runner);
    gpu_close(&t->gpu);
}

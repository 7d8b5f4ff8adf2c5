/* Submission lists. A session fills one per block and runs it: one vkQueueSubmit, one wait. */
#include "submission.h"

#include <stdlib.h>
#include <time.h>

/* Longest wait for one submission. No pass is meant to take longer than a fraction of this, even on
 * software devices and under a sanitizer. */
#define WAIT_MS 120000u
/* Device time that one VkSubmitInfo is packed for; the bound of the design is 100 ms. */
#define SUBMIT_MS 50.0
/* VkSubmitInfos made on the stack; longer lists are allocated. */
#define FEW 64

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void submission_clear(submission *s)
{
    s->n_commands = s->n_ends = 0;
    s->open_ms = 0;
    s->after = s->signals = (timeline_point){0};
}

void submission_free(submission *s)
{
    free(s->commands);
    free(s->ends);
    *s = (submission){0};
}

/* Closes the open VkSubmitInfo. */
static bool cut(submission *s)
{
    if (s->n_ends == s->ends_capacity) {
        uint32_t capacity = s->ends_capacity ? 2 * s->ends_capacity : FEW;
        uint32_t *grown = realloc(s->ends, capacity * sizeof *grown);
        if (!grown)
            return false;
        s->ends = grown;
        s->ends_capacity = capacity;
    }
    s->ends[s->n_ends++] = s->n_commands;
    s->open_ms = 0;
    return true;
}

bool submission_add(submission *s, VkCommandBuffer commands, double ms)
{
    if (!commands)
        return true;
    if (s->open_ms > 0 && s->open_ms + ms > SUBMIT_MS && !cut(s))
        return false;
    if (s->n_commands == s->commands_capacity) {
        uint32_t capacity = s->commands_capacity ? 2 * s->commands_capacity : FEW;
        VkCommandBuffer *grown = realloc(s->commands, capacity * sizeof(VkCommandBuffer));
        if (!grown)
            return false;
        s->commands = grown;
        s->commands_capacity = capacity;
    }
    s->commands[s->n_commands++] = commands;
    s->open_ms += ms;
    return true;
}

bool submission_wait_for(submission *s, timeline_point point)
{
    if (!cut(s))
        return false;
    s->after = point;
    s->waits_at = s->n_ends;
    return true;
}

void submission_signal(submission *s, timeline_point point)
{
    s->signals = point;
}

otr_result submission_start(const submission *s, const work_place *place, const char *what)
{
    gpu *g = place->gpu;
    VkSubmitInfo few[FEW], *infos = few;
    const VkPipelineStageFlags waiting_stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo waiting = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = 1,
        .pWaitSemaphoreValues = &s->after.value,
    };
    const VkTimelineSemaphoreSubmitInfo signalling = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &s->signals.value,
    };
    uint32_t n = 0, begin = 0;
    otr_result result = OTR_OK;

    if (s->n_ends + 1 > FEW) {
        infos = malloc((s->n_ends + 1) * sizeof *infos);
        if (!infos)
            return context_fail(g->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for %s", what);
    }
    for (uint32_t i = 0; i <= s->n_ends; i++) {
        uint32_t end = i < s->n_ends ? s->ends[i] : s->n_commands;
        if (end > begin) {
            VkSubmitInfo *info = &infos[n++];
            *info = (VkSubmitInfo){
                .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                .commandBufferCount = end - begin,
                .pCommandBuffers = s->commands + begin,
            };
            if (i == s->waits_at && s->after.semaphore) {
                info->pNext = &waiting;
                info->waitSemaphoreCount = 1;
                info->pWaitSemaphores = &s->after.semaphore;
                info->pWaitDstStageMask = &waiting_stages;
            }
        }
        begin = end;
    }
    if (n && s->signals.semaphore) {
        infos[n - 1].pNext = &signalling;
        infos[n - 1].signalSemaphoreCount = 1;
        infos[n - 1].pSignalSemaphores = &s->signals.semaphore;
    }
    VkResult submitted = gpu_submit(g, place->queue, n, infos, place->fence);
    if (submitted != VK_SUCCESS)
        result = context_fail_vk(g->context, submitted, "vkQueueSubmit of %s", what);
    if (infos != few)
        free(infos);
    return result;
}

otr_result submission_wait(const work_place *place, const char *what, uint64_t *wait_ns)
{
    uint64_t before = clock_ns();
    otr_result result = gpu_wait(place->gpu, place->fence, WAIT_MS, what);

    if (wait_ns)
        *wait_ns += clock_ns() - before;
    if (result == OTR_OK)
        place->gpu->vk.vkResetFences(place->gpu->device, 1, &place->fence);
    return result;
}

otr_result submission_run(const submission *s, const work_place *place, const char *what,
                          uint64_t *wait_ns)
{
    otr_result result = submission_start(s, place, what);
    return result == OTR_OK ? submission_wait(place, what, wait_ns) : result;
}

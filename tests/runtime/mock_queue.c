/* Queues of the mock device (mock_vulkan.h): a thread for each, which takes its submissions in order;
 * and what its files share. */
#include "mock_vulkan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_DELAY_US 100 /* of a submission, at random */

void *mock_make(size_t size)
{
    void *object = calloc(1, size);
    if (!object)
        abort();
    return object;
}

PFN_vkVoidFunction mock_find(const mock_entry *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return list[i].function;
    return NULL;
}

uint64_t mock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

mock_command *mock_add(VkCommandBuffer handle, enum mock_command_kind kind)
{
    mock_commands *c = (mock_commands *)handle;

    if (c->n == c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 8;
        c->list = realloc(c->list, c->capacity * sizeof *c->list);
        if (!c->list)
            abort();
    }
    mock_command *command = &c->list[c->n++];
    *command = c->state;
    command->kind = kind;
    return command;
}

static void run_command(const mock_command *c)
{
    const VkBufferCopy *r = &c->region;

    switch (c->kind) {
    case MOCK_COPY:
        memcpy(c->to->memory->bytes + c->to->offset + r->dstOffset,
               c->from->memory->bytes + c->from->offset + r->srcOffset, r->size);
        break;
    case MOCK_FILL:
        for (VkDeviceSize i = 0; i + 4 <= r->size; i += 4)
            memcpy(c->to->memory->bytes + c->to->offset + r->dstOffset + i, &c->value, 4);
        break;
    case MOCK_STAMP:
        c->queries->values[c->value] = mock_now_ns();
        break;
    case MOCK_DISPATCH:
        mock_run_kernel(c);
        break;
    }
}

static void sleep_a_little(mock_queue *q)
{
    q->random = q->random * 6364136223846793005u + 1442695040888963407u;
    struct timespec delay = {.tv_nsec = (long)(q->random >> 33) % (MOST_DELAY_US * 1000)};
    nanosleep(&delay, NULL);
}

static void wait_for_value(mock_timeline *t, uint64_t value)
{
    pthread_mutex_lock(&t->lock);
    while (t->value < value)
        pthread_cond_wait(&t->change, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void signal_value(mock_timeline *t, uint64_t value)
{
    pthread_mutex_lock(&t->lock);
    if (value <= t->value) /* what the validation layers would refuse */
        abort();
    t->value = value;
    pthread_cond_broadcast(&t->change);
    pthread_mutex_unlock(&t->lock);
}

static void run_job(mock_queue *q, mock_job *job)
{
    sleep_a_little(q);
    if (job->after)
        wait_for_value(job->after, job->after_value);
    for (uint32_t i = 0; i < job->n; i++) {
        /* Of another family's pool: what the validation layers would refuse. */
        if (job->commands[i]->family != q->family)
            abort();
        for (size_t k = 0; k < job->commands[i]->n; k++)
            run_command(&job->commands[i]->list[k]);
    }
    if (job->signals)
        signal_value(job->signals, job->signals_value);
    if (!job->fence)
        return;
    pthread_mutex_lock(&job->fence->lock);
    job->fence->is_signalled = true;
    pthread_cond_broadcast(&job->fence->signal);
    pthread_mutex_unlock(&job->fence->lock);
}

static void *run_queue(void *argument)
{
    mock_queue *q = argument;

    pthread_mutex_lock(&q->lock);
    while (q->first || !q->ends) {
        mock_job *job = q->first;
        if (!job) {
            pthread_cond_wait(&q->has_work, &q->lock);
            continue;
        }
        q->first = job->next;
        if (!q->first)
            q->last = &q->first;
        pthread_mutex_unlock(&q->lock);
        run_job(q, job);
        free(job);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

void mock_device_start(mock_device *d, const VkDeviceCreateInfo *info)
{
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
        for (uint32_t k = 0; k < info->pQueueCreateInfos[i].queueCount; k++) {
            if (d->n_queues == MOCK_MAX_QUEUES)
                abort();
            mock_queue *q = &d->queues[d->n_queues++];
            q->family = info->pQueueCreateInfos[i].queueFamilyIndex;
            q->random = d->n_queues;
            q->last = &q->first;
            pthread_mutex_init(&q->lock, NULL);
            pthread_cond_init(&q->has_work, NULL);
            if (pthread_create(&q->thread, NULL, run_queue, q))
                abort();
        }
    }
}

void mock_device_stop(mock_device *d)
{
    for (uint32_t i = 0; i < d->n_queues; i++) {
        mock_queue *q = &d->queues[i];
        pthread_mutex_lock(&q->lock);
        q->ends = true;
        pthread_cond_signal(&q->has_work);
        pthread_mutex_unlock(&q->lock);
        pthread_join(q->thread, NULL);
        pthread_cond_destroy(&q->has_work);
        pthread_mutex_destroy(&q->lock);
    }
}

/* NULL when memory runs out. */
static mock_job *make_job(const VkSubmitInfo *info)
{
    const VkTimelineSemaphoreSubmitInfo *values = info->pNext;
    mock_job *job = calloc(1, sizeof *job + info->commandBufferCount * sizeof(mock_commands *));

    if (!job)
        return NULL;
    job->n = info->commandBufferCount;
    for (uint32_t i = 0; i < job->n; i++)
        job->commands[i] = (mock_commands *)info->pCommandBuffers[i];
    /* Timeline semaphores are the only ones used, one in a place. */
    if (info->waitSemaphoreCount) {
        job->after = OBJECT(mock_timeline, info->pWaitSemaphores[0]);
        job->after_value = values->pWaitSemaphoreValues[0];
    }
    if (info->signalSemaphoreCount) {
        job->signals = OBJECT(mock_timeline, info->pSignalSemaphores[0]);
        job->signals_value = values->pSignalSemaphoreValues[0];
    }
    return job;
}

VkResult VKAPI_CALL mock_queue_submit(VkQueue handle, uint32_t n, const VkSubmitInfo *infos,
                                      VkFence fence)
{
    static const VkSubmitInfo empty;
    mock_queue *q = (mock_queue *)handle;
    mock_job *first = NULL, **end = &first, *last = NULL;

    for (uint32_t i = 0; i < (n ? n : 1); i++) {
        last = make_job(n ? &infos[i] : &empty);
        if (!last)
            abort();
        *end = last;
        end = &last->next;
    }
    last->fence = OBJECT(mock_fence, fence);
    pthread_mutex_lock(&q->lock);
    *q->last = first;
    q->last = &last->next;
    pthread_cond_signal(&q->has_work);
    pthread_mutex_unlock(&q->lock);
    return VK_SUCCESS;
}

VkResult VKAPI_CALL mock_create_semaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                                          NO_ALLOCATOR, VkSemaphore *semaphore)
{
    mock_timeline *t = mock_make(sizeof *t);

    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->change, NULL);
    *semaphore = HANDLE(VkSemaphore, t);
    return VK_SUCCESS;
}

void VKAPI_CALL mock_destroy_semaphore(VkDevice device, VkSemaphore semaphore, NO_ALLOCATOR)
{
    mock_timeline *t = OBJECT(mock_timeline, semaphore);

    if (!t)
        return;
    pthread_cond_destroy(&t->change);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static VkResult wait_for(mock_fence *f, const struct timespec *end)
{
    int problem = 0;

    pthread_mutex_lock(&f->lock);
    while (!f->is_signalled && problem != ETIMEDOUT)
        problem = pthread_cond_timedwait(&f->signal, &f->lock, end);
    bool done = f->is_signalled;
    pthread_mutex_unlock(&f->lock);
    return done ? VK_SUCCESS : VK_TIMEOUT;
}

VkResult VKAPI_CALL mock_wait_for_fences(VkDevice device, uint32_t n, const VkFence *fences,
                                         VkBool32 all, uint64_t timeout_ns)
{
    struct timespec end;
    VkResult result = VK_SUCCESS;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(timeout_ns / 1000000000u) + 1;
    for (uint32_t i = 0; i < n && result == VK_SUCCESS; i++)
        result = wait_for((mock_fence *)(uintptr_t)fences[i], &end);
    return result;
}

VkResult VKAPI_CALL mock_reset_fences(VkDevice device, uint32_t n, const VkFence *fences)
{
    for (uint32_t i = 0; i < n; i++) {
        mock_fence *f = (mock_fence *)(uintptr_t)fences[i];
        pthread_mutex_lock(&f->lock);
        f->is_signalled = false;
        pthread_mutex_unlock(&f->lock);
    }
    return VK_SUCCESS;
}

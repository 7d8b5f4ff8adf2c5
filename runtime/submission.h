/* Lists of command buffers on their way to a queue, cut into VkSubmitInfos of bounded device time.
 */
#ifndef OUTRIDER_SUBMISSION_H
#define OUTRIDER_SUBMISSION_H

#include "device.h"

/* A value of a timeline semaphore, which work on one queue sets and work on another waits for. */
typedef struct timeline_point {
    VkSemaphore semaphore; /* VK_NULL_HANDLE: none */
    uint64_t value;
} timeline_point;

typedef struct submission {
    VkCommandBuffer *commands;
    uint32_t n_commands, commands_capacity;
    uint32_t *ends; /* end of each VkSubmitInfo in `commands`, the open last one left out */
    uint32_t n_ends, ends_capacity;
    double open_ms;       /* expected device time of the open VkSubmitInfo */
    timeline_point after; /* what the VkSubmitInfo behind ends[waits_at - 1] waits for */
    uint32_t waits_at;
    timeline_point signals; /* set when all is done */
} submission;

void submission_clear(submission *s);
void submission_free(submission *s);
/* Appends command buffers that are expected to take `ms` on the device (0: next to nothing). A new
 * VkSubmitInfo begins where the open one would grow too long. False when memory runs out. Adding
 * VK_NULL_HANDLE does nothing. */
bool submission_add(submission *s, VkCommandBuffer commands, double ms);
/* What is added from here on begins when `point` is reached, which a submission made before reaches. One
 * such wait in a submission, and something behind it; false when memory runs out. */
bool submission_wait_for(submission *s, timeline_point point);
/* The submission's end reaches `point`, if that has a semaphore. A submission waits or signals, not both. */
void submission_signal(submission *s, timeline_point point);
/* Expected time of work that was never measured: long enough to get a VkSubmitInfo of its own. */
#define SUBMISSION_UNKNOWN_MS 100.0
/* Where work goes, and the fence that tells its end. */
typedef struct work_place {
    gpu *gpu;
    uint32_t queue;
    VkFence fence;
} work_place;
/* Submits all in one call. `what` is for messages. */
otr_result submission_start(const submission *s, const work_place *place, const char *what);
/* Waits for the end of what was started and resets the fence; adds the time spent to *wait_ns (may be
 * NULL). */
otr_result submission_wait(const work_place *place, const char *what, uint64_t *wait_ns);
/* Both. */
otr_result submission_run(const submission *s, const work_place *place, const char *what,
                          uint64_t *wait_ns);
/* Monotonic clock. */
uint64_t clock_ns(void);

#endif

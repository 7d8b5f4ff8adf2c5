/* Lists of command buffers on their way to a queue, cut into VkSubmitInfos of bounded device time.
 */
#ifndef OUTRIDER_SUBMISSION_H
#define OUTRIDER_SUBMISSION_H

#include "device.h"

typedef struct submission {
    VkCommandBuffer *commands;
    uint32_t n_commands, commands_capacity;
    uint32_t *ends; /* end of each VkSubmitInfo in `commands`, the open last one left out */
    uint32_t n_ends, ends_capacity;
    double open_ms; /* expected device time of the open VkSubmitInfo */
} submission;

void submission_clear(submission *s);
void submission_free(submission *s);
/* Appends command buffers that are expected to take `ms` on the device (0: next to nothing). A new
 * VkSubmitInfo begins where the open one would grow too long. False when memory runs out. Adding
 * VK_NULL_HANDLE does nothing. */
bool submission_add(submission *s, VkCommandBuffer commands, double ms);
/* Expected time of work that was never measured: long enough to get a VkSubmitInfo of its own. */
#define SUBMISSION_UNKNOWN_MS 100.0
/* Submits all in one call, waits for the end, and resets the fence. `what` is for messages;
 * *wait_ns (may be NULL) is the time spent waiting. */
otr_result submission_run(const submission *s, gpu *g, VkFence fence, const char *what,
                          uint64_t *wait_ns);
/* Monotonic clock. */
uint64_t clock_ns(void);

#endif

/* Recording: the commands of a lane, once, into command buffers that are replayed for every step.
 *
 * The emit functions write into any command buffer; record_lane makes the lane's own ones of them.
 * Tests emit a whole block into a single command buffer, where synchronisation validation sees the
 * most. */
#ifndef OUTRIDER_RECORD_H
#define OUTRIDER_RECORD_H

#include "lane.h"

/* Records everything that lane.h names: groups, the link to an exchange buffer, copy_logits. */
otr_result record_lane(lane *l, const gpu_buffer *exchange);
/* The commands that read and write another exchange buffer on the lane's device. */
otr_result record_link(lane *l, const gpu_buffer *exchange, lane_link *link);
/* Only the operations of some kinds (enum operation_kind), for measuring them; VK_NULL_HANDLE when
 * the group has none. The commands live as long as the lane. */
otr_result record_kinds(lane *l, const operation_group *group, enum lane_path path, uint32_t kinds,
                        VkCommandBuffer *commands);

void emit_begin(const lane *l, const lane_link *link, VkCommandBuffer commands, uint32_t mode);
void emit_group(const lane *l, VkCommandBuffer commands, const operation_group *group,
                enum lane_path path);
void emit_propose(const lane *l, const lane_link *link, VkCommandBuffer commands);
/* One dispatch of one workgroup, with its push constants, after a barrier for all kernels before
 * it. */
void emit_single(gpu *g, VkCommandBuffer commands, VkPipeline pipeline, VkDescriptorSet set,
                 const void *push, uint32_t push_bytes);
/* The same with one workgroup, in y, for each output row of the lane's step. */
void emit_output_rows(const lane *l, VkCommandBuffer commands, VkPipeline pipeline,
                      VkDescriptorSet set, const void *push, uint32_t push_bytes);
/* A copy of what kernels wrote, for the host. */
void emit_copy(gpu *g, VkCommandBuffer commands, const gpu_buffer *from, const gpu_buffer *to,
               const VkBufferCopy *copy);
/* What kernels wrote is seen by the host once the submission has ended. */
void emit_host_barrier(gpu *g, VkCommandBuffer commands);

/* Allocates a command buffer of the pool and begins it; ends it. Reusable while pending. */
otr_result record_begin(gpu *g, VkCommandPool pool, const char *name, VkCommandBuffer *commands);
otr_result record_end(gpu *g, VkCommandBuffer commands, const char *name);

#endif

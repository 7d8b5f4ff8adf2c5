/* The pool of a gpu's pipelines: a short list, searched only while lanes are made. */
#include "kernel_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pooled_kernel {
    struct pooled_kernel *next;
    char label[128]; /* shader and constants: the key */
    VkPipeline pipeline;
};

otr_result kernel_get(gpu *g, const char *shader, const uint32_t *constants, uint32_t n_constants,
                      bool pins_subgroup, VkPipeline *out)
{
    char label[128];
    struct pooled_kernel *entry;
    otr_result result = OTR_OK;
    int n = snprintf(label, sizeof label, "%s", shader);

    for (uint32_t i = 0; i < n_constants && n < (int)sizeof label; i++)
        n += snprintf(label + n, sizeof label - (size_t)n, " %u", constants[i]);
    pthread_mutex_lock(&g->kernels_lock);
    for (entry = g->kernels; entry; entry = entry->next)
        if (!strcmp(entry->label, label))
            break;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry) {
            result = context_fail(g->context, OTR_ERROR_OUT_OF_MEMORY,
                                  "out of memory for kernel %s", label);
            goto out;
        }
        memcpy(entry->label, label, sizeof label);
        result = kernel_create(g, shader, constants, n_constants, pins_subgroup, label,
                               &entry->pipeline);
        if (result != OTR_OK) {
            free(entry);
            goto out;
        }
        entry->next = g->kernels;
        g->kernels = entry;
    }
    *out = entry->pipeline;
out:
    pthread_mutex_unlock(&g->kernels_lock);
    return result;
}

void kernel_pool_free(gpu *g)
{
    while (g->kernels) {
        struct pooled_kernel *entry = g->kernels;
        g->kernels = entry->next;
        if (!atomic_load(&g->hung))
            g->vk.vkDestroyPipeline(g->device, entry->pipeline, NULL);
        free(entry);
    }
}

/* Measurements for benchmarks: the time of single passes, and the device's copy bandwidth. What is
 * measured is what a generation submits, with its recorded work. */
#include <string.h>

#include "memory.h"
#include "params.h"
#include "record.h"
#include "session.h"

#define COPY_BYTES (64ull << 20)
#define COPY_REPEATS 4 /* of a submission */
#define COPY_RUNS 5

otr_measure_params otr_measure_params_default(void)
{
    return (otr_measure_params){
        .size = sizeof(otr_measure_params),
        .path = OTR_EVALUATE_ROWS,
        .rows = 1,
        .sampling = otr_sampling_default(),
    };
}

static uint64_t bytes_of(const weight *w)
{
    uint64_t n_bytes = 0;

    for (uint32_t i = 0; i < w->n_parts; i++)
        n_bytes += w->parts[i].n_bytes;
    return n_bytes;
}

/* Of the layers, each read once a pass, and of the head. */
static uint64_t pass_bytes(const otr_model *model, bool with_head)
{
    const weight *head = model_weight(model, WEIGHT_OUTPUT, 0);
    uint64_t n_bytes = 0;

    for (uint32_t layer = 0; layer < model->h.n_layers; layer++)
        for (int id = WEIGHT_FIRST_PER_LAYER; id < N_WEIGHTS; id++)
            n_bytes += bytes_of(model_weight(model, (enum weight_id)id, layer));
    if (with_head)
        n_bytes += bytes_of(weight_exists(head) ? head : model_weight(model, WEIGHT_TOKEN_EMBD, 0));
    return n_bytes;
}

static uint32_t dispatches_of(const lane *l, uint32_t first, uint32_t end, enum lane_path path)
{
    uint32_t n = 0;

    for (uint32_t i = first; i < end; i++)
        n += l->operations[i].pipeline[path] != VK_NULL_HANDLE;
    return n;
}

void measure_write_pass(const lane *l, const otr_sampling *sampling, uint32_t base, uint32_t rows,
                        uint32_t out_rows)
{
    uint32_t *request = lane_request(l);

    generate_write_sampling(l, sampling);
    request[Q_STOPS] = 0;
    request[Q_BASE] = base - l->origin;
    request[Q_ORIGIN] = l->origin;
    request[Q_ROWS] = rows;
    request[Q_OUT_FIRST] = rows - out_rows;
    request[Q_OUT_ROWS] = out_rows;
    for (uint32_t i = 0; i < rows; i++) /* different rows of the embedding table */
        request[Q_TOKENS + i] = (base + i) * 7 % l->model->h.n_vocab;
}

/* One pass of the lane; adds what it took. */
static otr_result measure_pass(otr_session *s, lane *l, const otr_measure_params *p, uint32_t base,
                               uint32_t rows, otr_measurement *out)
{
    bool with_logits = p->path == OTR_EVALUATE_ROWS;
    enum lane_path path = !with_logits ? PATH_PREFILL : rows == 1 ? PATH_ONE : PATH_ROWS;
    submission *sub = &s->submission;
    uint64_t start = clock_ns(), wait_ns = 0;

    measure_write_pass(l, &p->sampling, base, rows, with_logits ? rows : 0);
    submission_clear(sub);
    bool ok = lane_add_begin(l, sub, BEGIN_GENERATE) && lane_add_begin(l, sub, BEGIN_REQUEST) &&
              lane_add_layers(l, sub, path);
    if (ok && with_logits)
        ok = lane_add_output(l, sub, path) && lane_add_sample(l, sub);
    if (!ok)
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a submission");
    otr_result result = submission_run(sub, &l->place, "a measurement", &wait_ns);
    uint64_t took = clock_ns() - start;

    out->seconds += (double)took / 1e9;
    out->host_seconds += (double)(took - wait_ns) / 1e9;
    out->dispatches += 2 + dispatches_of(l, l->embed.first, l->output.first, path);
    if (with_logits)
        out->dispatches += dispatches_of(l, l->output.first, l->sample.end, path);
    out->weight_bytes += pass_bytes(l->model, with_logits);
    return result;
}

otr_result otr_session_measure(otr_session *s, const otr_measure_params *params,
                               otr_measurement *out)
{
    otr_measure_params own = otr_measure_params_default();
    otr_measurement m = {0};
    const otr_measure_params *p = &own;
    otr_result result = OTR_OK;

    if (!s)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!out || out->size < sizeof(size_t) || !params_take(&own, sizeof own, params) ||
        own.sampling.size != sizeof own.sampling)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_measure: the size of the params or result is not set");
    lane *l = p->use_draft ? s->draft : s->target;
    if (!l || !p->rows || (p->path == OTR_EVALUATE_ROWS && p->rows > MAX_ROWS))
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_measure: %u rows (1 to %u, prefill: any), of %s", p->rows,
                            MAX_ROWS, !l ? "a draft that the session lacks" : "a lane");
    if (p->rows > s->n_ctx - s->n_tokens)
        return context_fail(s->context, OTR_ERROR_CONTEXT_FULL,
                            "%u rows don't fit: %u of the context's %u positions are in use",
                            p->rows, s->n_tokens, s->n_ctx);
    atomic_store(&s->cancelled, false);
    result = session_prefill(s, l, s->n_tokens, NULL, NULL); /* what attention will read */
    for (uint32_t done = 0; done < p->rows && result == OTR_OK;) {
        uint32_t left = p->rows - done;
        uint32_t rows = p->path == OTR_EVALUATE_ROWS || left < l->chunk_rows ? left : l->chunk_rows;
        result = measure_pass(s, l, p, s->n_tokens + done, rows, &m);
        done += rows;
    }
    if (l == s->target)
        s->last_row = -1; /* its x buffer was written */
    size_t size = out->size < sizeof m ? out->size : sizeof m;
    m.size = size;
    memcpy(out, &m, size);
    return result;
}

/* ------------------------------------------------------------------------ copy bandwidth */

static otr_result record_copies(gpu *g, VkCommandPool pool, const gpu_buffer *from,
                                const gpu_buffer *to, VkCommandBuffer *commands)
{
    const VkBufferCopy region = {0, 0, COPY_BYTES};
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    otr_result result = record_begin(g, pool, "copies", commands);

    for (int i = 0; i < COPY_REPEATS && result == OTR_OK; i++) {
        g->vk.vkCmdCopyBuffer(*commands, from->buffer, to->buffer, 1, &region);
        g->vk.vkCmdPipelineBarrier(*commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                   VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                   NULL);
    }
    return result == OTR_OK ? record_end(g, *commands, "copies") : result;
}

otr_result otr_session_measure_copy(otr_session *s, double *bytes_per_second)
{
    gpu_buffer from = {0}, to = {0};
    VkCommandBuffer commands;
    submission sub = {0};
    double least = 0;
    otr_result result;

    if (!s || !bytes_per_second)
        return OTR_ERROR_INVALID_ARGUMENT;
    VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = s->gpu->queues[0].family,
    };
    VkCommandPool pool = VK_NULL_HANDLE;
    VkResult created = s->gpu->vk.vkCreateCommandPool(s->gpu->device, &info, NULL, &pool);
    result = created == VK_SUCCESS
                 ? gpu_buffer_create(s->gpu, COPY_BYTES, MEMORY_DEVICE, "copy source", &from)
                 : context_fail_vk(s->context, created, "vkCreateCommandPool of a measurement");
    if (result == OTR_OK)
        result = gpu_buffer_create(s->gpu, COPY_BYTES, MEMORY_DEVICE, "copy target", &to);
    if (result == OTR_OK)
        result = record_copies(s->gpu, pool, &from, &to, &commands);
    if (result == OTR_OK && !submission_add(&sub, commands, 0))
        result = context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a copy");
    for (int i = 0; i < COPY_RUNS && result == OTR_OK; i++) {
        uint64_t start = clock_ns();
        result = submission_run(&sub, &s->target->place, "a copy", NULL);
        double seconds = (double)(clock_ns() - start) / 1e9;
        least = i == 0 || seconds < least ? seconds : least;
    }
    /* Each byte is read and written. */
    *bytes_per_second = result == OTR_OK ? 2.0 * COPY_BYTES * COPY_REPEATS / least : 0;
    submission_free(&sub);
    gpu_buffer_destroy(s->gpu, &to);
    gpu_buffer_destroy(s->gpu, &from);
    if (pool && !atomic_load(&s->gpu->hung))
        s->gpu->vk.vkDestroyCommandPool(s->gpu->device, pool, NULL);
    return result;
}

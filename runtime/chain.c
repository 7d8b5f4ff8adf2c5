/* Chains of the draft lane (chain.h). */
#include "chain.h"

#include <string.h>

#include "calibration_bands.h"
#include "record.h"
#include "session.h"

static otr_result record_copy(otr_session *s)
{
    gpu *g = s->draft->gpu;
    chain *c = &s->chain;
    VkBufferCopy words = {0, 0, X_WORDS * 4};
    otr_result result = record_begin(g, s->draft->pool, "chain report", &c->copy);

    if (result != OTR_OK)
        return result;
    emit_copy(g, c->copy, &c->exchange, &c->report, &words);
    return record_end(g, c->copy, "chain report");
}

static otr_result create_timeline(gpu *g, VkSemaphore *out)
{
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult created = g->vk.vkCreateSemaphore(g->device, &info, NULL, out);

    if (created != VK_SUCCESS)
        return context_fail_vk(g->context, created, "vkCreateSemaphore of a draft");
    gpu_name(g, VK_OBJECT_TYPE_SEMAPHORE, (uint64_t)*out, "chains");
    return OTR_OK;
}

otr_result chain_create(otr_session *s, const lane_params *params)
{
    chain *c = &s->chain;
    gpu *g = s->draft_model->gpu;
    otr_result result = gpu_buffer_create(g, X_WORDS * 4, MEMORY_DEVICE, "chain", &c->exchange);

    if (result == OTR_OK)
        result = gpu_buffer_create(g, X_WORDS * 4, MEMORY_READBACK, "chain report", &c->report);
    if (result == OTR_OK)
        result = lane_create(s->draft_model, params, s->joined ? &s->exchange.block : &c->exchange,
                             &s->draft);
    if (result == OTR_OK)
        result = record_link(s->draft, &c->exchange, &c->link);
    if (result == OTR_OK && s->joined && s->draft->place.queue && g->has_two_families)
        result = create_timeline(g, &c->last.semaphore);
    return result == OTR_OK ? record_copy(s) : result;
}

void chain_destroy(otr_session *s)
{
    if (!s->draft_model)
        return;
    gpu *g = s->draft_model->gpu;
    chain_drain(s);
    if (s->chain.last.semaphore && !atomic_load(&g->hung))
        g->vk.vkDestroySemaphore(g->device, s->chain.last.semaphore, NULL);
    lane_destroy(&s->draft);
    gpu_buffer_destroy(g, &s->chain.exchange);
    gpu_buffer_destroy(g, &s->chain.report);
    submission_free(&s->chain.submission);
}

enum lane_path chain_write_root(otr_session *s, uint32_t root)
{
    const lane *l = s->draft;
    uint32_t *request = lane_request(l), rows = root + 1 - l->length;

    request[Q_BASE] = l->length - l->origin;
    request[Q_ROWS] = rows;
    request[Q_OUT_FIRST] = rows - 1;
    request[Q_OUT_ROWS] = 1;
    request[Q_ORIGIN] = l->origin;
    request[Q_ROOT] = root;
    request[Q_CANCEL] = 0;
    memcpy(request + Q_TOKENS, s->tokens + l->length, rows * sizeof *request);
    return rows == 1 ? PATH_ONE : PATH_ROWS;
}

bool chain_add_steps(otr_session *s, const lane_link *link, submission *sub, uint32_t root,
                     uint32_t n_steps)
{
    enum lane_path path = chain_write_root(s, root);
    bool ok = !s->chain.new_parameters ||
              submission_add(sub, s->chain.link.begin[BEGIN_GENERATE], 0);

    s->chain.new_parameters = false;
    for (uint32_t i = 0; i < n_steps && ok; i++)
        ok = lane_add_draft_step(s->draft, link, sub, i ? BEGIN_DRAFT : BEGIN_CHAIN,
                                 i ? PATH_ONE : path);
    return ok;
}

/* A chain with the commands of `link`, then `last` (may be VK_NULL_HANDLE), on the draft's queue. */
static otr_result start(otr_session *s, const lane_link *link, uint32_t root, uint32_t n_steps,
                        VkCommandBuffer last, timeline_point signals)
{
    chain *c = &s->chain;
    submission *sub = &c->submission;

    submission_clear(sub);
    submission_signal(sub, signals);
    if (!chain_add_steps(s, link, sub, root, n_steps) || !submission_add(sub, last, 0))
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a submission");
    otr_result result = submission_start(sub, &s->draft->place, "a draft");
    c->running = result == OTR_OK;
    return result;
}

otr_result chain_start(otr_session *s, uint32_t root, uint32_t n_steps)
{
    chain *c = &s->chain;

    c->start_ns = clock_ns();
    c->root = root;
    return start(s, &c->link, root, n_steps, c->copy, (timeline_point){0});
}

otr_result chain_start_before_target(otr_session *s, uint32_t root, uint32_t n_steps)
{
    chain *c = &s->chain;

    c->last.value++;
    return start(s, &s->draft->link, root, n_steps, VK_NULL_HANDLE, c->last);
}

otr_result chain_end(otr_session *s, uint64_t *wait_ns)
{
    if (!s->chain.running)
        return OTR_OK;
    s->chain.running = false;
    return submission_wait(&s->draft->place, "a draft", wait_ns);
}

void chain_cancel(otr_session *s)
{
    /* The device may be reading: it sees the old value or the new one, and either is right. */
    __atomic_store_n(lane_request(s->draft) + Q_CANCEL, 1, __ATOMIC_RELAXED);
}

otr_result chain_wait(otr_session *s, chain_result *out, uint64_t *wait_ns)
{
    chain *c = &s->chain;
    const uint32_t *report = c->report.mapped;

    *out = (chain_result){0};
    otr_result result = chain_end(s, wait_ns);
    if (result != OTR_OK)
        return result;
    out->ms = (double)(clock_ns() - c->start_ns) / 1e6;
    out->n = report[X_DRAFTED];
    if (out->n > OTR_MAX_DRAFT)
        return context_fail(s->context, OTR_ERROR_DEVICE, "the device wrote a damaged draft");
    memcpy(out->tokens, report + X_TOKENS + 1, out->n * sizeof *out->tokens);
    memcpy(out->probabilities, report + X_PROBABILITIES, out->n * sizeof *out->probabilities);
    for (uint32_t i = 0; i < out->n; i++)
        if (report[X_TOKENS + 1 + i] >= s->draft_model->h.n_vocab)
            return context_fail(s->context, OTR_ERROR_DEVICE, "the device drafted token %u of %u",
                                report[X_TOKENS + 1 + i], s->draft_model->h.n_vocab);
    if (out->n) {
        s->draft->length = c->root + out->n;
        lane_pass_took(s->draft, PATH_ONE, out->ms / out->n);
    }
    return OTR_OK;
}

void chain_drain(otr_session *s)
{
    if (!s->chain.running)
        return;
    chain_cancel(s);
    chain_end(s, NULL); /* an error is the next call's, too */
}

void chain_set_stops(otr_session *s, const float *band_acceptance, const float *stop)
{
    uint32_t *request = lane_request(s->draft);

    if (stop) {
        memcpy(request + Q_BANDS, band_acceptance, CALIBRATION_BANDS * sizeof *request);
        memcpy(request + Q_SURVIVAL, stop, OTR_MAX_DRAFT * sizeof *request);
    } else {
        memset(request + Q_BANDS, 0, CALIBRATION_BANDS * sizeof *request);
        memset(request + Q_SURVIVAL, 0, OTR_MAX_DRAFT * sizeof *request);
    }
}

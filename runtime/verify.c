/* One block of speculative decoding: draft chain, target pass, acceptance; submitted and waited for
 * as one. With coupled noise the target's own choice at each row is the text, so acceptance is
 * equality and the text does not depend on the draft. The other rules come in between (verify_rule.h).
 */
#include "verify.h"

#include <string.h>

#include "kernel_pool.h"
#include "record.h"

enum { STAMP_START, STAMP_VERIFY, STAMP_END, N_STAMPS };

void verify_emit_accept(const otr_session *s, VkCommandBuffer commands, uint32_t mode)
{
    emit_single(s->gpu, commands, s->accept_pipeline, s->accept_set, &mode, sizeof mode);
    emit_host_barrier(s->gpu, commands);
}

static otr_result record_accepts(otr_session *s)
{
    const binding bindings[] = {
        {&s->target->words, 0, 0}, {&s->exchange.block, 0, 0}, {&s->exchange.record, 0, 0}};
    otr_result result = kernel_get(s->gpu, "accept", NULL, 0, false, &s->accept_pipeline);

    if (result == OTR_OK)
        result = lane_bind(s->target, bindings, 3, &s->accept_set);
    for (uint32_t mode = 0; mode < N_ACCEPT_MODES && result == OTR_OK; mode++) {
        result = record_begin(s->gpu, s->pool, "accept", &s->accept[mode]);
        if (result == OTR_OK) {
            verify_emit_accept(s, s->accept[mode], mode);
            result = record_end(s->gpu, s->accept[mode], "accept");
        }
    }
    return result;
}

/* Stamp 0 also resets the queries. */
static otr_result record_stamps(otr_session *s)
{
    struct VolkDeviceTable *vk = &s->gpu->vk;
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = N_STAMPS,
    };
    otr_result result = OTR_OK;

    if (!s->gpu->info->timestamp_valid_bits)
        return OTR_OK;
    VkResult created = vk->vkCreateQueryPool(s->gpu->device, &info, NULL, &s->stamps);
    if (created != VK_SUCCESS)
        return context_fail_vk(s->context, created, "vkCreateQueryPool");
    for (uint32_t i = 0; i < N_STAMPS && result == OTR_OK; i++) {
        result = record_begin(s->gpu, s->pool, "timestamp", &s->stamp[i]);
        if (result != OTR_OK)
            break;
        if (i == STAMP_START)
            vk->vkCmdResetQueryPool(s->stamp[i], s->stamps, 0, N_STAMPS);
        vk->vkCmdWriteTimestamp(s->stamp[i], VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, s->stamps, i);
        result = record_end(s->gpu, s->stamp[i], "timestamp");
    }
    return result;
}

otr_result verify_create(otr_session *s)
{
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = s->gpu->queues[0].family,
    };
    VkResult created = s->gpu->vk.vkCreateCommandPool(s->gpu->device, &pool, NULL, &s->pool);
    otr_result result;

    if (created != VK_SUCCESS)
        return context_fail_vk(s->context, created, "vkCreateCommandPool of a session");
    result = record_accepts(s);
    return result == OTR_OK ? record_stamps(s) : result;
}

void verify_destroy(otr_session *s)
{
    struct VolkDeviceTable *vk = &s->gpu->vk;
    if (atomic_load(&s->gpu->hung))
        return; /* in use by work that never ended */
    if (s->stamps)
        vk->vkDestroyQueryPool(s->gpu->device, s->stamps, NULL);
    if (s->pool)
        vk->vkDestroyCommandPool(s->gpu->device, s->pool, NULL);
}

/* Milliseconds between two stamps; counters may wrap at their valid bits. */
static double stamp_ms(const otr_session *s, const uint64_t *stamps, int from, int to)
{
    uint32_t bits = s->gpu->info->timestamp_valid_bits;
    uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
    return (double)((stamps[to] - stamps[from]) & mask) * (double)s->gpu->limits.timestampPeriod /
           1e6;
}

static otr_result finish(otr_session *s, uint64_t start_ns, block_result *out)
{
    const uint32_t *record = s->exchange.record.mapped;

    out->drafted = record[B_DRAFTED];
    out->accepted = record[B_ACCEPTED];
    out->n_tokens = record[B_EMITTED];
    out->rejected = (int32_t)record[B_REJECTED];
    out->root = record[B_ROOT];
    if (out->drafted > OTR_MAX_DRAFT || out->accepted > out->drafted ||
        out->n_tokens != out->accepted + 1)
        return context_fail(s->context, OTR_ERROR_DEVICE,
                            "the device wrote a damaged block record");
    if (s->verifying.n_chain)
        memcpy(out->probabilities, record + B_PROBABILITIES, out->drafted * sizeof(float));
    for (uint32_t i = 0; i < out->n_tokens; i++) {
        out->tokens[i] = (int32_t)record[B_TOKENS + i];
        if (record[B_TOKENS + i] >= s->target_model->h.n_vocab)
            return context_fail(s->context, OTR_ERROR_DEVICE, "the device sampled token %u of %u",
                                record[B_TOKENS + i], s->target_model->h.n_vocab);
    }
    if (record[B_NOT_FINITE])
        return context_fail(s->context, OTR_ERROR_FORMAT,
                            "the logits of '%s' are not finite: its weights may be damaged, or the "
                            "device computes wrongly (the self-test tells)",
                            s->target_model->name);
    out->total_ns = clock_ns() - start_ns;
    return OTR_OK;
}

otr_result verify_first(otr_session *s, block_result *out)
{
    uint64_t start = clock_ns();
    uint32_t *request = lane_request(s->target);
    submission *sub = &s->submission;

    *out = (block_result){0};
    s->verifying = (block_work){0};
    request[Q_OUT_FIRST] = (uint32_t)s->last_row;
    request[Q_OUT_ROWS] = 1;
    submission_clear(sub);
    if (!lane_add_begin(s->target, sub, BEGIN_GENERATE) ||
        !lane_add_begin(s->target, sub, BEGIN_OUTPUT) ||
        !lane_add_output(s->target, sub, PATH_ONE) || !lane_add_sample(s->target, sub) ||
        !submission_add(sub, s->accept[ACCEPT_FIRST], 0))
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a submission");
    otr_result result = submission_run(sub, &s->target->place, "the first token", &out->wait_ns);
    return result == OTR_OK ? finish(s, start, out) : result;
}

otr_result verify_start(otr_session *s, const block_work *work)
{
    uint32_t n_rows = work->n_chain + work->n_proposed + 1, *request = lane_request(s->target);
    enum lane_path path = n_rows > 1 ? PATH_ROWS : PATH_ONE;
    submission *sub = &s->submission;
    /* A chain on another queue goes before. */
    bool in_turn = work->n_chain && s->chain.last.semaphore;
    otr_result result;

    s->verifying = *work;
    s->verify_start_ns = clock_ns();
    request[Q_ROWS] = work->n_proposed;
    if (work->n_proposed)
        memcpy(request + Q_TOKENS, work->proposed, work->n_proposed * sizeof *request);
    if (in_turn) {
        result = chain_start_before_target(s, s->n_tokens - 1, work->n_chain);
        if (result != OTR_OK)
            return result;
    }
    submission_clear(sub);
    bool ok = submission_add(sub, s->stamp[STAMP_START], 0) &&
              (!in_turn || submission_wait_for(sub, s->chain.last)) &&
              (!work->n_chain || in_turn ||
               chain_add_steps(s, &s->draft->link, sub, s->n_tokens - 1, work->n_chain)) &&
              submission_add(sub, s->stamp[STAMP_VERIFY], 0) &&
              lane_add_begin(s->target, sub, work->n_proposed ? BEGIN_PROPOSED : BEGIN_VERIFY) &&
              lane_add_layers(s->target, sub, path) && lane_add_output(s->target, sub, path) &&
              lane_add_sample(s->target, sub) && (n_rows == 1 || verify_rule_add(s, sub)) &&
              submission_add(sub, s->accept[ACCEPT_BLOCK], 0) &&
              submission_add(sub, s->stamp[STAMP_END], 0);
    result = ok ? submission_start(sub, &s->target->place, "a block")
                : context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY,
                               "out of memory for a submission");
    if (result != OTR_OK && in_turn)
        chain_drain(s);
    return result;
}

static void read_stamps(const otr_session *s, block_result *out)
{
    uint64_t stamps[N_STAMPS];

    if (!s->stamps || s->gpu->vk.vkGetQueryPoolResults(s->gpu->device, s->stamps, 0, N_STAMPS,
                                                       sizeof stamps, stamps, sizeof stamps[0],
                                                       VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return;
    out->verify_ms = stamp_ms(s, stamps, STAMP_VERIFY, STAMP_END);
    if (s->verifying.n_chain)
        /* A chain on another queue may begin and end before the target's first stamp. */
        out->draft_ms = s->chain.last.semaphore ? (double)out->total_ns / 1e6 - out->verify_ms
                                                : stamp_ms(s, stamps, STAMP_START, STAMP_VERIFY);
}

otr_result verify_wait(otr_session *s, block_result *out)
{
    const block_work *work = &s->verifying;
    uint32_t old_root = s->n_tokens - 1;

    *out = (block_result){0};
    otr_result result = submission_wait(&s->target->place, "a block", &out->wait_ns);
    if (result == OTR_OK && work->n_chain)
        result = chain_end(s, &out->wait_ns); /* over long ago; its fence is used again */
    if (result == OTR_OK)
        result = finish(s, s->verify_start_ns, out);
    if (result != OTR_OK)
        return result;
    s->target->length = out->root;
    if (work->n_chain && out->drafted)
        s->draft->length = old_root + out->drafted;
    read_stamps(s, out);
    if (s->context->timestamps)
        context_log(s->context, OTR_LOG_INFO,
                    "block: %u drafted in %.3f ms, %u rows verified in %.3f ms", out->drafted,
                    out->draft_ms, out->drafted + 1, out->verify_ms);
    /* Without timestamps only the whole is known. */
    double whole_ms = (double)out->total_ns / 1e6;
    lane_pass_took(s->target, work->n_chain + work->n_proposed ? PATH_ROWS : PATH_ONE,
                   out->verify_ms > 0 ? out->verify_ms : whole_ms);
    if (work->n_chain && out->drafted)
        lane_pass_took(s->draft, PATH_ONE,
                       (out->draft_ms > 0 ? out->draft_ms : whole_ms) / out->drafted);
    return OTR_OK;
}

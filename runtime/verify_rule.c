/* Rejection sampling and block verification (verify_rule.h). */
#include "verify_rule.h"

#include "kernel_pool.h"
#include "record.h"
#include "session.h"

const char *otr_verify_string(otr_verify verify)
{
    static const char *const names[] = {
        [OTR_VERIFY_COUPLED] = "coupled",
        [OTR_VERIFY_REJECTION] = "rejection",
        [OTR_VERIFY_BLOCK] = "block",
    };
    return (unsigned)verify < sizeof names / sizeof names[0] ? names[verify] : "unknown";
}

void verify_rule_emit(const otr_session *s, VkCommandBuffer commands, uint32_t rule)
{
    const lane *target = s->target;
    const uint32_t push[] = {rule, target->model->h.n_vocab, target->logits_stride,
                             s->draft->logits_stride, NOISE_RESIDUAL};

    emit_output_rows(target, commands, s->rule.residual, s->rule.residual_set, push, sizeof push);
    emit_single(s->gpu, commands, s->rule.decide, s->rule.decide_set, &rule, sizeof rule);
}

static otr_result create(otr_session *s)
{
    const binding residual[] = {{&s->target->logits, 0, 0},
                                {&s->draft->logits, 0, 0},
                                {&s->target->words, 0, 0},
                                {&s->exchange.block, 0, 0}};
    verify_rule *r = &s->rule;
    otr_result result = kernel_get(s->gpu, "residual", &s->target->tuning.sample_lanes, 1, false,
                                   &r->residual);

    if (result == OTR_OK)
        result = kernel_get(s->gpu, "decide", NULL, 0, false, &r->decide);
    if (result == OTR_OK && !r->residual_set)
        result = lane_bind(s->target, residual, 4, &r->residual_set);
    if (result == OTR_OK && !r->decide_set)
        result = lane_bind(s->target, residual + 2, 2, &r->decide_set);
    for (uint32_t rule = 0; rule < N_RULES && result == OTR_OK; rule++) {
        VkCommandBuffer commands;
        result = record_begin(s->gpu, s->pool, "verification rule", &commands);
        if (result != OTR_OK)
            break;
        verify_rule_emit(s, commands, rule);
        result = record_end(s->gpu, commands, "verification rule");
        r->commands[rule] = commands;
    }
    return result;
}

static otr_result check(const otr_session *s, const otr_generate_params *p)
{
    const char *name = otr_verify_string(p->verify);

    if (p->drafters & OTR_DRAFTER_NGRAM)
        return context_fail(
            s->context, OTR_ERROR_UNSUPPORTED,
            "verification by '%s' compares with a draft model's probabilities, which "
            "the n-gram drafter doesn't have; use coupled verification with it",
            name);
    if (!s->draft)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "verification by '%s' compares with a draft model's probabilities, and "
                            "the session has no draft model",
                            name);
    if (p->schedule == OTR_SCHEDULE_PIPELINED)
        return context_fail(s->context, OTR_ERROR_UNSUPPORTED,
                            "verification by '%s' works with the serial schedule only; use coupled "
                            "verification with the pipelined one",
                            name);
    if (s->draft->gpu != s->gpu)
        return context_fail(
            s->context, OTR_ERROR_UNSUPPORTED,
            "verification by '%s' needs target and draft on one device; use coupled "
            "verification for two",
            name);
    if (!s->joined)
        return context_fail(
            s->context, OTR_ERROR_UNSUPPORTED,
            "verification by '%s' needs target and draft in one queue family, or a device with "
            "timeline semaphores; let the draft share the target's queue, or use coupled "
            "verification",
            name);
    return OTR_OK;
}

otr_result verify_rule_begin(otr_session *s, otr_generate_params *p)
{
    s->rule.verify = OTR_VERIFY_COUPLED;
    if (p->verify == OTR_VERIFY_COUPLED || p->draft_max == 0 || !(p->sampling.temperature > 0))
        return OTR_OK;
    otr_result result = check(s, p);
    if (result == OTR_OK && !s->rule.commands[N_RULES - 1])
        result = create(s);
    if (result != OTR_OK)
        return result;
    p->schedule = OTR_SCHEDULE_SERIAL;
    p->drafters = OTR_DRAFTER_MODEL;
    s->rule.verify = p->verify;
    return OTR_OK;
}

void verify_rule_write(const otr_session *s, const lane *l)
{
    bool is_draft = l == s->draft;
    uint32_t stream = NOISE_SHARED;

    if (s->rule.verify != OTR_VERIFY_COUPLED)
        stream = is_draft ? NOISE_DRAFT : NOISE_TARGET;
    else if (is_draft && s->context->independent_noise)
        stream = NOISE_DRAFT;
    lane_request(l)[Q_STREAM] = stream;
}

bool verify_rule_add(const otr_session *s, submission *sub)
{
    switch (s->rule.verify) {
    case OTR_VERIFY_COUPLED:
        break;
    case OTR_VERIFY_REJECTION:
        return submission_add(sub, s->rule.commands[RULE_REJECTION], 0);
    case OTR_VERIFY_BLOCK:
        return submission_add(sub, s->rule.commands[RULE_BLOCK], 0);
    }
    return true;
}

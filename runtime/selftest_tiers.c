/* The self-test of a device, tier by tier: its own first; where kernels of that fail, the next lower one,
 * until one passes. What passes is kept (tier_limit.h) and is what later contexts use. Behind
 * otr_selftest; `outrider selftest` prints what is reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftest.h"

const selftest_group selftest_groups[N_SELFTEST_GROUPS] = {selftest_weights, selftest_layer,
                                                           selftest_step, selftest_rule};

/* What came out at the device's own tier, and the highest that passes. */
typedef struct verdict {
    uint32_t n_failed, n_unfit;
    tier_limit limit;
} verdict;

/* All checks of the plan at one tier; OTR_OK when they could be made. */
static otr_result run_at_tier(otr_context *context, uint32_t device_index, int32_t tier,
                              otr_selftest_callback on_result, void *user,
                              const selftest_plan *plan, verdict *v)
{
    selftest *t = calloc(1, sizeof *t);
    otr_result result;

    if (!t)
        return context_fail(context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for the self-test");
    selftest_open_at_tier(t, context, device_index, tier, on_result, user);
    t->fault = plan->fault;
    for (size_t i = 0; i < plan->n_groups && t->result == OTR_OK; i++)
        plan->groups[i](t);
    if (t->is_refused) /* a tier that lacks a kernel fails, the rest of it unseen */
        selftest_report_refusal(t);
    *v = (verdict){.n_failed = t->n_failed, .n_unfit = t->n_unfit};
    memcpy(v->limit.kernel, t->first_failed, sizeof v->limit.kernel);
    selftest_free(t);
    result = t->result;
    free(t);
    return result;
}

/* The message of all of it, and what is kept. */
static otr_result conclude(otr_context *context, uint32_t device_index, const verdict *v)
{
    const otr_device_info *info = &context->devices[device_index];
    const tier_limit *limit = &v->limit;
    char outcome[160];

    /* Who wants tier 0 alone hasn't tested what the device does without it. */
    if (v->n_unfit == 0 && !context->force_tier0)
        tier_limit_remove(context, info);
    if (v->n_failed == 0)
        return OTR_OK;
    if (v->n_unfit == 0)
        snprintf(outcome, sizeof outcome, "of kernels that it does not use at tier %d",
                 (int)limit->failed_tier);
    else if (limit->tier < 0)
        snprintf(outcome, sizeof outcome, "and no tier passes: its results can't be trusted");
    else
        snprintf(outcome, sizeof outcome, "tier %d passes", (int)limit->tier);
    if (v->n_unfit > 0 && !context->force_tier0 && tier_limit_store(context, info, limit) &&
        limit->tier >= 0)
        snprintf(outcome, sizeof outcome,
                 "tier %d passes, and later runs use it at that tier at most", (int)limit->tier);
    return context_fail(context, OTR_ERROR_SELFTEST,
                        "device %u (%s): %u self-test check%s failed at tier %d, '%s' first; %s",
                        device_index, info->name, v->n_failed, v->n_failed > 1 ? "s" : "",
                        (int)limit->failed_tier, limit->kernel, outcome);
}

otr_result selftest_run(otr_context *context, uint32_t device_index,
                        otr_selftest_callback on_result, void *user, const selftest_plan *plan)
{
    const bool exists = device_index < context->n_devices; /* else opening it says so */
    int32_t tier = exists ? context->facts[device_index].full_tier : 0;
    verdict own;
    otr_result result = run_at_tier(context, device_index, tier, on_result, user, plan, &own);

    own.limit.failed_tier = tier;
    own.limit.tier = own.n_unfit ? -1 : tier;
    while (result == OTR_OK && own.limit.tier < 0 && tier > 0) {
        verdict lower;

        tier = device_lower_tier(context, &context->facts[device_index], tier);
        result = run_at_tier(context, device_index, tier, on_result, user, plan, &lower);
        if (result == OTR_OK && lower.n_unfit == 0)
            own.limit.tier = tier;
    }
    return result == OTR_OK ? conclude(context, device_index, &own) : result;
}

otr_result otr_selftest(otr_context *context, uint32_t device_index,
                        otr_selftest_callback on_result, void *user)
{
    const selftest_plan plan = {.groups = selftest_groups, .n_groups = N_SELFTEST_GROUPS};

    if (!context)
        return OTR_ERROR_INVALID_ARGUMENT;
    return selftest_run(context, device_index, on_result, user, &plan);
}

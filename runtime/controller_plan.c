/* Ways to run a block, and the best of them: controller_plan.h. */
#include "controller_plan.h"

#include "controller_times.h"

double plan_rate(const plan *p)
{
    return p->ms > 0 ? p->tokens / p->ms : 0;
}

double plan_block_ms(const controller *c, const plan *p, double whole, bool optimistic)
{
    double verify = times_target_ms(c, p->n_draft + 1, optimistic);

    if (p->drafter == DRAFTER_NGRAM)
        return verify;
    double chain = p->n_draft * controller_draft_ms(c);
    double ahead = chain + controller_draft_ms(c);
    if (p->schedule == SCHEDULE_SERIAL)
        return verify + chain;
    double shorter = ahead < verify ? ahead : verify;
    double together = ahead + verify - c->overlap * shorter;
    return whole * together + (1 - whole) * (chain + verify + (1 - c->overlap) * shorter);
}

chances plan_chances(const controller *c, enum drafter drafter, const controller_context *x)
{
    const calibration *k = &c->drafters[drafter].calibration;
    chances out;

    out.mean = calibration_mean(k);
    if (drafter == DRAFTER_NGRAM) {
        double of_band = calibration_of_band(k, calibration_match_band(x->ngram_match));
        /* The match tells about the first tokens, the position about the rest. */
        for (uint32_t i = 0; i < CONTROLLER_MAX_DRAFT; i++)
            out.at[i] = times_clamp(of_band * calibration_at(k, i) / out.mean, 0.001, 0.999);
        return out;
    }
    for (uint32_t i = 0; i < CONTROLLER_MAX_DRAFT; i++)
        out.at[i] = calibration_at(k, i);
    return out;
}

plan plan_best(const controller *c, enum drafter drafter, enum schedule schedule, const chances *a,
               uint32_t most, double extra_ms, bool optimistic)
{
    plan best = {.drafter = DRAFTER_NONE, .tokens = 1, .ms = times_plain_ms(c)};
    double survival = 1, tokens = 1;
    double start = plan_rate(&best);
    bool any = false;

    for (uint32_t k = 1; k <= most; k++) {
        survival *= a->at[k - 1];
        tokens += survival;
        plan p = {.drafter = drafter, .schedule = schedule, .n_draft = k, .tokens = tokens};
        p.ms = plan_block_ms(c, &p, survival * (k < CONTROLLER_MAX_DRAFT ? a->at[k] : a->mean),
                             optimistic) +
               extra_ms;
        if (!any ? plan_rate(&p) > start : plan_rate(&p) > plan_rate(&best)) {
            best = p;
            any = true;
        }
    }
    return best;
}

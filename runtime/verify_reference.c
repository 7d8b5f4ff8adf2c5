/* Reference of the rules of verification (verify_reference.h): Sun et al., arXiv:2403.10444, as the
 * head of shaders/residual.comp states it, and rejection sampling token by token. */
#include "verify_reference.h"

#include <math.h>

#include "philox.h"

static double p_of(const drafted_block *b, uint32_t row, uint32_t token)
{
    return (double)b->p[(uint64_t)row * b->stride + token];
}

static double q_of(const drafted_block *b, uint32_t row, uint32_t token)
{
    return (double)b->q[(uint64_t)row * b->stride + token];
}

double residual_weight(const drafted_block *b, const rule_outcome *outcome, uint32_t i,
                       uint32_t token)
{
    return fmax(outcome->scale[i] * p_of(b, i, token) - q_of(b, i, token), 0);
}

double residual_score(const drafted_block *b, const rule_outcome *outcome, uint32_t i,
                      uint32_t token, uint64_t seed, uint32_t root)
{
    double weight = residual_weight(b, outcome, i, token);

    if (!(weight > 0))
        return -INFINITY;
    return log(weight) +
           noise_gumbel(noise_word_of(seed, root + i + 1, token, NOISE_RESIDUAL, root));
}

double acceptance_number(uint64_t seed, uint32_t position, uint32_t root)
{
    return ((noise_word_of(seed, position, 0, NOISE_ACCEPT, root) >> 9) + 0.5) * 0x1p-23;
}

void verify_reference(uint32_t rule, const drafted_block *b, rule_outcome *out)
{
    double together = 1; /* w_i */

    out->scale[0] = 1;
    for (uint32_t i = 0; i < b->n; i++) {
        double ratio = p_of(b, i, b->tokens[i]) / q_of(b, i, b->tokens[i]);
        together = fmin(together * ratio, 1);
        out->chance[i] = fmin(ratio, 1);
        out->scale[i + 1] = rule == RULE_BLOCK ? together : 1;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        out->sum[i] = 0;
        for (uint32_t v = 0; v < b->n_vocab; v++)
            out->sum[i] += residual_weight(b, out, i, v);
    }
    if (rule != RULE_BLOCK)
        return;
    for (uint32_t i = 1; i < b->n; i++) {
        double miss = out->sum[i] + (1 - out->scale[i]);
        out->chance[i - 1] = miss > 0 ? out->sum[i] / miss : 1;
    }
    out->chance[b->n - 1] = together;
}

void reference_decide(uint32_t *target, const uint32_t *exchange, uint32_t rule)
{
    uint32_t drafted = exchange[X_DRAFTED], kept = 0, *chosen = target + LANE_RESULTS + R_TOKEN;

    for (uint32_t i = 0; i < drafted && (rule == RULE_BLOCK || kept == i); i++)
        if (exchange[X_PASSES + i])
            kept = i + 1;
    for (uint32_t i = 0; i < kept; i++)
        chosen[i] = exchange[X_TOKENS + 1 + i];
    if (kept < drafted)
        chosen[kept] = exchange[X_RESIDUALS + kept];
}

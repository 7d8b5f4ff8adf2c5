/* Verification by the ratio of probabilities in double precision: what shaders/residual.comp computes, and
 * the decision of shaders/decide.comp. For the self-test and for tests. */
#ifndef OUTRIDER_VERIFY_REFERENCE_H
#define OUTRIDER_VERIFY_REFERENCE_H

#include <stdint.h>

#include "step_state.h"

/* A block: n drafted tokens, n + 1 rows of the target's probabilities and n of the draft's. */
typedef struct drafted_block {
    uint32_t n, n_vocab, stride;
    const float *p, *q;     /* [row][stride] */
    const uint32_t *tokens; /* [n] */
} drafted_block;

typedef struct rule_outcome {
    double chance[MAX_ROWS]; /* that drafted token i + 1 passes its test */
    double scale[MAX_ROWS];  /* of the target's probabilities in the residual behind i tokens */
    double sum[MAX_ROWS];    /* of that residual, before it is normalised */
} rule_outcome;

void verify_reference(uint32_t rule, const drafted_block *block, rule_outcome *out);
/* Of a token in the residual behind i tokens, not normalised. */
double residual_weight(const drafted_block *block, const rule_outcome *outcome, uint32_t i,
                       uint32_t token);
/* The logarithm of that with its noise, by which the residual's token is drawn; -INFINITY: it has no weight. */
double residual_score(const drafted_block *block, const rule_outcome *outcome, uint32_t i,
                      uint32_t token, uint64_t seed, uint32_t root);
/* The number in (0, 1) under whose chance the token drafted for a position passes its test. */
double acceptance_number(uint64_t seed, uint32_t position, uint32_t root);
/* decide.comp, in place, on buffers as step_state.h lays them out. */
void reference_decide(uint32_t *target, const uint32_t *exchange, uint32_t rule);

#endif

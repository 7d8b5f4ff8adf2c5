/* What a block of a drafter, schedule and length is expected to bring and to take. Part of the
 * controller (controller.h). */
#ifndef OUTRIDER_CONTROLLER_PLAN_H
#define OUTRIDER_CONTROLLER_PLAN_H

#include "controller.h"

/* A way to run the next block. */
typedef struct plan {
    enum drafter drafter;
    enum schedule schedule;
    uint32_t n_draft;
    double tokens, ms;
} plan;

typedef struct chances {
    double at[CONTROLLER_MAX_DRAFT]; /* of each token, those before it accepted */
    double mean;
} chances;

/* Tokens a ms. */
double plan_rate(const plan *p);
/* Time of a block whose chance of full acceptance, with the guess of the bonus token, is `whole`: with
 * an overlap of 1 and pipelined it is whole max(v, (K + 1) c) + (1 - whole) (v + K c).
 * optimistic: about row counts never measured. */
double plan_block_ms(const controller *c, const plan *p, double whole, bool optimistic);
chances plan_chances(const controller *c, enum drafter drafter, const controller_context *x);
/* The best K, 1 to `most`, of a drafter and schedule, with extra_ms on top of each block. n_draft 0:
 * none is better than plain decoding. */
plan plan_best(const controller *c, enum drafter drafter, enum schedule schedule, const chances *a,
               uint32_t most, double extra_ms, bool optimistic);

#endif

/* The draft-length decision: before each block, which drafter, which schedule and how many tokens,
 * or none. Pure arithmetic: times come from the caller, nothing is allocated, the same calls give
 * the same decisions. Called by generate.c and by the simulator; DESIGN section 6.
 *
 *     controller_init(&c, &params);
 *     loop: controller_decide(&c, &context, &decision); run it; controller_record(&c, &decision,
 *           &outcome);
 *
 * What is promised: whatever the drafters do, the whole time is at most 1 + loss_share times that of
 * plain decoding, plus one block, for a plain time and costs of catching up as measured. */
#ifndef OUTRIDER_CONTROLLER_H
#define OUTRIDER_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "calibration.h"

#define CONTROLLER_MAX_DRAFT CALIBRATION_POSITIONS
#define CONTROLLER_MAX_ROWS (CONTROLLER_MAX_DRAFT + 1)
#define CONTROLLER_BANDS CALIBRATION_BANDS

enum drafter {
    DRAFTER_NONE, /* plain decoding */
    DRAFTER_MODEL,
    DRAFTER_NGRAM,
    N_DRAFTERS,
};

enum schedule {
    SCHEDULE_SERIAL,
    SCHEDULE_PIPELINED, /* the next block is drafted while this one is verified */
    N_SCHEDULES,
};

/* Why a decision is what it is. */
enum decision_reason {
    REASON_PAYS,       /* speculation, expected to gain most */
    REASON_READY,      /* speculation: the block was drafted ahead */
    REASON_PROBE,      /* speculation, to see whether it pays again */
    REASON_EXPLORE,    /* speculation with a row count never measured */
    REASON_PLAIN_TIME, /* plain, to measure plain decoding */
    REASON_NO_GAIN,    /* plain: no K is expected to gain */
    REASON_BUDGET,     /* plain: the loss so far allows no more */
    REASON_NO_ROOM,    /* plain: the context or the wanted tokens end */
    REASON_NO_DRAFTER, /* plain: nothing proposes */
    N_DECISION_REASONS,
};
const char *decision_reason_string(enum decision_reason reason);

typedef struct controller_params {
    bool drafters[N_DRAFTERS];   /* which there are; DRAFTER_NONE is ignored */
    bool schedules[N_SCHEDULES]; /* which are allowed, for the draft model; one at least */
    bool stops_early;            /* the device obeys decision.stop */
    uint32_t max_draft;          /* 1..16 */
    double loss_share;           /* of plain time that may be lost: 0.02 */
    /* Before anything is measured: bytes of the draft's weights / of the target's; 0: unknown. */
    double cost_prior;
    double overlap; /* 0: what runs together takes the sum of the times, 1: the longer one */
} controller_params;

controller_params controller_params_default(void);

/* Everything that is known before a block. */
typedef struct controller_context {
    uint32_t max_draft;   /* room in the context, tokens still wanted - 1; more than 16 is fine */
    uint32_t draft_lag;   /* positions that the draft's cache lacks before its next step's row */
    uint32_t n_ahead;     /* tokens that the draft has ready for this block (pipelined) */
    uint32_t n_ngram;     /* tokens that the n-gram drafter proposes, 0..16 */
    uint32_t ngram_match; /* length of its match */
    bool new_character;   /* a new turn, a code fence, a repeated n-gram: probe again soon */
} controller_context;

typedef struct controller_decision {
    enum drafter drafter;
    enum schedule schedule;
    enum decision_reason reason;
    uint32_t n_draft; /* K; 0 without a drafter */
    uint32_t n_next;  /* K of the block that is drafted ahead, when pipelined */
    /* Rows by which the draft's cache is brought up to date first: draft_lag, or fewer when only
     * the end of the text is affordable; then the draft's cache begins there. 0: nothing to do. */
    uint32_t catch_up_rows;
    /* For the early stop: the chance of acceptance for each band of the draft's probability
     * (calibration_band), and the survival under which the chain ends after its token i. 0: never. */
    float band_acceptance[CONTROLLER_BANDS];
    float stop[CONTROLLER_MAX_DRAFT];
    uint32_t ngram_match;    /* of the context, for controller_record */
    double expected_speedup; /* over plain decoding */
} controller_decision;

/* What a block did. Times in ms; 0: not known. */
typedef struct controller_outcome {
    uint32_t drafted, accepted;
    const float *probabilities; /* [drafted]: the draft's own, of its tokens; NULL: unknown */
    double total_ms;            /* everything since the last block's end */
    double catch_up_ms;         /* part of it */
    double draft_ms;            /* the chain before verification; 0 where it was ready */
    double verify_ms;           /* the target's pass, with what ran beside it */
    double n_steps_ahead;       /* draft steps that ran beside it */
} controller_outcome;

/* ------------------------------------------------------------------------- its state, to look at */

typedef struct measured_time {
    double ms;
    double n;        /* passes, with forgetting */
    double variance; /* of one pass, relative */
} measured_time;

typedef struct drafter_state {
    calibration calibration;
    bool on;
    uint64_t n_blocks, n_probes;
    uint32_t interval;    /* blocks from one probe to the next while off */
    uint32_t waited;      /* blocks since the last one with this drafter */
    uint32_t probe_draft; /* K of the next probe; 0: the usual */
} drafter_state;

typedef struct controller {
    controller_params params;
    measured_time target[CONTROLLER_MAX_ROWS]; /* [rows - 1] */
    measured_time draft;                       /* a step */
    measured_time catch_up;                    /* a row */
    double prefill_row_ms;                     /* of the target; a prior for the draft's */
    double overlap;
    drafter_state drafters[N_DRAFTERS];
    double run_ms, loss_ms; /* loss: against plain decoding, gains subtracted */
    double largest_block_ms;
    uint64_t n_blocks, n_tokens, n_drafter_tokens, n_reasons[N_DECISION_REASONS];
    uint32_t since_plain, since_explored; /* blocks */
    uint32_t explored[CONTROLLER_MAX_ROWS];
} controller;

void controller_init(controller *c, const controller_params *params);
void controller_decide(controller *c, const controller_context *context,
                       controller_decision *decision);
void controller_record(controller *c, const controller_decision *decision,
                       const controller_outcome *outcome);
/* The target's prefill, part of the run: n_rows in so many ms. */
void controller_record_prefill(controller *c, uint32_t n_rows, double ms);
/* A pass measured elsewhere, such as when the session began. */
void controller_record_pass(controller *c, uint32_t n_rows, double ms);
void controller_record_draft_step(controller *c, double ms);

/* Estimates, for statistics and --verbose. */
double controller_target_ms(const controller *c, uint32_t n_rows);
double controller_draft_ms(const controller *c);
double controller_acceptance(const controller *c, enum drafter drafter);
/* What may still be lost. */
double controller_budget_ms(const controller *c);

#endif

/* Layout of the GPU buffers that carry everything that changes from step to step: one lane buffer
 * per lane, one exchange buffer per session, the host's request and the block record. Shared word
 * for word with the shaders (this file is C and GLSL). Offsets are in 32-bit words.
 *
 * lane buffer:  [state 64][results 64][args 128 x 4][grid 128 x 4][history n_ctx + 32]
 *   state    read by kernels through a uniform buffer; written only by begin.comp
 *   results  tokens (and the probability of each) that sample.comp chose for each output row
 *   args     indirect dispatch arguments, written by begin.comp from the grid table
 *   grid     static: how the argument of each dispatch follows from the row count
 *   history  token id at each position
 * A row's token is history[base + row]; its output, if any, is at position base + row + 1. Positions
 * in the exchange buffer and the block record are absolute. */
#ifndef OUTRIDER_STEP_STATE_H
#define OUTRIDER_STEP_STATE_H

#define STATE_WORDS 64
#define LANE_RESULTS 64
#define LANE_ARGS 128
#define LANE_GRID 640
#define LANE_HISTORY 1152
#define MAX_GRIDS 128
#define MAX_ROWS 17        /* of a pass through the 1..17-row kernels */
#define QUANTISED_BLOCK 32 /* activations that share a scale on tier 2 */
#define QUANTISED_WORDS 12 /* of a block */
#define ATTENTION_PAGE 32  /* positions that attention weighs at a time */

/* state words */
#define S_BASE 0      /* position of row 0 in the lane, counted from its origin */
#define S_ROWS 1      /* rows of this pass; 0: the pass does nothing */
#define S_OUT_FIRST 2 /* row whose output is output row 0 */
#define S_OUT_ROWS 3  /* rows with logits (at most MAX_ROWS) */
#define S_ORIGIN                                                                                   \
    4 /* absolute position of the lane's first: a draft may see only the end of a text */
#define S_SEED_LOW 8 /* sampling: 8..15 */
#define S_SEED_HIGH 9
#define S_TEMPERATURE 10 /* float bits; 0: greedy */
#define S_TOP_K 11       /* 0: off */
#define S_TOP_P 12       /* float bits; >= 1: off */
#define S_MIN_P 13       /* float bits; <= 0: off */
#define S_PENALTY 14     /* float bits; 1: off */
#define S_LAST_N 15      /* penalty window in tokens; 0: off; at most 512 */
#define S_STREAM 16      /* NOISE_*: what the choice of a token is drawn with */
#define S_BLOCK 17       /* X_ROOT of the block, so that no two blocks draw the same; 0: none */
#define S_KEEP 18        /* row of logits that the first output row's probabilities replace */

/* Streams of random numbers. With NOISE_SHARED target and draft see the same noise, and nothing
 * depends on the block (coupled verification). The others are for verification by the ratio of
 * probabilities, which needs them independent; there sample.comp also leaves each row's probabilities
 * behind. */
#define NOISE_SHARED 0
#define NOISE_TARGET 1   /* the target's own choice of each row */
#define NOISE_DRAFT 2    /* the draft's choice */
#define NOISE_RESIDUAL 3 /* the choice that corrects a miss */
#define NOISE_ACCEPT 4   /* whether a drafted token is accepted */

/* results, from LANE_RESULTS */
#define R_TOKEN 0 /* [MAX_ROWS] */
/* [MAX_ROWS] float bits: chance of that token among the kept ones; 0: no logit was finite, or one
 * was infinite */
#define R_PROBABILITY 24

/* grid table entry and argument: 4 words each */
#define G_X 0      /* workgroups in x */
#define G_Z 1      /* workgroups in z (folded x; see workgroup_index), or positions of each */
#define G_Y_ROWS 2 /* rows of one workgroup in y; 0: always one */
/* Bit 0: 0 counts S_ROWS, 1 S_OUT_ROWS; bit 1: z goes over the cached positions, G_Z each; from
 * G_TILE_SHIFT: rows of a tile, or 0. */
#define G_SOURCE 3
/* A dispatch with a tile takes part only where its tile fits: tiles of TILE_MAIN cover the rows from
 * the first on, and the least tile that holds them those that are left. A few rows more than tiles of
 * TILE_MAIN cover share the unpacked weights of the last of these: 17 rows are a tile of 8 and one of
 * 10. */
#define G_TILE_SHIFT 8
#define TILE_MAIN 8
#define TILES 12, 10, 8, 6, 4, 2, 1 /* all of them */
#define N_TILES 7
#define MAIN_TILES(n) ((n) < 9u ? 0u : ((n) + 3u) / 8u - 1u) /* leaves 1 to 12 */
#define TILE_OF(left)                                                                              \
    ((left) > 10u  ? 12u                                                                           \
     : (left) > 8u ? 10u                                                                           \
     : (left) > 6u ? 8u                                                                            \
     : (left) > 4u ? 6u                                                                            \
     : (left) > 2u ? 4u                                                                            \
                   : (left))

/* exchange buffer */
#define X_WORDS 128
#define X_ROOT 0    /* position of the last token given out, the first input of the next block */
#define X_DRAFTED 1 /* tokens drafted so far in this block */
#define X_DONE 2    /* not 0: this chain has ended early */
#define X_N_STOPS 3 /* stop token ids that end a draft */
#define X_TOKENS 4  /* [MAX_ROWS]: root token, then the drafted ones */
#define X_PROBABILITIES 24 /* [MAX_ROWS]: the draft's own, of drafted token i at [i - 1] */
#define X_STOPS 44         /* [X_MAX_STOPS] */
#define X_MAX_STOPS 16
#define X_SURVIVAL 60 /* float bits: expected chance that all tokens of the chain are accepted */
/* From residual.comp to decide.comp: */
#define X_PASSES 64    /* [MAX_ROWS]: not 0: drafted token i + 1 passes the rule's test */
#define X_RESIDUALS 88 /* [MAX_ROWS]: the token that follows when just i of them are kept */

/* request: written by the host before a submission */
#define Q_BASE 0
#define Q_ROWS 1
#define Q_OUT_FIRST 2
#define Q_OUT_ROWS 3
#define Q_ORIGIN 4   /* S_ORIGIN */
#define Q_ROOT 5     /* X_ROOT of a chain */
#define Q_CANCEL 6   /* not 0: the rest of a chain does nothing; may be set while it runs */
#define Q_STREAM 7   /* S_STREAM (BEGIN_GENERATE) */
#define Q_SAMPLING 8 /* the 8 words of S_SEED_LOW.. */
#define Q_STOPS 16   /* n, then X_MAX_STOPS ids */
/* The early stop of a chain (controller.h): chance of acceptance in each band of the draft's own
 * probability, and the survival under which the chain ends after its token i. */
#define Q_BANDS 33    /* [CALIBRATION_BANDS] float bits */
#define Q_SURVIVAL 41 /* [OTR_MAX_DRAFT] float bits; 0: goes on in any case */
#define Q_TOKENS 64   /* token ids of the rows, or drafted tokens to verify */

/* block record: read by the host after a block (at most 256 bytes) */
#define B_WORDS 64
#define B_DRAFTED 0
#define B_ACCEPTED 1
#define B_EMITTED 2
#define B_ROOT 3       /* position of the new root */
#define B_NOT_FINITE 4 /* not 0: a row given out had no finite logit to choose */
#define B_REJECTED 5   /* the drafted token that was not accepted, ~0: all were */
#define B_TOKENS 8     /* [MAX_ROWS] */
#define B_PROBABILITIES 28

/* begin.comp modes */
#define BEGIN_REQUEST 0  /* rows, positions and tokens from the request (prefill, evaluation) */
#define BEGIN_OUTPUT 1   /* only the output rows change: the request's out_first and out_rows */
#define BEGIN_CHAIN 2    /* as BEGIN_REQUEST; the last row's token is the root of a new chain */
#define BEGIN_DRAFT 3    /* next step of the draft's chain */
#define BEGIN_VERIFY 4   /* the target's pass over root and drafted tokens */
#define BEGIN_PROPOSED 5 /* the same; the drafted tokens, Q_ROWS of them, are in the request */
#define BEGIN_GENERATE 6 /* sampling parameters and stops from the request */
#define N_BEGIN_MODES 7

/* accept.comp modes */
#define ACCEPT_FIRST 0 /* the token sampled after a prefill becomes the root */
#define ACCEPT_BLOCK 1
#define N_ACCEPT_MODES 2

/* rules of verification by the ratio of probabilities (residual.comp, decide.comp) */
#define RULE_REJECTION 0
#define RULE_BLOCK 1
#define N_RULES 2

#endif

/* Layout of the GPU buffers that carry everything that changes from step to step: one lane buffer
 * per lane, one exchange buffer per session, the host's request and the block record. Shared word
 * for word with the shaders (this file is C and GLSL). Offsets are in 32-bit words.
 *
 * lane buffer:  [state 64][results 64][args 128 x 4][grid 128 x 4][history n_ctx + 32]
 *   state    read by kernels through a uniform buffer; written only by begin.comp
 *   results  tokens (and the probability of each) that sample.comp chose for each output row
 *   args     indirect dispatch arguments, written by begin.comp from the grid table
 *   grid     static: how the argument of each dispatch follows from the row count
 *   history  token id at each absolute position
 * A row's token is history[base + row]; its output, if any, is at position base + row + 1. */
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
#define S_BASE 0      /* absolute position of row 0 */
#define S_ROWS 1      /* rows of this pass; 0: the pass does nothing */
#define S_OUT_FIRST 2 /* row whose output is output row 0 */
#define S_OUT_ROWS 3  /* rows with logits (at most MAX_ROWS) */
#define S_LENGTH 4    /* positions [0, length) of the lane's cache are valid */
#define S_SEED_LOW 8  /* sampling: 8..15 */
#define S_SEED_HIGH 9
#define S_TEMPERATURE 10 /* float bits; 0: greedy */
#define S_TOP_K 11       /* 0: off */
#define S_TOP_P 12       /* float bits; >= 1: off */
#define S_MIN_P 13       /* float bits; <= 0: off */
#define S_PENALTY 14     /* float bits; 1: off */
#define S_LAST_N 15      /* penalty window in tokens; 0: off; at most 512 */

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
#define X_WORDS 64
#define X_ROOT 0    /* position of the last token given out, the first input of the next block */
#define X_DRAFTED 1 /* tokens drafted so far in this block */
#define X_DONE 2    /* not 0: this block's draft has ended early */
#define X_N_STOPS 3 /* stop token ids that end a draft */
#define X_TOKENS 4  /* [MAX_ROWS]: root token, then the drafted ones */
#define X_PROBABILITIES 24 /* [MAX_ROWS]: the draft's own, of drafted token i at [i - 1] */
#define X_STOPS 44         /* [X_MAX_STOPS] */
#define X_MAX_STOPS 16

/* request: written by the host before a submission */
#define Q_BASE 0
#define Q_ROWS 1
#define Q_OUT_FIRST 2
#define Q_OUT_ROWS 3
#define Q_LENGTH 4   /* valid positions of the lane's cache (BEGIN_GENERATE) */
#define Q_SAMPLING 8 /* the 8 words of S_SEED_LOW.. */
#define Q_STOPS 16   /* n, then X_MAX_STOPS ids */
#define Q_TOKENS 64  /* token ids of the rows of a prefill */

/* block record: read by the host after a block (at most 256 bytes) */
#define B_WORDS 64
#define B_DRAFTED 0
#define B_ACCEPTED 1
#define B_EMITTED 2
#define B_ROOT 3         /* position of the new root */
#define B_DRAFT_LENGTH 4 /* valid cache positions of the draft lane */
#define B_NOT_FINITE 5   /* not 0: a row given out had no finite logit to choose */
#define B_TOKENS 8       /* [MAX_ROWS] */
#define B_PROBABILITIES 28

/* begin.comp modes */
#define BEGIN_REQUEST 0  /* rows, positions and tokens from the request (prefill, evaluation) */
#define BEGIN_OUTPUT 1   /* only the output rows change: the request's out_first and out_rows */
#define BEGIN_DRAFT 2    /* next step of the draft's chain */
#define BEGIN_VERIFY 3   /* the target's pass over root and drafted tokens */
#define BEGIN_GENERATE 4 /* cache length, sampling parameters and stops from the request */
#define N_BEGIN_MODES 5

/* accept.comp modes */
#define ACCEPT_FIRST 0 /* the token sampled after a prefill becomes the root */
#define ACCEPT_BLOCK 1
#define N_ACCEPT_MODES 2

#endif

/* A lane: one model with its KV cache, scratch buffers, step state and recorded work.
 *
 * Commands are recorded once, at creation; everything that changes from step to step lives in the
 * lane buffer (step_state.h), so a step is a list of command buffers for the session to submit.
 * lane.c owns memory and submission lists, transformer.c says what the passes do, record.c records
 * them. Threads: a lane belongs to one session and is used by one thread at a time. */
#ifndef OUTRIDER_LANE_H
#define OUTRIDER_LANE_H

#include "attention.h"
#include "model.h"
#include "step_state.h"
#include "submission.h"
#include "tuning.h"

/* How the rows of a pass are computed. */
enum lane_path {
    PATH_ONE,     /* one row, where the host knows that: decoding, drafting */
    PATH_ROWS,    /* 1..MAX_ROWS rows, as many as the device finds: verification */
    PATH_PREFILL, /* up to prefill_rows rows, tiled kernels */
    N_PATHS,
};

/* One dispatch of a pass. */
typedef struct operation {
    VkPipeline pipeline[N_PATHS]; /* VK_NULL_HANDLE: not part of that path */
    uint32_t grid[N_PATHS];       /* entries of the grid table */
    VkDescriptorSet set;
    uint32_t push[KERNEL_PUSH_BYTES / 4];
    uint32_t n_push; /* words */
    enum operation_kind kind;
    bool waits; /* for the writes of the operations before it */
} operation;

/* Operations [first, end) that are recorded and submitted as one unit. */
typedef struct operation_group {
    uint32_t first, end;
    VkCommandBuffer commands[N_PATHS];
} operation_group;

/* Commands of a lane that read and write an exchange buffer. */
typedef struct lane_link {
    VkDescriptorSet begin_set, propose_set;
    VkCommandBuffer begin[N_BEGIN_MODES]; /* by BEGIN_* mode */
    VkCommandBuffer propose;              /* ends a draft step */
} lane_link;

typedef struct lane {
    otr_model *model;
    gpu *gpu;
    work_place place;
    tuning tuning; /* shapes of the kernels */
    uint32_t n_ctx;
    uint32_t prefill_rows; /* room for so many rows in a PATH_PREFILL pass */
    uint32_t chunk_rows;   /* rows that such a pass takes: fewer where a layer took too long */

    gpu_buffer words;   /* the lane buffer: state, results, arguments, grids, history */
    gpu_buffer request; /* Q_TOKENS + prefill_rows words, written by the host */
    otr_cache_type cache_type;
    gpu_buffer k_cache, v_cache; /* [layer][position][kv words], see shaders/attention.comp */
    uint64_t layer_cache_bytes;  /* from one layer to the next in each */
    gpu_buffer angles;           /* [position][rope pairs] of (cos, sin) */
    gpu_buffer x, normed, qkv, attended, gate_up, gated, logits;
    gpu_buffer quantised;   /* tier 2: input of the next matrices, in blocks of quantise.comp */
    gpu_buffer logits_host; /* MAX_ROWS rows, read by the host in evaluation */
    uint32_t attention_counters_at; /* words before the counters in attended */
    uint32_t logits_stride;         /* floats between rows of logits */

    VkDescriptorPool descriptors;
    VkCommandPool pool;
    operation *operations;
    uint32_t n_operations, capacity;
    uint32_t n_grids;
    uint32_t grids[MAX_GRIDS][4];

    operation_group embed;   /* token embeddings of the rows */
    operation_group *layers; /* [model layers] */
    operation_group output;  /* final norm and head, for the step's output rows */
    operation_group sample;
    VkPipeline begin_pipeline, propose_pipeline; /* record.c */
    lane_link link;                              /* to the exchange that it was created with */
    VkCommandBuffer copy_logits;
    uint32_t dispatches_one_row; /* of a PATH_ONE pass, embed to sample */

    /* The cache holds positions [origin, length) of the text. Only a draft's may begin behind the
     * text's start. */
    uint32_t origin, length;
    double layer_ms[N_PATHS]; /* measured time of a layer in the last pass; 0: not known */
} lane;

typedef struct lane_params {
    const tuning *tuning;
    uint32_t n_ctx, prefill_rows;
    uint32_t queue; /* of the model's gpu */
    otr_cache_type cache_type;
} lane_params;

/* exchange: X_WORDS, on the model's gpu. */
otr_result lane_create(otr_model *model, const lane_params *params, const gpu_buffer *exchange,
                       lane **out);
void lane_destroy(lane **l);

/* ------------------------------------------------------------------ for transformer.c */

typedef struct binding {
    const gpu_buffer *buffer;
    uint64_t offset, range; /* range 0: to the end */
} binding;

/* Entry of the grid table for x workgroups (folded into z where needed) and, in y, one workgroup
 * for each rows_per_y rows (0: one in all) of the step's rows or output rows. tile: 0, or the
 * dispatch takes part only where tiles of so many rows do (step_state.h), and y counts tiles. */
uint32_t lane_grid(lane *l, uint32_t x, uint32_t rows_per_y, bool output_rows, uint32_t tile);
/* The same with z over the positions up to the step's last, `split` to each workgroup. */
uint32_t lane_grid_positions(lane *l, uint32_t x, uint32_t rows_per_y, uint32_t split);
/* How attention is done in a path. */
attention_plan lane_attention_plan(const lane *l, enum lane_path path);
/* Descriptor set with up to KERNEL_STORAGE_BUFFERS buffers and the step state. */
otr_result lane_bind(lane *l, const binding *bindings, uint32_t n, VkDescriptorSet *set);
/* Appends an operation (copied). */
otr_result lane_add(lane *l, const operation *op);

/* Builds all operations of the model: fills embed, layers, output and sample. */
otr_result transformer_build(lane *l);
/* Descriptor sets that transformer_build needs at most. */
uint32_t transformer_n_sets(const otr_model *model);

/* ---------------------------------------------------------------------- for session.c */

/* Appends begin (a BEGIN_* mode), the layers, and what comes after them to a submission. */
bool lane_add_begin(const lane *l, submission *s, uint32_t mode);
bool lane_add_layers(const lane *l, submission *s, enum lane_path path); /* embeddings and layers */
/* Logits of the output rows; PATH_ONE when there is one. */
bool lane_add_output(const lane *l, submission *s, enum lane_path path);
bool lane_add_sample(const lane *l, submission *s);
/* One step of the draft's chain, begin (BEGIN_CHAIN or BEGIN_DRAFT) to propose; PATH_ONE where there
 * is one row. */
bool lane_add_draft_step(const lane *l, const lane_link *link, submission *s, uint32_t mode,
                         enum lane_path path);
/* Copies the output rows' logits to logits_host. */
bool lane_add_copy_logits(const lane *l, submission *s);

/* The request that begin.comp will read: Q_TOKENS + prefill_rows words. */
uint32_t *lane_request(const lane *l);
/* Tells the lane how long a pass over all layers took, so that later ones are cut in time. */
void lane_pass_took(lane *l, enum lane_path path, double ms);

#endif

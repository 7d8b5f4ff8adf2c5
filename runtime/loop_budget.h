/* The budget of loop iterations. Mesa's software driver gives an invocation 65,535 iterations,
 * shared by all its loops, and then ends each loop without a word (measured: Debian 12's
 * Mesa 22.3.6, whose results are wrong from there on; SwiftShader and GPUs have no such limit). So
 * lane_create refuses, on software devices, what could come near it.
 *
 * One function per kernel whose work grows with a model or a context: iterations of one invocation,
 * with only those inner loops taken as unrolled whose length is fixed and short.
 * tests/runtime/test_kernels.c runs the kernels at these limits. */
#ifndef OUTRIDER_LOOP_BUDGET_H
#define OUTRIDER_LOOP_BUDGET_H

#include "attention.h"
#include "cooperative.h"
#include "model.h"
#include "tuning.h"

#define LOOP_BUDGET 60000u

/* Of a whole context, cut into the plan's parts. */
uint64_t loops_of_attention(const attention_plan *plan, uint64_t n_positions);
/* n_chunks: of a row of weights (weight.n_chunks), chunk: weights of each (repack_info.chunk).
 * matvec: MAX_ROWS rows, `lanes` that share a row. */
uint64_t loops_of_direct(uint64_t n_chunks, uint32_t chunk);
uint64_t loops_of_matvec(uint64_t n_chunks, uint32_t lanes);
uint64_t loops_of_matmul(const tuning *t, uint64_t n_chunks, uint32_t chunk);
uint64_t loops_of_cooperative(const cooperative_sizes *sizes, uint64_t n_chunks, uint32_t chunk);
uint64_t loops_of_rmsnorm(const tuning *t, uint64_t n);
uint64_t loops_of_sample(const tuning *t, uint64_t n_vocab);

/* OTR_ERROR_UNSUPPORTED, and a message with what would be possible, when a kernel of the model with
 * this context could go over the budget of its device. */
otr_result loop_budget_check(const otr_model *model, const tuning *t, uint32_t n_ctx);
/* Whether shapes that are chosen by measuring leave room for every model, not just for the one that
 * was measured. */
bool loop_budget_allows(const tuning *t);

#endif

/* The two forms of `outrider eval`, and what they share. eval.c reads the options and the input,
 * perplexity.c and logits.c do the work. */
#ifndef OUTRIDER_APPS_EVAL_H
#define OUTRIDER_APPS_EVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* Window of a perplexity when none is given. */
#define EVAL_DEFAULT_WINDOW 512

struct eval_settings {
    const char *model, *file, *prompt, *ids, *device;
    otr_cache_type cache_type;
    int64_t n_predict; /* -1: not given */
    int64_t rows;      /* of a pass of the decoding kernels; 0: the prefill's kernels */
    int64_t n_ctx;     /* 0: not given */
    bool json, quiet, validation;
};

/* Both print their result and return an exit code. */
int eval_perplexity(engine *e, const struct eval_settings *settings, const int32_t *ids,
                    size_t n_ids);
/* *ids grows by the greedy continuation. */
int eval_logits(engine *e, const struct eval_settings *settings, int32_t **ids, size_t n_ids);

/* ln of the sum of exp, in double precision; NaN when a logit isn't finite. */
double eval_logsumexp(const float *logits, uint32_t n);
/* After a callback that ended an evaluation because of such a logit; an exit code. */
int eval_fail_not_finite(engine *e);
otr_evaluate_params eval_params(const struct eval_settings *settings);

#endif

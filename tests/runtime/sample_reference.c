/* Reference of shaders/sample.comp in double precision (sample_reference.h). Sorts where the kernel
 * walks histograms. */
#include "sample_reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "philox.h"

#define MAX_WINDOW 512

typedef struct candidate {
    float logit;
    uint32_t id;
    bool infinite;
} candidate;

/* Higher logit first, then lower id. */
static int by_rank(const void *a, const void *b)
{
    const candidate *x = a;
    const candidate *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void penalise(float *logits, uint32_t n_vocab, const uint32_t *history, uint32_t position,
                     const sample_settings *settings)
{
    if (!(settings->penalty > 0) || settings->penalty == 1)
        return;
    uint32_t n = settings->last_n < MAX_WINDOW ? settings->last_n : MAX_WINDOW;
    if (n > position + 1)
        n = position + 1;
    bool *seen = calloc(n_vocab, sizeof *seen);
    ck_assert_ptr_nonnull(seen);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t token = history[position - i];
        if (token >= n_vocab || seen[token])
            continue;
        seen[token] = true;
        float *logit = &logits[token];
        *logit = *logit > 0 ? *logit / settings->penalty : *logit * settings->penalty;
    }
    free(seen);
}

/* Candidates in rank order; those that can't be chosen are left out. */
static uint32_t rank(const float *logits, uint32_t n_vocab, candidate *out)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < n_vocab; id++) {
        float logit = logits[id];
        if (isnan(logit) || logit == -INFINITY)
            continue;
        out[n].infinite = logit == INFINITY;
        out[n].logit = out[n].infinite ? 0x1.fffffep127f : logit;
        out[n++].id = id;
    }
    qsort(out, n, sizeof *out, by_rank);
    return n;
}

static void near_cut(sample_outcome *out, double distance)
{
    if (distance > 0 && distance < out->cut_distance)
        out->cut_distance = distance;
}

static uint32_t cut_top_k(const candidate *c, uint32_t n, uint32_t top_k, sample_outcome *out)
{
    if (top_k == 0 || top_k >= n)
        return n;
    near_cut(out, (double)c[top_k - 1].logit - c[top_k].logit);
    return top_k;
}

static uint32_t cut_top_p(const candidate *c, uint32_t n, float top_p, sample_outcome *out)
{
    if (!(top_p < 1))
        return n;
    double total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += exp((double)c[i].logit - c[0].logit);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double before = sum;
        sum += exp((double)c[i].logit - c[0].logit) / total;
        if (sum >= top_p) {
            if (i > 0)
                near_cut(out, fabs(top_p - before) + 1e-30);
            if (i + 1 < n)
                near_cut(out, fabs(sum - top_p) + 1e-30);
            return i + 1;
        }
    }
    out->cut_distance = 1e-30;
    return n;
}

static uint32_t cut_min_p(const candidate *c, uint32_t n, float min_p, sample_outcome *out)
{
    if (!(min_p > 0))
        return n;
    double lowest = c[0].logit + fmin(log(min_p), 0);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (c[i].logit != c[0].logit)
            near_cut(out, fabs(c[i].logit - lowest) + 1e-30);
        kept += c[i].logit >= lowest;
    }
    return kept;
}

static void choose(const candidate *c, uint32_t n, uint32_t position,
                   const sample_settings *settings, sample_outcome *out, double *probabilities)
{
    bool greedy = !(settings->temperature > 0);
    double temperature = greedy ? 1 : settings->temperature;
    double best = -INFINITY;
    double second = -INFINITY;
    double total = 0;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < n; i++) {
        double below = (double)c[i].logit - c[0].logit;
        double scaled = below == 0 ? 0 : below / temperature;
        double score = greedy ? c[i].logit
                              : scaled + noise_gumbel(noise_word_of(settings->seed, position + 1,
                                                                    c[i].id, settings->stream,
                                                                    settings->block));
        total += exp(scaled);
        if (score > best) {
            second = best;
            best = score;
            chosen = i;
        } else if (score > second && !(greedy && score == best)) {
            second = score;
        }
    }
    out->token = c[chosen].id;
    out->margin = best - second;
    out->n_kept = n;
    double below = (double)c[chosen].logit - c[0].logit;
    out->probability = (below == 0 ? 1 : exp(below / temperature)) / total;
    if (c[chosen].infinite)
        out->probability = 0; /* as accept.comp is told that a model is damaged */
    if (probabilities == NULL)
        return;
    for (uint32_t i = 0; i < n; i++) {
        below = (double)c[i].logit - c[0].logit;
        probabilities[c[i].id] = (below == 0 ? 1 : exp(below / temperature)) / total;
    }
}

void sample_reference(const float *logits, uint32_t n_vocab, const uint32_t *history,
                      uint32_t position, const sample_settings *settings, sample_outcome *out,
                      double *probabilities)
{
    float *own = malloc(n_vocab * sizeof *own);
    candidate *c = malloc(n_vocab * sizeof *c);
    ck_assert_ptr_nonnull(own);
    ck_assert_ptr_nonnull(c);
    memcpy(own, logits, n_vocab * sizeof *own);
    if (probabilities != NULL)
        for (uint32_t id = 0; id < n_vocab; id++)
            probabilities[id] = 0;
    *out = (sample_outcome){.margin = INFINITY, .cut_distance = INFINITY};

    penalise(own, n_vocab, history, position, settings);
    uint32_t n = rank(own, n_vocab, c);
    if (n > 0) {
        if (settings->temperature > 0) {
            n = cut_top_k(c, n, settings->top_k, out);
            n = cut_top_p(c, n, settings->top_p, out);
            n = cut_min_p(c, n, settings->min_p, out);
        }
        choose(c, n, position, settings, out, probabilities);
    }
    free(c);
    free(own);
}

/* Reference of shaders/sample.comp in double precision, for tests and with the noise of philox.h.
 * It also says how near each decision was, since a device in single precision may decide near ties
 * otherwise. */
#ifndef OUTRIDER_SAMPLE_REFERENCE_H
#define OUTRIDER_SAMPLE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

typedef struct sample_settings {
    uint64_t seed;
    float temperature;
    uint32_t top_k;
    float top_p, min_p;
    float penalty;
    uint32_t last_n;
    uint32_t stream, block; /* of the noise: NOISE_*; 0: shared */
} sample_settings;

typedef struct sample_outcome {
    uint32_t token;
    double probability; /* among the kept tokens, after temperature; greedy: of the whole row */
    double margin; /* between the best and the second best perturbed logit; INFINITY: no second */
    /* The least distance of a cut from including or excluding another token: logits for top-k and
     * min-p, probability for top-p. Equal logits are ordered by id and count as no distance at all.
     */
    double cut_distance;
    uint32_t n_kept;
} sample_outcome;

/* history[0..position] is the context; the chosen token stands at position + 1. probabilities: of
 * every token, [n_vocab], or NULL. */
void sample_reference(const float *logits, uint32_t n_vocab, const uint32_t *history,
                      uint32_t position, const sample_settings *settings, sample_outcome *out,
                      double *probabilities);

#endif

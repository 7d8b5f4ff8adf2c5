/* From a drafter's confidence to the chance that its token is accepted: Beta counts with forgetting,
 * in bands of confidence and by position in the block. Part of the controller. */
#ifndef OUTRIDER_CALIBRATION_H
#define OUTRIDER_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "calibration_bands.h"

#define CALIBRATION_POSITIONS 16

typedef struct calibration {
    double hits, tries;               /* all together */
    double recent_hits, recent_tries; /* the last twenty, to see a change */
    double band_hits[CALIBRATION_BANDS], band_tries[CALIBRATION_BANDS];
    double at_hits[CALIBRATION_POSITIONS], at_tries[CALIBRATION_POSITIONS];
} calibration;

/* Band of a draft model's probability, or of an n-gram's match. */
uint32_t calibration_band(float probability);
uint32_t calibration_match_band(uint32_t match);

/* A drafted token that was checked: all before it were accepted. band is CALIBRATION_BANDS where
 * the confidence is not known. True when it shows that the acceptance has changed: most of what
 * was known is then forgotten. */
bool calibration_add(calibration *c, uint32_t position, uint32_t band, bool hit);

/* Chances given that all tokens before were accepted. Without data a prior. */
double calibration_mean(const calibration *c);
double calibration_of_band(const calibration *c, uint32_t band);
double calibration_at(const calibration *c, uint32_t position);
/* How much of the variance of acceptance the bands explain, 0..1. */
double calibration_information(const calibration *c);
/* Mean of the better half of what was seen, by band. */
double calibration_upper_mean(const calibration *c);

#endif

/* Calibration of a drafter's confidence (calibration.h). A band, and a position, begins with the
 * mean of all as its prior, so that a confidence that says nothing costs little. */
#include "calibration.h"

#include <math.h>

/* Before any data: a draft that was worth loading agrees more often than not. */
#define PRIOR_HITS 2.0
#define PRIOR_TRIES 3.0
/* Weight of the mean of all in a band and at a position. */
#define BAND_PRIOR 8.0
#define POSITION_PRIOR 40.0
/* What a token leaves of the counts before it: means over about 200, 50 and 20 tokens. */
#define KEEP 0.995
#define KEEP_POSITION 0.98
#define KEEP_RECENT 0.95
/* Deviations, and tokens, that make a change. */
#define CHANGE_DEVIATIONS 3.0
#define CHANGE_TRIES 5.0
#define KEPT_AFTER_CHANGE 0.1

static const float band_limits[CALIBRATION_BANDS - 1] = {CALIBRATION_LIMITS};
static const uint32_t match_limits[CALIBRATION_BANDS - 1] = {3, 4, 5, 6, 8, 12, 20};

uint32_t calibration_band(float probability)
{
    uint32_t band = 0;
    while (band < CALIBRATION_BANDS - 1 && probability >= band_limits[band])
        band++;
    return band;
}

uint32_t calibration_match_band(uint32_t match)
{
    uint32_t band = 0;
    while (band < CALIBRATION_BANDS - 1 && match >= match_limits[band])
        band++;
    return band;
}

static void scale(calibration *c, double by)
{
    c->hits *= by;
    c->tries *= by;
    for (int i = 0; i < CALIBRATION_BANDS; i++) {
        c->band_hits[i] *= by;
        c->band_tries[i] *= by;
    }
}

static void scale_positions(calibration *c, double by)
{
    for (int i = 0; i < CALIBRATION_POSITIONS; i++) {
        c->at_hits[i] *= by;
        c->at_tries[i] *= by;
    }
}

/* The last dozen against all before, as two proportions. */
static bool has_changed(const calibration *c)
{
    double old_tries = c->tries - c->recent_tries, old_hits = c->hits - c->recent_hits;

    if (c->recent_tries < CHANGE_TRIES || old_tries < 2 * CHANGE_TRIES)
        return false;
    double pooled = (c->hits + 0.5) / (c->tries + 1);
    double deviation = sqrt(pooled * (1 - pooled) * (1 / c->recent_tries + 1 / old_tries));
    double difference = c->recent_hits / c->recent_tries - old_hits / old_tries;
    return fabs(difference) > CHANGE_DEVIATIONS * deviation;
}

bool calibration_add(calibration *c, uint32_t position, uint32_t band, bool hit)
{
    scale(c, KEEP);
    c->tries++;
    c->hits += hit;
    c->recent_tries = c->recent_tries * KEEP_RECENT + 1;
    c->recent_hits = c->recent_hits * KEEP_RECENT + hit;
    if (band < CALIBRATION_BANDS) {
        c->band_tries[band]++;
        c->band_hits[band] += hit;
    }
    if (position < CALIBRATION_POSITIONS) {
        c->at_tries[position] = c->at_tries[position] * KEEP_POSITION + 1;
        c->at_hits[position] = c->at_hits[position] * KEEP_POSITION + hit;
    }
    if (!has_changed(c))
        return false;
    scale(c, KEPT_AFTER_CHANGE);
    scale_positions(c, KEPT_AFTER_CHANGE);
    c->hits += c->recent_hits;
    c->tries += c->recent_tries;
    return true;
}

double calibration_mean(const calibration *c)
{
    return (c->hits + PRIOR_HITS) / (c->tries + PRIOR_TRIES);
}

double calibration_of_band(const calibration *c, uint32_t band)
{
    double mean = calibration_mean(c);
    if (band >= CALIBRATION_BANDS)
        return mean;
    return (c->band_hits[band] + BAND_PRIOR * mean) / (c->band_tries[band] + BAND_PRIOR);
}

double calibration_at(const calibration *c, uint32_t position)
{
    double mean = calibration_mean(c);
    if (position >= CALIBRATION_POSITIONS)
        return mean;
    return (c->at_hits[position] + POSITION_PRIOR * mean) /
           (c->at_tries[position] + POSITION_PRIOR);
}

double calibration_information(const calibration *c)
{
    double mean = calibration_mean(c), sum = 0, tries = 0;

    for (uint32_t i = 0; i < CALIBRATION_BANDS; i++) {
        double difference = calibration_of_band(c, i) - mean;
        sum += c->band_tries[i] * difference * difference;
        tries += c->band_tries[i];
    }
    return tries > 0 ? sum / tries / (mean * (1 - mean)) : 0;
}

double calibration_upper_mean(const calibration *c)
{
    double tries = 0, sum = 0, left;

    for (int i = 0; i < CALIBRATION_BANDS; i++)
        tries += c->band_tries[i];
    if (tries <= 0)
        return calibration_mean(c);
    left = tries / 2;
    /* Confidence orders the bands. */
    for (int i = CALIBRATION_BANDS - 1; i >= 0 && left > 0; i--) {
        double taken = c->band_tries[i] < left ? c->band_tries[i] : left;
        sum += taken * calibration_of_band(c, (uint32_t)i);
        left -= taken;
    }
    return sum / (tries / 2);
}

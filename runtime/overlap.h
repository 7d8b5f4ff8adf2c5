/* What runs at once when target and draft work together, measured. */
#ifndef OUTRIDER_OVERLAP_H
#define OUTRIDER_OVERLAP_H

#include "session.h"

#define OVERLAP_STEPS 4                  /* of the draft */
#define OVERLAP_ROWS (OVERLAP_STEPS + 1) /* of the target: verification of as many */
#define OVERLAP_ROOM 8                   /* positions of the context that measuring needs */

enum { OVERLAP_TARGET, OVERLAP_DRAFT, OVERLAP_TOGETHER, OVERLAP_CASES };

/* Results of single measurements, the oldest first. */
#define OVERLAP_MAX_ROUNDS 5
typedef struct overlap_rounds {
    uint32_t n;
    double seconds[OVERLAP_MAX_ROUNDS][OVERLAP_CASES];
} overlap_rounds;

/* For a session that has a draft and room. overlap_measure is otr_session_measure_overlap: several
 * rounds, which are kept (overlap_file.h). overlap_learn adds one round to those that are kept, so that
 * a session begins sooner, and one measurement on a busy machine is soon outvoted. */
otr_result overlap_measure(otr_session *s, otr_overlap *out);
otr_result overlap_learn(otr_session *s, otr_overlap *out);
/* Of their medians. */
void overlap_of_rounds(const overlap_rounds *rounds, otr_overlap *out);

#endif

/* What runs at once when target and draft work together, measured. */
#ifndef OUTRIDER_OVERLAP_H
#define OUTRIDER_OVERLAP_H

#include "session.h"

#define OVERLAP_STEPS 4                  /* of the draft */
#define OVERLAP_ROWS (OVERLAP_STEPS + 1) /* of the target: verification of as many */
#define OVERLAP_ROOM 8                   /* positions of the context that measuring needs */

/* otr_session_measure_overlap for a session that has a draft and room. */
otr_result overlap_measure(otr_session *s, otr_overlap *out);

#endif

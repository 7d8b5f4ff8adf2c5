/* What overlap_measure found, on disk: a file in the cache folder for each pair of models on their
 * devices and queues, so that a session need not measure it again within a day. A file that is older,
 * damaged, or of another driver or build counts as none. */
#ifndef OUTRIDER_OVERLAP_FILE_H
#define OUTRIDER_OVERLAP_FILE_H

#include "session.h"

/* For a session with a draft. False: there is none. */
bool overlap_file_load(const otr_session *s, otr_overlap *out);
/* A failure is logged and has no other consequence. */
void overlap_file_store(const otr_session *s, const otr_overlap *overlap);

#endif

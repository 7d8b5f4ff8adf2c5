/* The pipeline cache on disk: one file per device, driver and build. Used by gpu_open and
 * gpu_close. A file that is missing, damaged or of another driver is ignored; failing to write is a
 * warning. */
#ifndef OUTRIDER_PIPELINE_CACHE_H
#define OUTRIDER_PIPELINE_CACHE_H

#include "device.h"

/* Creates g->pipeline_cache from the file, or empty. */
otr_result pipeline_cache_load(gpu *g);
/* Writes it through a temporary file and rename, when g->cache_is_dirty. A failure is logged: as an
 * error when the disk is full, else as a warning. */
void pipeline_cache_store(gpu *g);

#endif

/* What otr_tune found, on disk: a file beside the pipeline cache for each device, driver and class
 * of kernels. Read by gpu_open, written by otr_tune. A file that is damaged, of another driver or
 * build, or asks for what otr_tune could not have chosen is ignored with a warning. */
#ifndef OUTRIDER_TUNING_FILE_H
#define OUTRIDER_TUNING_FILE_H

#include "device.h"

/* The stored tuning, or that of the class. */
tuning tuning_file_load(gpu *g);
/* A failure is OTR_ERROR_IO, and whatever was there before stays. try: only finds out whether it
 * could be done. */
otr_result tuning_file_store(gpu *g, const tuning *t, bool try);
/* *existed: whether there was one. */
otr_result tuning_file_remove(gpu *g, bool *existed);

#endif

/* A log callback that keeps what it was told, for tests of messages; from any thread. */
#ifndef OUTRIDER_TEST_CAPTURE_H
#define OUTRIDER_TEST_CAPTURE_H

#include <pthread.h>

#include "outrider/outrider.h"

typedef struct capture {
    pthread_mutex_t lock;
    size_t length;
    char text[65536]; /* "level message" lines, level as a digit */
} capture;

void capture_start(capture *c);
void capture_log(otr_log_level level, const char *message, void *user);
bool capture_has(capture *c, const char *text);

/* A context that logs everything to `c`; cache_dir as in otr_context_params. Fails the test if it
 * can't be created. */
otr_context *capture_context(capture *c, bool validation, const char *cache_dir);

#endif

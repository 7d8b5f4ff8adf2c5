/* Messages on stderr, exit codes, and the library's log.
 *
 * Used by every subcommand. An error is one line, `outrider: ...`, whatever bytes the file names in
 * it hold. The library both logs an error and returns it; a log_sink holds it back until the caller
 * has decided what it means, so that it is printed once, or not at all after a Ctrl-C. */
#ifndef OUTRIDER_APPS_MESSAGE_H
#define OUTRIDER_APPS_MESSAGE_H

#include <pthread.h>
#include <stdbool.h>

#include <outrider/outrider.h>

/* Documented in `outrider --help`. */
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1,      /* device, memory or output error, a failed self-test */
    EXIT_CODE_USAGE = 2,       /* unknown or impossible options */
    EXIT_CODE_INPUT = 3,       /* a file or prompt that can't be used */
    EXIT_CODE_NO_DEVICE = 4,   /* no Vulkan, or no device that can be used */
    EXIT_CODE_SIGNAL = 128,    /* + the signal's number: 130 after Ctrl-C */
    EXIT_CODE_NO_READER = 141, /* what read our output closed it */
};
extern const char exit_codes_help[];

enum exit_code exit_code_of(otr_result result);

/* Prints one line and returns the code, so that callers `return fail(...)`. */
int fail(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_memory(void);
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef struct log_sink {
    pthread_mutex_t lock; /* the library may log from several threads */
    char *held;           /* the newest error, not printed yet; malloc'ed */
    bool quiet;           /* no warnings */
} log_sink;

void log_sink_init(log_sink *sink, bool quiet);
/* Parameters of a context that logs to the sink. With OUTRIDER_DEBUG set information is logged too.
 */
otr_context_params log_sink_context_params(log_sink *sink, bool validation);
/* Prints an error still held back; true when there was one. */
bool log_sink_flush(log_sink *sink);
void log_sink_free(log_sink *sink);
/* Both, at the end of a command: an error of the clean-up itself, such as a full disk for the pipeline
 * cache, makes EXIT_CODE_FAILED of EXIT_CODE_OK. */
int log_sink_close(log_sink *sink, int code);
/* An otr_log_callback; user is the log_sink. */
void log_sink_write(otr_log_level level, const char *message, void *user);
/* Prints the detail of a failed call and returns its exit code. context may be NULL when it is
 * otr_context_create that failed. OTR_ERROR_CANCELLED prints nothing. */
int fail_result(log_sink *sink, const otr_context *context, otr_result result);

#endif

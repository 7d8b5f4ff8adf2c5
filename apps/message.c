/* Messages on stderr, exit codes, and the library's log: see message.h. */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "text.h"

const char exit_codes_help[] = "Exit codes:\n"
                               "  0    success\n"
                               "  1    the device, memory or writing the output failed, or a "
                               "self-test did\n"
                               "  2    wrong options\n"
                               "  3    a file, model or prompt that can't be used\n"
                               "  4    no Vulkan, or no device that can be used\n"
                               "  130  stopped by Ctrl-C (143: by SIGTERM)\n"
                               "  141  the reader of the output went away\n";

static const enum exit_code result_codes[] = {
    [OTR_OK] = EXIT_CODE_OK,
    [OTR_ERROR_INVALID_ARGUMENT] = EXIT_CODE_USAGE,
    [OTR_ERROR_OUT_OF_MEMORY] = EXIT_CODE_FAILED,
    [OTR_ERROR_IO] = EXIT_CODE_INPUT,
    [OTR_ERROR_FORMAT] = EXIT_CODE_INPUT,
    [OTR_ERROR_UNSUPPORTED] = EXIT_CODE_INPUT,
    [OTR_ERROR_NO_VULKAN] = EXIT_CODE_NO_DEVICE,
    [OTR_ERROR_NO_DEVICE] = EXIT_CODE_NO_DEVICE,
    [OTR_ERROR_DEVICE] = EXIT_CODE_FAILED,
    [OTR_ERROR_DEVICE_LOST] = EXIT_CODE_FAILED,
    [OTR_ERROR_TIMEOUT] = EXIT_CODE_FAILED,
    [OTR_ERROR_VOCABULARY] = EXIT_CODE_INPUT,
    [OTR_ERROR_CONTEXT_FULL] = EXIT_CODE_INPUT,
    [OTR_ERROR_CANCELLED] = EXIT_CODE_FAILED,
    [OTR_ERROR_SELFTEST] = EXIT_CODE_FAILED,
};

enum exit_code exit_code_of(otr_result result)
{
    if ((size_t)result >= sizeof(result_codes) / sizeof(result_codes[0]))
        return EXIT_CODE_FAILED;
    return result_codes[result];
}

/* One write per line, so that lines of several threads don't mix. */
static void print_line(const char *prefix, const char *message)
{
    text line = {0};

    text_printf(&line, "outrider: %s", prefix);
    text_append_printable(&line, message, strlen(message), 0);
    text_append(&line, "\n", 1);
    if (line.failed)
        fputs("outrider: out of memory\n", stderr);
    else
        fwrite(line.data, 1, line.n, stderr);
    text_free(&line);
}

static void print_formatted(const char *prefix, const char *format, va_list list)
{
    char message[2048];

    vsnprintf(message, sizeof(message), format, list);
    print_line(prefix, message);
}

int fail(enum exit_code code, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print_formatted("", format, list);
    va_end(list);
    return code;
}

int fail_memory(void)
{
    return fail(EXIT_CODE_FAILED, "out of memory");
}

void say_warning(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    print_formatted("warning: ", format, list);
    va_end(list);
}

void log_sink_init(log_sink *sink, bool quiet)
{
    *sink = (log_sink){.quiet = quiet};
    pthread_mutex_init(&sink->lock, NULL);
}

otr_context_params log_sink_context_params(log_sink *sink, bool validation)
{
    otr_context_params params = otr_context_params_default();
    const char *debug = getenv("OUTRIDER_DEBUG");

    params.log = log_sink_write;
    params.log_user = sink;
    params.log_level = debug && *debug ? OTR_LOG_INFO : OTR_LOG_WARNING;
    params.validation = validation;
    return params;
}

bool log_sink_flush(log_sink *sink)
{
    bool had_error;

    pthread_mutex_lock(&sink->lock);
    had_error = sink->held != NULL;
    if (sink->held)
        print_line("", sink->held);
    free(sink->held);
    sink->held = NULL;
    pthread_mutex_unlock(&sink->lock);
    return had_error;
}

void log_sink_free(log_sink *sink)
{
    log_sink_flush(sink);
    pthread_mutex_destroy(&sink->lock);
}

int log_sink_close(log_sink *sink, int code)
{
    if (log_sink_flush(sink) && code == EXIT_CODE_OK)
        code = EXIT_CODE_FAILED;
    log_sink_free(sink);
    return code;
}

void log_sink_write(otr_log_level level, const char *message, void *user)
{
    log_sink *sink = user;

    if (level != OTR_LOG_ERROR) {
        if (!sink->quiet)
            print_line(level == OTR_LOG_WARNING ? "warning: " : "", message);
        return;
    }
    log_sink_flush(sink);
    pthread_mutex_lock(&sink->lock);
    sink->held = strdup(message);
    pthread_mutex_unlock(&sink->lock);
}

int fail_result(log_sink *sink, const otr_context *context, otr_result result)
{
    char message[1024] = "";

    if (context)
        otr_error_message(context, message, sizeof(message));
    pthread_mutex_lock(&sink->lock);
    if (!message[0] && sink->held)
        snprintf(message, sizeof(message), "%s", sink->held);
    /* The library logged what it returned: drop that copy, keep an unrelated message. */
    if (sink->held &&
        (result == OTR_ERROR_CANCELLED || strncmp(sink->held, message, sizeof(message) - 1) == 0)) {
        free(sink->held);
        sink->held = NULL;
    }
    pthread_mutex_unlock(&sink->lock);
    log_sink_flush(sink);
    if (result == OTR_ERROR_CANCELLED)
        return interrupt_signal() ? EXIT_CODE_SIGNAL + interrupt_signal() : EXIT_CODE_FAILED;
    print_line("", message[0] ? message : otr_result_string(result));
    return exit_code_of(result);
}

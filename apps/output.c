/* Standard output, with every write error noticed: see output.h. */
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "message.h"
#include "text.h"

/* errno of the first failed write to standard output. */
static int first_error;

static bool note(bool succeeded)
{
    if (!succeeded && !first_error)
        first_error = errno ? errno : EIO;
    return !first_error;
}

bool output_write(const char *bytes, size_t n)
{
    errno = 0;
    return note(fwrite(bytes, 1, n, stdout) == n);
}

bool output_printf(const char *format, ...)
{
    va_list list;
    int n;

    errno = 0;
    va_start(list, format);
    n = vprintf(format, list);
    va_end(list);
    return note(n >= 0);
}

bool output_flush(void)
{
    errno = 0;
    return note(fflush(stdout) == 0);
}

bool output_json(json_t *value)
{
    /* 9 digits give a float back exactly. */
    char *dump = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_free_t free_dump;

    json_decref(value);
    if (!dump) {
        fail_memory();
        return false;
    }
    output_write(dump, strlen(dump));
    output_write("\n", 1);
    json_get_alloc_funcs(NULL, &free_dump);
    free_dump(dump);
    return true;
}

int output_finish(int code)
{
    output_flush();
    if (!first_error)
        return code;
    if (first_error == EPIPE)
        return EXIT_CODE_NO_READER;
    return fail(EXIT_CODE_FAILED, "can't write to standard output: %s", strerror(first_error));
}

json_t *json_text(const char *bytes, size_t n)
{
    text clean = {0};
    json_t *value = NULL;

    text_append_utf8(&clean, bytes, n);
    if (!clean.failed)
        value = json_stringn(text_string(&clean), clean.n);
    text_free(&clean);
    return value;
}

/* Text that the user gives: see input.h. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "utf8.h"

/* More than any context holds; keeps /dev/zero from eating the memory. */
#define MAX_INPUT_BYTES (256u << 20)

int input_check(const char *source, const text *t)
{
    size_t at = utf8_find_invalid(text_string(t), t->n);

    if (t->failed)
        return fail_memory();
    if (at < t->n)
        return fail(EXIT_CODE_INPUT, "%s: invalid UTF-8 at byte %zu (0x%02x); convert it to UTF-8",
                    source, at, (unsigned char)t->data[at]);
    return EXIT_CODE_OK;
}

int input_file(const char *path, text *t)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *source = is_stdin ? "standard input" : path;
    char buffer[65536];
    int code = EXIT_CODE_OK;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

    /* A pipe without a writer waits here. */
    if (fd < 0 && errno == EINTR && interrupt_signal())
        return EXIT_CODE_SIGNAL + interrupt_signal();
    if (fd < 0)
        return fail(EXIT_CODE_INPUT, "can't open '%s': %s", path, strerror(errno));
    for (;;) {
        ssize_t n = read(fd, buffer, sizeof(buffer));

        if (interrupt_signal()) {
            code = EXIT_CODE_SIGNAL + interrupt_signal();
            break;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            code = fail(EXIT_CODE_INPUT, "can't read %s: %s", source, strerror(errno));
            break;
        }
        if (n == 0) {
            code = input_check(source, t);
            break;
        }
        if (t->n + (size_t)n > MAX_INPUT_BYTES) {
            code = fail(EXIT_CODE_INPUT, "%s is larger than %u MiB; give a shorter text", source,
                        MAX_INPUT_BYTES >> 20);
            break;
        }
        text_append(t, buffer, (size_t)n);
    }
    if (!is_stdin)
        close(fd);
    return code;
}

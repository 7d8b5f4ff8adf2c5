/* Report files: see report_file.h. */
#include "report_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message.h"
#include "output.h"

/* About the size of a small report. */
#define TRIAL_BYTES 65536

static int fail_write(const char *path)
{
    return fail(EXIT_CODE_FAILED, "can't write '%s': %s", path, strerror(errno));
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        n -= (size_t)written;
    }
    return true;
}

/* There, and neither a plain file nor missing. */
static bool is_special(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && !S_ISREG(about.st_mode);
}

static int write_special(const char *path, const char *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int code = EXIT_CODE_OK;

    if (fd < 0)
        return fail_write(path);
    if (!write_all(fd, bytes, n))
        code = fail_write(path);
    if (close(fd) != 0 && !code)
        code = fail_write(path);
    return code;
}

/* keeps: rename it; otherwise it is only a trial. */
static int write_plain(const char *path, const char *bytes, size_t n, bool keeps)
{
    char *real = realpath(path, NULL), *temporary = NULL; /* a link stays one */
    const char *final = real ? real : path;
    int fd = -1, code = EXIT_CODE_OK;
    bool written;

    if (asprintf(&temporary, "%s.%ld.part", final, (long)getpid()) < 0) {
        free(real);
        return fail_memory();
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        code = fail_write(path);
        goto done;
    }
    written = write_all(fd, bytes, n) && fsync(fd) == 0;
    if (close(fd) != 0 || !written)
        code = fail_write(path);
    else if (keeps && rename(temporary, final) != 0)
        code = fail_write(path);
    if (code || !keeps)
        unlink(temporary);
done:
    free(temporary);
    free(real);
    return code;
}

int report_file_check(const char *path)
{
    char *zeros;
    int code;

    if (!path || strcmp(path, "-") == 0)
        return EXIT_CODE_OK;
    if (is_special(path)) {
        struct stat about;

        if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
            errno = EISDIR;
            return fail_write(path);
        }
        return access(path, W_OK) == 0 ? EXIT_CODE_OK : fail_write(path);
    }
    zeros = calloc(1, TRIAL_BYTES);
    code = zeros ? write_plain(path, zeros, TRIAL_BYTES, false) : fail_memory();
    free(zeros);
    return code;
}

/* What stands before the name; the folder in `about`. False when there is none. */
static bool find_folder(const char *path, struct stat *about)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    bool found = folder && stat(folder, about) == 0;

    free(folder);
    return found;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Both there and the same plain file, or both missing and the same name in the same folder. */
static bool is_same_file(const char *path, const char *other)
{
    struct stat a, b;
    bool is_there = stat(path, &a) == 0;

    if (is_there != (stat(other, &b) == 0))
        return false;
    if (is_there && !S_ISREG(a.st_mode))
        return false;
    if (!is_there && (strcmp(name_of(path), name_of(other)) != 0 || !find_folder(path, &a) ||
                      !find_folder(other, &b)))
        return false;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int report_file_check_apart(const char *path, const char *const *others, size_t n)
{
    if (!path || strcmp(path, "-") == 0)
        return EXIT_CODE_OK;
    for (size_t i = 0; i < n; i++)
        if (others[i] && is_same_file(path, others[i]))
            return fail(EXIT_CODE_USAGE,
                        "can't write '%s': that would replace a file that is read, or another "
                        "report",
                        path);
    return EXIT_CODE_OK;
}

int report_file_write(const char *path, const text *t)
{
    if (t->failed)
        return fail_memory();
    if (strcmp(path, "-") == 0)
        return output_write(text_string(t), t->n) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
    return is_special(path) ? write_special(path, text_string(t), t->n)
                            : write_plain(path, text_string(t), t->n, true);
}

/* Report files, written whole or not at all.
 *
 * Used by measure, compare and run (--trace). The bytes go to a temporary file in the same folder, which takes the
 * name's place once they are all on the disk; what isn't a plain file (a pipe, /dev/stdout) is written
 * directly. */
#ifndef OUTRIDER_APPS_REPORT_FILE_H
#define OUTRIDER_APPS_REPORT_FILE_H

#include <stddef.h>

#include "text.h"

/* Before long work: tries that a file could be written there, and that the disk has some room. An exit
 * code, with a message. NULL and "-" (standard output) are fine. */
int report_file_check(const char *path);
/* Before long work: refuses a path that is one of n other files, read or written beside it; NULL among
 * them is passed over. An exit code, with a message. */
int report_file_check_apart(const char *path, const char *const *others, size_t n);
/* An exit code, with a message; the old file stays when the new one can't be written. "-": standard
 * output. */
int report_file_write(const char *path, const text *t);

#endif

/* Text that the user gives: a file, standard input, or an option.
 *
 * Used by run and eval, before any model is loaded, so that a mistake is told at once. */
#ifndef OUTRIDER_APPS_INPUT_H
#define OUTRIDER_APPS_INPUT_H

#include "text.h"

/* Reads a whole file, "-" for standard input, and checks that it is UTF-8. Returns an exit code;
 * EXIT_CODE_OK when *t holds the text. */
int input_file(const char *path, text *t);
/* Checks a text that came from `source`, which the message names. */
int input_check(const char *source, const text *t);

#endif

/* Standard output, with every write error noticed.
 *
 * Used by every subcommand. The first failure is remembered; output_finish turns it into a message
 * and an exit code, so that a full disk never looks like success. */
#ifndef OUTRIDER_APPS_OUTPUT_H
#define OUTRIDER_APPS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Both return false once a write has failed. */
bool output_write(const char *bytes, size_t n);
bool output_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool output_flush(void);
/* Prints the value as one line and frees it. NULL, or no memory to print it: false and a message.
 */
bool output_json(json_t *value);
/* Last call of a subcommand: flushes, and returns `code`, or the code of a failed write. A reader
 * that went away is no message. */
int output_finish(int code);

/* JSON string of untrusted bytes: what isn't UTF-8 becomes U+FFFD. NULL when memory runs out. */
json_t *json_text(const char *bytes, size_t n);

#endif

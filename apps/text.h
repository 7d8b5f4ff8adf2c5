/* Growing text, and untrusted bytes made safe to print.
 *
 * Used by every subcommand: prompts are unescaped here, and whatever comes from a file
 * (names, metadata, error texts that quote them) passes through text_append_printable before it
 * reaches a terminal. A text whose memory ran out keeps `failed` set; callers check it once, at the
 * end, instead of after every append. */
#ifndef OUTRIDER_APPS_TEXT_H
#define OUTRIDER_APPS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct text {
    char *data; /* NUL-terminated once something was appended, NULL before */
    size_t n, capacity;
    bool failed; /* out of memory: the content is incomplete */
} text;

void text_append(text *t, const char *bytes, size_t n);
void text_printf(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(text *t);
/* The content, "" when nothing was appended. */
const char *text_string(const text *t);

/* Appends s with every byte that isn't part of a UTF-8 character replaced by U+FFFD. */
void text_append_utf8(text *t, const char *s, size_t n);

enum printable_flags {
    PRINTABLE_KEEP_LINES = 1, /* newlines and tabs stay as they are */
    PRINTABLE_QUOTED = 2,     /* double quotes and backslashes are escaped too */
};
/* Appends s for a terminal: control characters, bytes that aren't UTF-8 and the characters that
 * reorder or hide text become \n, \t, \xHH or \u{HHHH}. */
void text_append_printable(text *t, const char *s, size_t n, unsigned flags);

/* Appends s with \n \r \t \' \" \\ \xHH replaced by what they stand for; other backslashes stay. */
void text_append_unescaped(text *t, const char *s, size_t n);

#endif

/* Pages of one file: head with the style sheet, escaping, tables.
 *
 * Used by the HTML reports of measure and compare. A page loads nothing: its policy forbids it. */
#ifndef OUTRIDER_APPS_HTML_H
#define OUTRIDER_APPS_HTML_H

#include "text.h"

/* Appends text of the user with everything that HTML reads escaped, also for quoted attributes; control
 * characters but newline and tab become U+FFFD. */
void html_escape(text *t, const char *s);
/* Up to the page's first element; the title is escaped and is the heading too. */
void html_begin(text *t, const char *title);
void html_end(text *t);

#endif

/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
 *
 * Used by the tokenisers and the streaming detokeniser. */
#ifndef OUTRIDER_GGUF_UTF8_H
#define OUTRIDER_GGUF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the character at the start of n bytes (1..4), and its code point; 0 when these bytes
 * are no whole valid character. */
uint32_t utf8_decode(const char *text, size_t n, uint32_t *codepoint);

/* True when the n_held bytes (a valid beginning of a character) followed by `next` are one still.
 * With n_held 0: whether `next` can begin a character. */
bool utf8_continues(const uint8_t *held, uint32_t n_held, uint8_t next);

/* Bytes of the character that begins with this byte; 0 when none can. */
uint32_t utf8_length(uint8_t first);

/* Offset of the first byte that is not part of a valid character; n when all of them are. */
size_t utf8_find_invalid(const char *text, size_t n);

#endif

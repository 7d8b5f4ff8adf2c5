/* Error messages: one line each, with the untrusted parts made harmless.
 *
 * Called by every reader in gguf/ and, for names and tokens in messages, by runtime/ and apps/. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gguf.h"
#include "utf8.h"

/* Characters that could move a terminal's cursor, reorder a line, break it, or end a quotation. */
static bool is_harmless(uint32_t code_point)
{
    static const struct {
        uint32_t first, last;
    } harmful[] = {
        {0x00, 0x1f},     {0x22, 0x22},     {0x27, 0x27},       {0x5c, 0x5c},     {0x7f, 0x9f},
        {0xad, 0xad},     {0x61c, 0x61c},   {0x200b, 0x200f},   {0x2028, 0x202e}, {0x2060, 0x206f},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof(harmful) / sizeof(harmful[0]); i++) {
        if (code_point >= harmful[i].first && code_point <= harmful[i].last)
            return false;
    }
    return true;
}

const char *gguf_quote(char *buffer, size_t size, const char *text, size_t length)
{
    static const char ellipsis[] = "...";
    size_t out = 0;
    size_t whole = 0; /* longest prefix of the output that leaves room for the ellipsis */
    for (size_t at = 0; at < length;) {
        uint32_t code_point = 0;
        size_t n = utf8_decode(text + at, length - at, &code_point);
        char piece[8];
        size_t n_piece;
        if (n > 0 && is_harmless(code_point)) {
            memcpy(piece, text + at, n);
            n_piece = n;
        } else {
            n = 1; /* the bytes that follow in a broken or harmful sequence are escaped in turn */
            n_piece = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", (uint8_t)text[at]);
        }
        if (out + n_piece >= size) {
            memcpy(buffer + whole, ellipsis, sizeof(ellipsis));
            return buffer;
        }
        memcpy(buffer + out, piece, n_piece);
        out += n_piece;
        if (out + sizeof(ellipsis) <= size)
            whole = out;
        at += n;
    }
    buffer[out] = '\0';
    return buffer;
}

/* snprintf may have cut a UTF-8 sequence in two; a message is always valid UTF-8 if its parts are.
 */
static void trim_cut_character(char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && length - start < 3 && ((uint8_t)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0 || (uint8_t)text[start - 1] < 0xc0)
        return;
    uint32_t code_point;
    if (utf8_decode(text + start - 1, length - start + 1, &code_point) == 0)
        text[start - 1] = '\0';
}

static void set_error(gguf_error *error, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void set_error(gguf_error *error, const char *format, va_list arguments)
{
    memset(error, 0, sizeof(*error));
    int n = vsnprintf(error->text, sizeof(error->text), format, arguments);
    if (n >= (int)sizeof(error->text))
        trim_cut_character(error->text, sizeof(error->text) - 1);
}

bool gguf_fail(gguf_error *error, const char *format, ...)
{
    if (!error)
        return false;
    va_list arguments;
    va_start(arguments, format);
    set_error(error, format, arguments);
    va_end(arguments);
    return false;
}

bool gguf_refuse(gguf_error *error, const char *format, ...)
{
    if (!error)
        return false;
    va_list arguments;
    va_start(arguments, format);
    set_error(error, format, arguments);
    va_end(arguments);
    error->is_unsupported = true;
    return false;
}

bool gguf_no_memory(gguf_error *error, const char *what)
{
    gguf_fail(error, "out of memory for %s", what);
    if (error)
        error->is_out_of_memory = true;
    return false;
}

/* Growing text, and untrusted bytes made safe to print: see text.h. */
#include "text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

static bool reserve(text *t, size_t more)
{
    size_t capacity = t->capacity ? t->capacity : 64;
    char *data;

    if (t->failed || more > SIZE_MAX / 2 - t->n) {
        t->failed = true;
        return false;
    }
    while (capacity < t->n + more + 1)
        capacity *= 2;
    if (capacity == t->capacity)
        return true;
    data = realloc(t->data, capacity);
    if (!data) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

void text_append(text *t, const char *bytes, size_t n)
{
    if (!reserve(t, n))
        return;
    if (n)
        memcpy(t->data + t->n, bytes, n);
    t->n += n;
    t->data[t->n] = '\0';
}

void text_printf(text *t, const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (n < 0) {
        t->failed = true;
        return;
    }
    if (!reserve(t, (size_t)n))
        return;
    va_start(list, format);
    vsnprintf(t->data + t->n, (size_t)n + 1, format, list);
    va_end(list);
    t->n += (size_t)n;
}

void text_free(text *t)
{
    free(t->data);
    *t = (text){0};
}

const char *text_string(const text *t)
{
    return t->data ? t->data : "";
}

void text_append_utf8(text *t, const char *s, size_t n)
{
    while (n) {
        size_t good = utf8_find_invalid(s, n);

        text_append(t, s, good);
        s += good;
        n -= good;
        if (n) {
            text_append(t, "\xef\xbf\xbd", 3);
            s++;
            n--;
        }
    }
}

/* C0, DEL and C1 drive a terminal; the rest are invisible, or reorder what is read. */
static bool is_hidden(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        {0x0000, 0x001f}, {0x007f, 0x009f}, {0x00ad, 0x00ad}, {0x061c, 0x061c}, {0x200b, 0x200f},
        {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    }
    return false;
}

void text_append_printable(text *t, const char *s, size_t n, unsigned flags)
{
    while (n) {
        uint32_t code = 0;
        uint32_t length = utf8_decode(s, n, &code);
        bool keep = (flags & PRINTABLE_KEEP_LINES) && (code == '\n' || code == '\t');

        if (!length) {
            text_printf(t, "\\x%02x", (uint8_t)s[0]);
            length = 1;
        } else if ((flags & PRINTABLE_QUOTED) && (code == '"' || code == '\\')) {
            text_printf(t, "\\%c", (int)code);
        } else if (keep || !is_hidden(code)) {
            text_append(t, s, length);
        } else if (code == '\n' || code == '\t' || code == '\r') {
            text_printf(t, "\\%c", code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
        } else if (code < 0x80) {
            text_printf(t, "\\x%02x", (unsigned)code);
        } else {
            text_printf(t, "\\u{%04x}", (unsigned)code);
        }
        s += length;
        n -= length;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

void text_append_unescaped(text *t, const char *s, size_t n)
{
    static const char letters[] = "nrt'\"\\";
    static const char meanings[] = "\n\r\t'\"\\";

    for (size_t i = 0; i < n; i++) {
        const char *letter;

        if (s[i] != '\\' || i + 1 == n) {
            text_append(t, s + i, 1);
            continue;
        }
        letter = s[i + 1] ? strchr(letters, s[i + 1]) : NULL;
        if (letter) {
            text_append(t, &meanings[letter - letters], 1);
            i++;
        } else if (s[i + 1] == 'x' && i + 3 < n && hex_digit(s[i + 2]) >= 0 &&
                   hex_digit(s[i + 3]) >= 0) {
            char byte = (char)(hex_digit(s[i + 2]) * 16 + hex_digit(s[i + 3]));

            text_append(t, &byte, 1);
            i += 3;
        } else {
            text_append(t, s + i, 1);
        }
    }
}

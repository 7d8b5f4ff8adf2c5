/* UTF-8 decoding and checking. See utf8.h. */
#include "utf8.h"

uint32_t utf8_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2) /* continuation bytes, and leads that could only make overlong forms */
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0)
        return 3;
    return first < 0xf5 ? 4 : 0;
}

bool utf8_continues(const uint8_t *held, uint32_t n_held, uint8_t next)
{
    if (n_held == 0)
        return utf8_length(next) > 0;
    if (n_held >= utf8_length(held[0]))
        return false;
    uint8_t low = 0x80, high = 0xbf;
    if (n_held == 1) {
        /* The second byte alone decides about overlong forms, surrogates and the upper limit. */
        switch (held[0]) {
        case 0xe0:
            low = 0xa0;
            break;
        case 0xed:
            high = 0x9f;
            break;
        case 0xf0:
            low = 0x90;
            break;
        case 0xf4:
            high = 0x8f;
            break;
        default:
            break;
        }
    }
    return next >= low && next <= high;
}

uint32_t utf8_decode(const char *text, size_t n, uint32_t *codepoint)
{
    static const uint8_t first_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const uint8_t *bytes = (const uint8_t *)text;
    uint32_t length = n > 0 ? utf8_length(bytes[0]) : 0;
    if (length == 0 || length > n)
        return 0;
    uint32_t value = bytes[0] & first_bits[length];
    for (uint32_t i = 1; i < length; i++) {
        if (!utf8_continues(bytes, i, bytes[i]))
            return 0;
        value = value << 6 | (bytes[i] & 0x3f);
    }
    *codepoint = value;
    return length;
}

size_t utf8_find_invalid(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n) {
        uint32_t codepoint;
        uint32_t length = (uint8_t)text[at] < 0x80 ? 1 : utf8_decode(text + at, n - at, &codepoint);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

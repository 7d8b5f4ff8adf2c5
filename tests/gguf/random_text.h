/* Random valid UTF-8 that looks for trouble: words, runs, marks, emoji, specials, NUL bytes.
 *
 * Shared by the tests and the fuzzer of tokenisers, so that a seed names a text. */
#ifndef OUTRIDER_TESTS_RANDOM_TEXT_H
#define OUTRIDER_TESTS_RANDOM_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Splitmix64: the next number of a seed. */
static inline uint64_t random_next(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint32_t random_below(uint64_t *seed, uint32_t limit)
{
    return (uint32_t)((random_next(seed) >> 32) * limit >> 32);
}

static inline size_t encode_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

/* Writes at most `size` bytes; returns how many. */
static inline size_t random_text(uint64_t *seed, char *text, size_t size)
{
    static const char *const parts[] = {
        "the",
        " word",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "'s",
        "'LL",
        "123",
        "4",
        ".",
        "==",
        "_",
        "\\",
        "Camel",
        "HTTP",
        "`",
        "$",
        "\u00e9",
        "e\u0301",
        "\u4f60\u597d",
        "\u3042",
        "\ud55c",
        "\u0645",
        "\u0664",
        "\u00b2",
        "\u2167",
        "\u00a0",
        "\u3000",
        "\u200b",
        "\u180e",
        "\u2028",
        "\xc2\x85",
        "\u01c5",
        "\u10d0",
        "\u2581",
        "\U0001f600",
        "\U0001f468\u200d\U0001f469",
        "<|im_start|>",
        "<|im_end",
        "|>",
        "<s>",
        "</s>",
        "<unk>",
        "<0x41>",
        "<",
        "\u017f",
        "\u3001",
        "/",
    };
    size_t n = 0;
    size_t wanted = random_below(seed, (uint32_t)size + 1);
    while (n < wanted) {
        char piece[32];
        size_t length;
        uint32_t kind = random_below(seed, 16);
        if (kind == 0) {
            uint32_t c = random_below(seed, 0x110000);
            length = encode_utf8(c >= 0xd800 && c < 0xe000 ? c - 0x800 : c, piece);
        } else if (kind == 1) {
            length = encode_utf8(random_below(seed, 0x180), piece);
        } else {
            const char *part = parts[random_below(seed, sizeof(parts) / sizeof(parts[0]))];
            length = strlen(part);
            memcpy(piece, part, length);
        }
        uint32_t times = random_below(seed, 12) == 0 ? 1 + random_below(seed, 20) : 1;
        for (uint32_t i = 0; i < times && n + length <= size; i++) {
            memcpy(text + n, piece, length);
            n += length;
        }
        if (n + sizeof(piece) > size)
            break;
    }
    return n;
}

#endif

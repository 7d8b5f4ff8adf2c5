/* Text to token ids and back: the parts that both tokenisers share. See tokenizer.h.
 *
 * A text is cut at the special tokens that stand in it; what lies between goes to bpe.c or spm.c.
 */
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "spm.h"
#include "utf8.h"
#include "vocab_data.h"

/* Three times this, as blanks of SPM, and all places in it fit 32 bits. */
#define MAX_TEXT_BYTES ((size_t)1 << 30)

static bool tokenize_plain(const vocab *v, const char *text, size_t n_bytes, merge_list *scratch,
                           token_list *out, gguf_error *error)
{
    if (n_bytes == 0)
        return true;
    if (v->model == VOCAB_SPM)
        return spm_tokenize(v, text, n_bytes, scratch, out, error);
    return bpe_tokenize(v, text, n_bytes, scratch, out, error);
}

bool tokenize(const vocab *v, const char *text, size_t n_bytes, unsigned flags, int32_t **ids,
              size_t *n_ids, gguf_error *error)
{
    bool ok = false;
    special_hit *hits = NULL;
    size_t n_hits = 0;
    token_list out = {0};
    merge_list scratch = {0};
    *ids = NULL;
    *n_ids = 0;

    if (n_bytes == 0) /* text may be NULL, from which even an offset of 0 must not be taken */
        text = "";
    if (n_bytes > MAX_TEXT_BYTES)
        return gguf_fail(error, "the text has %zu bytes; at most %zu can be tokenised", n_bytes,
                         MAX_TEXT_BYTES);
    size_t invalid = utf8_find_invalid(text, n_bytes);
    if (invalid < n_bytes)
        return gguf_fail(error, "the text is not valid UTF-8 at byte offset %zu (0x%02x)", invalid,
                         (uint8_t)text[invalid]);

    const special_set *set = flags & TOKENIZE_PARSE_SPECIAL ? &v->specials : &v->user_defined;
    if (!special_find(set, text, n_bytes, &hits, &n_hits)) {
        gguf_no_memory(error, "finding special tokens");
        goto done;
    }
    if ((flags & TOKENIZE_ADD_BOS) && v->adds_bos && !token_list_add(&out, v->bos)) {
        gguf_no_memory(error, "token ids");
        goto done;
    }
    size_t at = 0;
    for (size_t i = 0; i < n_hits; i++) {
        if (!tokenize_plain(v, text + at, hits[i].start - at, &scratch, &out, error))
            goto done;
        if (!token_list_add(&out, (int32_t)hits[i].id)) {
            gguf_no_memory(error, "token ids");
            goto done;
        }
        at = hits[i].start + hits[i].length;
    }
    if (!tokenize_plain(v, text + at, n_bytes - at, &scratch, &out, error))
        goto done;
    *ids = out.ids;
    *n_ids = out.n;
    out.ids = NULL;
    ok = true;
done:
    merge_list_free(&scratch);
    free(out.ids);
    free(hits);
    return ok;
}

/* Growing text of the caller's. */
typedef struct text_buffer {
    char **text;
    size_t *n, *capacity;
} text_buffer;

static bool append(const text_buffer *buffer, const char *bytes, size_t n)
{
    size_t needed = *buffer->n + n + 1;
    if (needed > *buffer->capacity) {
        size_t capacity = *buffer->capacity ? *buffer->capacity * 2 : 64;
        if (capacity < needed)
            capacity = needed;
        char *text = realloc(*buffer->text, capacity);
        if (!text)
            return false;
        *buffer->text = text;
        *buffer->capacity = capacity;
    }
    if (n > 0)
        memcpy(*buffer->text + *buffer->n, bytes, n);
    *buffer->n += n;
    (*buffer->text)[*buffer->n] = '\0';
    return true;
}

static bool append_replacement(const text_buffer *buffer)
{
    return append(buffer, "\xef\xbf\xbd", 3);
}

/* Takes one byte of the stream. What can't go on with it becomes one U+FFFD: the longest beginning
 * of a character at a time, as Unicode recommends. */
static bool push_byte(detokenizer *d, uint8_t byte, const text_buffer *buffer)
{
    if (!utf8_continues(d->held, d->n_held, byte)) {
        bool had_held = d->n_held > 0;
        d->n_held = 0;
        if (had_held && !append_replacement(buffer))
            return false;
        if (utf8_length(byte) == 0)
            return append_replacement(buffer);
    }
    d->held[d->n_held++] = byte;
    if (d->n_held < utf8_length(d->held[0]))
        return true;
    size_t n = d->n_held;
    d->n_held = 0;
    return append(buffer, (const char *)d->held, n);
}

static bool push_bytes(detokenizer *d, const char *bytes, size_t n, const text_buffer *buffer)
{
    for (size_t i = 0; i < n; i++) {
        if (!push_byte(d, (uint8_t)bytes[i], buffer))
            return false;
    }
    return true;
}

/* Byte-level BPE: letters back to bytes. What is no letter of the alphabet stands for itself. */
static bool push_letters(detokenizer *d, gguf_string token, const text_buffer *buffer)
{
    for (size_t at = 0; at < token.length;) {
        uint32_t codepoint = 0;
        uint32_t length = utf8_decode(token.data + at, token.length - at, &codepoint);
        int byte = length > 0 ? letter_to_byte(codepoint) : -1;
        if (length == 0)
            length = 1;
        if (byte >= 0 ? !push_byte(d, (uint8_t)byte, buffer)
                      : !push_bytes(d, token.data + at, length, buffer))
            return false;
        at += length;
    }
    return true;
}

/* SPM: U+2581 back to blanks. */
static bool push_blanks(detokenizer *d, gguf_string token, const text_buffer *buffer)
{
    const size_t n_blank = sizeof(SPM_BLANK) - 1;
    for (size_t at = 0; at < token.length;) {
        bool is_blank = token.length - at >= n_blank &&
                        !memcmp(token.data + at, SPM_BLANK, n_blank);
        bool is_dropped = is_blank && at == 0 && d->at_start && d->vocab->adds_space_prefix;
        if (!is_dropped && !push_byte(d, is_blank ? ' ' : (uint8_t)token.data[at], buffer))
            return false;
        at += is_blank ? n_blank : 1;
    }
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a token <0xHH>, or -1. */
static int byte_of_token(gguf_string token)
{
    if (token.length != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>')
        return -1;
    int high = hex_digit(token.data[3]), low = hex_digit(token.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void detokenizer_init(detokenizer *d, const vocab *v, bool at_start, bool skip_special)
{
    *d = (detokenizer){.vocab = v, .skip_special = skip_special, .at_start = at_start};
}

bool detokenizer_push(detokenizer *d, uint32_t id, char **text, size_t *n, size_t *capacity)
{
    const text_buffer buffer = {text, n, capacity};
    if (!append(&buffer, "", 0)) /* the text is terminated even if nothing comes */
        return false;
    if (id >= d->vocab->n_tokens)
        return true;
    const gguf_string token = d->vocab->tokens[id];
    const enum token_type type = d->vocab->types[id];
    if (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN)
        return d->skip_special || push_bytes(d, token.data, token.length, &buffer);

    int byte = type == TOKEN_BYTE ? byte_of_token(token) : -1;
    bool ok;
    if (byte >= 0)
        ok = push_byte(d, (uint8_t)byte, &buffer);
    else if (type == TOKEN_USER_DEFINED)
        ok = push_bytes(d, token.data, token.length, &buffer);
    else if (d->vocab->model == VOCAB_SPM)
        ok = push_blanks(d, token, &buffer);
    else
        ok = push_letters(d, token, &buffer);
    d->at_start = false;
    return ok;
}

bool detokenizer_finish(detokenizer *d, char **text, size_t *n, size_t *capacity)
{
    const text_buffer buffer = {text, n, capacity};
    bool had_held = d->n_held > 0;
    d->n_held = 0;
    return append(&buffer, "", 0) && (!had_held || append_replacement(&buffer));
}

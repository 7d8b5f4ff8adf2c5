/* SPM tokenising: blanks become U+2581, then the adjacent pair that makes the token of the highest
 * score merges, until none does. See spm.h. */
#include "spm.h"

#include <stdlib.h>
#include <string.h>

#include "utf8.h"
#include "vocab_data.h"

typedef struct spm_pass {
    const vocab *vocab;
    const char *text; /* escaped */
} spm_pass;

/* Scores as numbers whose order is that of merging: a higher score is a smaller number. */
static uint32_t score_priority(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 and 0 are one score */
    memcpy(&bits, &score, sizeof(bits));
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

static uint32_t pair_priority(const void *context, const merge_node *left, const merge_node *right,
                              uint32_t *result)
{
    const spm_pass *pass = context;
    const vocab *v = pass->vocab;
    size_t length = (size_t)left->length + right->length;
    if (length > v->longest)
        return MERGE_NONE;
    uint32_t id = string_index_find(&v->index, v->tokens, pass->text + left->start, length);
    if (id == STRING_NOT_FOUND)
        return MERGE_NONE;
    *result = id;
    return score_priority(v->scores[id]);
}

static char *escape_blanks(const char *text, size_t n_bytes, bool with_prefix, size_t *n_escaped)
{
    const size_t n_blank = sizeof(SPM_BLANK) - 1;
    char *escaped = malloc((n_bytes + 1) * n_blank);
    if (!escaped)
        return NULL;
    size_t n = 0;
    if (with_prefix) {
        memcpy(escaped, SPM_BLANK, n_blank);
        n = n_blank;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == ' ') {
            memcpy(escaped + n, SPM_BLANK, n_blank);
            n += n_blank;
        } else {
            escaped[n++] = text[i];
        }
    }
    *n_escaped = n;
    return escaped;
}

/* A character that is no token: its bytes, or else one unknown token. */
static bool add_fallback(const vocab *v, const char *text, uint32_t length, token_list *out,
                         gguf_error *error)
{
    bool has_bytes = true;
    for (uint32_t i = 0; i < length; i++)
        has_bytes = has_bytes && v->byte_ids[(uint8_t)text[i]] >= 0;
    if (!has_bytes && v->unknown < 0) {
        char shown[32];
        return gguf_fail(error,
                         "the vocabulary has no token for \"%s\": neither byte tokens nor "
                         "tokenizer.ggml.unknown_token_id",
                         gguf_quote(shown, sizeof(shown), text, length));
    }
    if (!has_bytes)
        return token_list_add(out, v->unknown) || gguf_no_memory(error, "token ids");
    for (uint32_t i = 0; i < length; i++) {
        if (!token_list_add(out, v->byte_ids[(uint8_t)text[i]]))
            return gguf_no_memory(error, "token ids");
    }
    return true;
}

bool spm_tokenize(const vocab *v, const char *text, size_t n_bytes, merge_list *scratch,
                  token_list *out, gguf_error *error)
{
    bool ok = false;
    size_t n = 0;
    if (n_bytes == 0)
        return true;
    char *escaped = escape_blanks(text, n_bytes, v->adds_space_prefix, &n);
    if (!escaped)
        return gguf_no_memory(error, "tokenising a text");

    merge_list_clear(scratch);
    for (size_t at = 0; at < n;) {
        uint32_t length = utf8_length((uint8_t)escaped[at]);
        uint32_t id = string_index_find(&v->index, v->tokens, escaped + at, length);
        if (!merge_list_append(scratch, id, (uint32_t)at, length)) {
            gguf_no_memory(error, "tokenising a text");
            goto done;
        }
        at += length;
    }
    const spm_pass pass = {v, escaped};
    if (!merge_list_run(scratch, pair_priority, &pass)) {
        gguf_no_memory(error, "tokenising a text");
        goto done;
    }
    for (uint32_t i = 0; i != MERGE_NONE; i = scratch->nodes[i].next) {
        const merge_node *node = &scratch->nodes[i];
        if (node->symbol == STRING_NOT_FOUND) {
            if (!add_fallback(v, escaped + node->start, node->length, out, error))
                goto done;
        } else if (!token_list_add(out, (int32_t)node->symbol)) {
            gguf_no_memory(error, "token ids");
            goto done;
        }
    }
    ok = true;
done:
    free(escaped);
    return ok;
}

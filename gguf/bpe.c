/* Byte-level BPE. See bpe.h.
 *
 * While loading, every string that occurs in the merges gets a number, its symbol; a merge is then
 * a pair of numbers that gives a third. So tokenising hashes numbers, and a long piece costs no
 * more per merge than a short one. A symbol need not be a token: what is left as such falls apart
 * into the tokens of its bytes. */
#include "bpe.h"

#include <stdlib.h>
#include <string.h>

#include "string_index.h"
#include "vocab_data.h"

typedef struct merge_rule {
    uint32_t left, right; /* symbols; MERGE_NONE on the left: empty slot */
    uint32_t rank;
    uint32_t result;
} merge_rule;

struct bpe_merges {
    uint32_t n_symbols; /* the first 256 are the bytes */
    int32_t *token_ids; /* of symbols; -1: no such token */
    merge_rule *rules;  /* hash table */
    size_t mask;
    uint64_t key[2];
};

/* The bytes that GPT-2's alphabet leaves as they are; the others follow from U+0100 on in order. */
static bool is_own_letter(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

uint32_t byte_to_letter(uint8_t byte, char out[2])
{
    uint32_t codepoint = byte;
    if (byte <= 0x20)
        codepoint = 0x100u + byte;
    else if (byte >= 0x7f && byte <= 0xa0)
        codepoint = 0x121u + (byte - 0x7fu);
    else if (byte == 0xad)
        codepoint = 0x143u;
    if (codepoint < 0x80) {
        out[0] = (char)codepoint;
        return 1;
    }
    out[0] = (char)(0xc0 | codepoint >> 6);
    out[1] = (char)(0x80 | (codepoint & 0x3f));
    return 2;
}

int letter_to_byte(uint32_t codepoint)
{
    if (codepoint < 0x100)
        return is_own_letter(codepoint) ? (int)codepoint : -1;
    if (codepoint <= 0x120)
        return (int)(codepoint - 0x100);
    if (codepoint <= 0x142)
        return (int)(codepoint - 0x121 + 0x7f);
    return codepoint == 0x143 ? 0xad : -1;
}

/* The rule of a pair, or the empty slot where it belongs. */
static merge_rule *find_rule(const bpe_merges *merges, uint32_t left, uint32_t right)
{
    size_t at = (size_t)hash_mix((uint64_t)left << 32 | right, merges->key) & merges->mask;
    for (;; at = (at + 1) & merges->mask) {
        merge_rule *rule = &merges->rules[at];
        if (rule->left == MERGE_NONE || (rule->left == left && rule->right == right))
            return rule;
    }
}

/* Strings of the merges while they are loaded: symbol i is strings[i]. */
typedef struct symbol_table {
    string_index index;
    gguf_string *strings;
    uint32_t n;
    char *text;
    char letters[256][2];
} symbol_table;

static uint32_t intern(symbol_table *symbols, const char *data, size_t length)
{
    uint32_t found = string_index_find(&symbols->index, symbols->strings, data, length);
    if (found != STRING_NOT_FOUND)
        return found;
    symbols->strings[symbols->n] = (gguf_string){data, length};
    string_index_put(&symbols->index, symbols->strings, symbols->n);
    return symbols->n++;
}

/* Splits "left right" at the first blank from index 1: a token may begin with a blank itself. */
static size_t find_gap(gguf_string merge)
{
    const char *gap = merge.length > 1 ? memchr(merge.data + 1, ' ', merge.length - 1) : NULL;
    return gap ? (size_t)(gap - merge.data) : 0;
}

/* Copies the merges without their gap, so that left, right and result are stretches of one string;
 * gaps[i] is the length of the left side. */
static bool read_merges(const gguf_file *file, const gguf_key *key, gguf_string *merges,
                        size_t *gaps, char **text, gguf_error *error)
{
    size_t total = 0;
    for (uint64_t i = 0; i < key->count; i++) {
        if (!gguf_element_string(file, key, i, &merges[i]))
            return gguf_fail(error, "tokenizer.ggml.merges: element %llu can't be read",
                             (unsigned long long)i);
        gaps[i] = find_gap(merges[i]);
        if (gaps[i] == 0) {
            char shown[64];
            return gguf_fail(error, "tokenizer.ggml.merges: merge %llu (\"%s\") has no blank",
                             (unsigned long long)i,
                             gguf_quote(shown, sizeof(shown), merges[i].data, merges[i].length));
        }
        total += merges[i].length - 1;
    }
    *text = malloc(total + 1);
    if (!*text)
        return gguf_no_memory(error, "BPE merges");
    char *at = *text;
    for (uint64_t i = 0; i < key->count; i++) {
        size_t right = merges[i].length - gaps[i] - 1;
        memcpy(at, merges[i].data, gaps[i]);
        memcpy(at + gaps[i], merges[i].data + gaps[i] + 1, right);
        merges[i] = (gguf_string){at, gaps[i] + right};
        at += gaps[i] + right;
    }
    return true;
}

static bool make_tables(bpe_merges *merges, symbol_table *symbols, const vocab *v,
                        const gguf_string *strings, const size_t *gaps, size_t n_merges)
{
    size_t n_most = 256 + 3 * n_merges;
    size_t capacity = 16;
    while (capacity < 2 * n_merges)
        capacity *= 2;
    merges->mask = capacity - 1;
    merges->rules = malloc(capacity * sizeof(merges->rules[0]));
    symbols->strings = malloc(n_most * sizeof(symbols->strings[0]));
    if (!merges->rules || !symbols->strings || !string_index_init(&symbols->index, n_most))
        return false;
    memset(merges->rules, 0xff, capacity * sizeof(merges->rules[0])); /* MERGE_NONE */
    hash_new_key(merges->key);

    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t length = byte_to_letter((uint8_t)byte, symbols->letters[byte]);
        intern(symbols, symbols->letters[byte], length); /* gives symbol `byte` */
    }
    for (size_t i = 0; i < n_merges; i++) {
        if (gaps[i] ==
            strings[i].length) /* "left " alone: no symbol is empty, so it never applies */
            continue;
        uint32_t left = intern(symbols, strings[i].data, gaps[i]);
        uint32_t right = intern(symbols, strings[i].data + gaps[i], strings[i].length - gaps[i]);
        merge_rule *rule = find_rule(merges, left, right);
        if (rule->left == MERGE_NONE) /* of equal merges the first counts */
            *rule = (merge_rule){left, right, (uint32_t)i,
                                 intern(symbols, strings[i].data, strings[i].length)};
    }
    merges->n_symbols = symbols->n;
    merges->token_ids = malloc(symbols->n * sizeof(merges->token_ids[0]));
    if (!merges->token_ids)
        return false;
    for (uint32_t i = 0; i < symbols->n; i++) {
        uint32_t id = string_index_find(&v->index, v->tokens, symbols->strings[i].data,
                                        symbols->strings[i].length);
        merges->token_ids[i] = id == STRING_NOT_FOUND ? -1 : (int32_t)id;
    }
    return true;
}

bool bpe_merges_load(const gguf_file *file, const vocab *v, bpe_merges **out, gguf_error *error)
{
    bool ok = false;
    gguf_string *strings = NULL;
    size_t *gaps = NULL;
    bpe_merges *merges = NULL;
    symbol_table *symbols = NULL;
    *out = NULL;

    const gguf_key *key = gguf_find(file, "tokenizer.ggml.merges");
    if (!key)
        return gguf_fail(error, "tokenizer.ggml.merges is missing: byte-level BPE needs merges");
    if (key->type != GGUF_TYPE_ARRAY || (key->element_type != GGUF_TYPE_STRING && key->count > 0))
        return gguf_fail(error, "tokenizer.ggml.merges is not an array of strings");
    if (key->count > INT32_MAX / 8)
        return gguf_fail(error, "tokenizer.ggml.merges has %llu elements, too many",
                         (unsigned long long)key->count);

    size_t n_merges = (size_t)key->count;
    strings = calloc(n_merges + 1, sizeof(strings[0]));
    gaps = calloc(n_merges + 1, sizeof(gaps[0]));
    merges = calloc(1, sizeof(*merges));
    symbols = calloc(1, sizeof(*symbols));
    if (!strings || !gaps || !merges || !symbols) {
        gguf_no_memory(error, "BPE merges");
        goto done;
    }
    if (!read_merges(file, key, strings, gaps, &symbols->text, error))
        goto done;
    if (!make_tables(merges, symbols, v, strings, gaps, n_merges)) {
        gguf_no_memory(error, "BPE merges");
        goto done;
    }
    *out = merges;
    merges = NULL;
    ok = true;
done:
    if (symbols) {
        string_index_free(&symbols->index);
        free(symbols->strings);
        free(symbols->text);
        free(symbols);
    }
    bpe_merges_free(&merges);
    free(gaps);
    free(strings);
    return ok;
}

void bpe_merges_free(bpe_merges **merges)
{
    if (!merges || !*merges)
        return;
    free((*merges)->rules);
    free((*merges)->token_ids);
    free(*merges);
    *merges = NULL;
}

static uint32_t pair_rank(const void *context, const merge_node *left, const merge_node *right,
                          uint32_t *result)
{
    const merge_rule *rule = find_rule(context, left->symbol, right->symbol);
    if (rule->left == MERGE_NONE)
        return MERGE_NONE;
    *result = rule->result;
    return rule->rank;
}

/* Looks the whole piece up among the tokens; *id is -1 when it is none. False when memory runs out.
 */
static bool find_whole(const vocab *v, const char *piece, size_t length, int32_t *id)
{
    char small[256];
    char *letters = small;
    *id = -1;
    if (length > v->longest)
        return true;
    if (length > sizeof(small) / 2 && !(letters = malloc(length * 2)))
        return false;
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += byte_to_letter((uint8_t)piece[i], letters + n);
    uint32_t found = string_index_find(&v->index, v->tokens, letters, n);
    if (found != STRING_NOT_FOUND)
        *id = (int32_t)found;
    if (letters != small)
        free(letters);
    return true;
}

static bool add_symbol(const vocab *v, uint32_t symbol, const char *bytes, uint32_t length,
                       token_list *out, gguf_error *error)
{
    int32_t id = v->merges->token_ids[symbol];
    if (id >= 0)
        return token_list_add(out, id) || gguf_no_memory(error, "token ids");
    for (uint32_t i = 0; i < length; i++) {
        id = v->merges->token_ids[(uint8_t)bytes[i]];
        if (id < 0)
            id = v->unknown;
        if (id < 0)
            return gguf_fail(error,
                             "the vocabulary has no token for byte 0x%02x, and no "
                             "tokenizer.ggml.unknown_token_id",
                             (uint8_t)bytes[i]);
        if (!token_list_add(out, id))
            return gguf_no_memory(error, "token ids");
    }
    return true;
}

static bool tokenize_piece(const vocab *v, const char *piece, size_t length, merge_list *scratch,
                           token_list *out, gguf_error *error)
{
    if (v->rule->ignore_merges) {
        int32_t id;
        if (!find_whole(v, piece, length, &id))
            return gguf_no_memory(error, "tokenising a text");
        if (id >= 0)
            return token_list_add(out, id) || gguf_no_memory(error, "token ids");
    }
    merge_list_clear(scratch);
    for (size_t i = 0; i < length; i++) {
        if (!merge_list_append(scratch, (uint8_t)piece[i], (uint32_t)i, 1))
            return gguf_no_memory(error, "tokenising a text");
    }
    if (!merge_list_run(scratch, pair_rank, v->merges))
        return gguf_no_memory(error, "tokenising a text");
    for (uint32_t i = 0; i != MERGE_NONE; i = scratch->nodes[i].next) {
        const merge_node *node = &scratch->nodes[i];
        if (!add_symbol(v, node->symbol, piece + node->start, node->length, out, error))
            return false;
    }
    return true;
}

bool bpe_tokenize(const vocab *v, const char *text, size_t n_bytes, merge_list *scratch,
                  token_list *out, gguf_error *error)
{
    piece_list pieces = {0};
    bool ok = pretokenizer_split(v->splitter, text, n_bytes, &pieces, error);
    size_t start = 0;
    for (size_t i = 0; ok && i < pieces.n; i++) {
        size_t end = pieces.ends[i];
        ok = tokenize_piece(v, text + start, end - start, scratch, out, error);
        start = end;
    }
    free(pieces.ends);
    return ok;
}

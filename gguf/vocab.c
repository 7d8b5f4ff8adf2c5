/* Loads a vocabulary: token strings, types, special ids, and what its tokeniser needs. See vocab.h.
 *
 * Called by runtime/ when a model is loaded and by `outrider inspect`. */
#include "vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vocab_data.h"

/* Special tokens that end a turn or a text, whatever else the file says of them. Those that end a
 * turn of a conversation, in the order in which they are taken for EOT when no key names it. */
static const char *const turn_end_names[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>",
    "<|eot|>",    "<EOT>",      "< EOT >", "_<EOT>",        "<end_of_utterance>",
};
static const char *const text_end_names[] = {
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>",
    "<|return|>",    "<|call|>",        "<\uff5cend\u2581of\u2581sentence\uff5c>",
};
#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* An array key of one value per token; NULL and an error when it does not fit. */
static const gguf_key *find_per_token(const gguf_file *file, const char *name, uint64_t n_tokens,
                                      gguf_error *error)
{
    const gguf_key *key = gguf_find(file, name);
    if (!key) {
        gguf_fail(error, "%s is missing", name);
        return NULL;
    }
    if (key->type != GGUF_TYPE_ARRAY) {
        gguf_fail(error, "%s is not an array", name);
        return NULL;
    }
    if (key->count != n_tokens) {
        gguf_fail(error, "%s has %llu elements for %llu tokens", name,
                  (unsigned long long)key->count, (unsigned long long)n_tokens);
        return NULL;
    }
    return key;
}

static bool load_tokens(const gguf_file *file, vocab *v, gguf_error *error)
{
    static const char name[] = "tokenizer.ggml.tokens";
    const gguf_key *key = gguf_find(file, name);
    if (!key)
        return gguf_fail(error, "%s is missing: the file has no vocabulary", name);
    if (key->type != GGUF_TYPE_ARRAY || key->element_type != GGUF_TYPE_STRING)
        return gguf_fail(error, "%s is not an array of strings", name);
    if (key->count == 0 || key->count > INT32_MAX / 2)
        return gguf_fail(error, "%s has %llu elements", name, (unsigned long long)key->count);

    v->n_tokens = (uint32_t)key->count;
    v->tokens = calloc(v->n_tokens, sizeof(v->tokens[0]));
    if (!v->tokens || !string_index_init(&v->index, v->n_tokens))
        return gguf_no_memory(error, "the vocabulary");
    size_t total = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        if (!gguf_element_string(file, key, id, &v->tokens[id]))
            return gguf_fail(error, "%s: element %u can't be read", name, id);
        total += v->tokens[id].length;
    }
    v->text = malloc(total + 1);
    if (!v->text)
        return gguf_no_memory(error, "the vocabulary");
    char *at = v->text;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        gguf_string *token = &v->tokens[id];
        if (token->length > 0)
            memcpy(at, token->data, token->length);
        token->data = at;
        at += token->length;
        if (token->length > v->longest)
            v->longest = token->length;
        if (token->length > 0) /* an empty token is never found in a text */
            string_index_put(&v->index, v->tokens, id);
    }
    return true;
}

static bool load_types(const gguf_file *file, vocab *v, gguf_error *error)
{
    static const char name[] = "tokenizer.ggml.token_type";
    v->types = malloc(v->n_tokens);
    v->stops = calloc(v->n_tokens, sizeof(v->stops[0]));
    if (!v->types || !v->stops)
        return gguf_no_memory(error, "the vocabulary");
    memset(v->types, TOKEN_NORMAL, v->n_tokens);
    if (!gguf_find(file, name))
        return true;
    const gguf_key *key = find_per_token(file, name, v->n_tokens, error);
    if (!key)
        return false;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        int64_t type;
        if (!gguf_element_i64(file, key, id, &type))
            return gguf_fail(error, "%s is not an array of integers", name);
        if (type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return gguf_fail(error, "%s: token %u has the unknown type %lld", name, id,
                             (long long)type);
        v->types[id] = (uint8_t)type;
    }
    return true;
}

/* An optional special id. -1 and its unsigned form, which some converters write, mean none. */
static bool load_id(const gguf_file *file, const vocab *v, const char *name, int32_t *out,
                    gguf_error *error)
{
    *out = -1;
    const gguf_key *key = gguf_find(file, name);
    if (!key)
        return true;
    int64_t id;
    if (key->type == GGUF_TYPE_ARRAY || !gguf_element_i64(file, key, 0, &id))
        return gguf_fail(error, "%s is not an integer", name);
    if (id == -1 || id == UINT32_MAX)
        return true;
    if (id < 0 || id >= v->n_tokens)
        return gguf_fail(error, "%s is %lld, but the vocabulary has %u tokens", name, (long long)id,
                         v->n_tokens);
    *out = (int32_t)id;
    return true;
}

static bool is_special(const vocab *v, uint32_t id)
{
    return v->types[id] == TOKEN_CONTROL || v->types[id] == TOKEN_USER_DEFINED;
}

/* The special token of this name, or -1. */
static int32_t find_special(const vocab *v, const char *name)
{
    uint32_t id = string_index_find(&v->index, v->tokens, name, strlen(name));
    return id != STRING_NOT_FOUND && is_special(v, id) ? (int32_t)id : -1;
}

static bool load_special_ids(const gguf_file *file, vocab *v, gguf_error *error)
{
    int32_t eom;
    if (!load_id(file, v, "tokenizer.ggml.bos_token_id", &v->bos, error) ||
        !load_id(file, v, "tokenizer.ggml.eos_token_id", &v->eos, error) ||
        !load_id(file, v, "tokenizer.ggml.eot_token_id", &v->eot, error) ||
        !load_id(file, v, "tokenizer.ggml.eom_token_id", &eom, error) ||
        !load_id(file, v, "tokenizer.ggml.unknown_token_id", &v->unknown, error) ||
        !load_id(file, v, "tokenizer.ggml.padding_token_id", &v->pad, error))
        return false;
    for (size_t i = 0; i < N_ELEMENTS(turn_end_names); i++) {
        int32_t id = find_special(v, turn_end_names[i]);
        if (id >= 0)
            v->stops[id] = true;
        if (v->eot < 0)
            v->eot = id;
    }
    for (size_t i = 0; i < N_ELEMENTS(text_end_names); i++) {
        int32_t id = find_special(v, text_end_names[i]);
        if (id >= 0)
            v->stops[id] = true;
    }
    const int32_t ends[] = {v->eos, v->eot, eom};
    for (size_t i = 0; i < N_ELEMENTS(ends); i++) {
        if (ends[i] >= 0)
            v->stops[ends[i]] = true;
    }
    for (uint32_t id = 0; id < v->n_tokens && v->unknown < 0; id++) {
        if (v->types[id] == TOKEN_UNKNOWN)
            v->unknown = (int32_t)id;
    }
    return true;
}

/* Gathers the non-empty tokens of the wanted types into a set for searching. */
static bool collect_specials(const vocab *v, uint32_t types, special_set *set, gguf_error *error)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        if (!(types >> v->types[id] & 1))
            continue;
        n++;
        if (v->tokens[id].length > SPECIAL_MAX_BYTES)
            return gguf_refuse(error,
                               "tokenizer.ggml.tokens: the special token %u has %zu bytes; at most "
                               "%d are supported",
                               id, v->tokens[id].length, SPECIAL_MAX_BYTES);
    }
    special_token *tokens = malloc((n + 1) * sizeof(tokens[0]));
    if (!tokens)
        return gguf_no_memory(error, "the vocabulary");
    n = 0;
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        if ((types >> v->types[id] & 1) && v->tokens[id].length > 0)
            tokens[n++] = (special_token){v->tokens[id], id};
    }
    special_set_build(set, tokens, n);
    return true;
}

static bool load_bpe(const gguf_file *file, vocab *v, gguf_error *error)
{
    /* Files made before the key existed mean "default": what llama.cpp takes for them too, so that
     * they give the ids that their users know. */
    gguf_string pre = {"default", strlen("default")};
    bool present;
    if (!gguf_get_string(file, "tokenizer.ggml.pre", &pre, &present, error))
        return false;
    if (!present)
        pre = (gguf_string){"default", strlen("default")};
    v->rule = split_rule_find(pre.data, pre.length);
    if (!v->rule) {
        char shown[64];
        return gguf_refuse(error,
                           "tokenizer.ggml.pre: the pre-split pattern \"%s\" is not supported",
                           gguf_quote(shown, sizeof(shown), pre.data, pre.length));
    }
    v->adds_bos = v->rule->adds_bos;
    return pretokenizer_create(v->rule, &v->splitter, error) &&
           bpe_merges_load(file, v, &v->merges, error);
}

static bool load_spm(const gguf_file *file, vocab *v, gguf_error *error)
{
    static const char name[] = "tokenizer.ggml.scores";
    const gguf_key *key = find_per_token(file, name, v->n_tokens, error);
    if (!key)
        return false;
    v->scores = malloc(v->n_tokens * sizeof(v->scores[0]));
    if (!v->scores)
        return gguf_no_memory(error, "the vocabulary");
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        double score;
        if (!gguf_element_f64(file, key, id, &score))
            return gguf_fail(error, "%s is not an array of numbers", name);
        if (isnan(score))
            return gguf_fail(error, "%s: the score of token %u is not a number", name, id);
        v->scores[id] = (float)score;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[8];
        int length = snprintf(text, sizeof(text), "<0x%02X>", byte);
        uint32_t id = string_index_find(&v->index, v->tokens, text, (size_t)length);
        v->byte_ids[byte] = id == STRING_NOT_FOUND ? -1 : (int32_t)id;
    }
    v->adds_bos = true;
    return gguf_get_bool(file, "tokenizer.ggml.add_space_prefix", true, &v->adds_space_prefix,
                         error);
}

/* One row for each tokeniser. */
static const struct {
    const char *name; /* tokenizer.ggml.model */
    enum vocab_model model;
    bool (*load)(const gguf_file *file, vocab *v, gguf_error *error);
} models[] = {
    {"gpt2", VOCAB_BPE, load_bpe},
    {"llama", VOCAB_SPM, load_spm},
};

static bool load_model(const gguf_file *file, vocab *v, gguf_error *error)
{
    static const char name[] = "tokenizer.ggml.model";
    gguf_string model = {"", 0};
    bool present;
    if (!gguf_get_string(file, name, &model, &present, error))
        return false;
    if (!present)
        return gguf_fail(error, "%s is missing: the file has no vocabulary", name);
    for (size_t i = 0; i < N_ELEMENTS(models); i++) {
        if (strlen(models[i].name) != model.length ||
            memcmp(models[i].name, model.data, model.length) != 0)
            continue;
        v->model = models[i].model;
        return load_tokens(file, v, error) && load_types(file, v, error) &&
               load_special_ids(file, v, error) && models[i].load(file, v, error);
    }
    char shown[64];
    return gguf_refuse(error, "%s: the tokeniser \"%s\" is not supported", name,
                       gguf_quote(shown, sizeof(shown), model.data, model.length));
}

bool vocab_load(const gguf_file *file, vocab **out, gguf_error *error)
{
    bool ok = false;
    *out = NULL;
    vocab *loaded = calloc(1, sizeof(*loaded));
    if (!loaded)
        return gguf_no_memory(error, "the vocabulary");
    /* Unknown tokens are special in a text only where control tokens are. */
    const uint32_t always = 1u << TOKEN_USER_DEFINED;
    const uint32_t all = always | 1u << TOKEN_CONTROL | 1u << TOKEN_UNKNOWN;
    if (!load_model(file, loaded, error) ||
        !gguf_get_bool(file, "tokenizer.ggml.add_bos_token", loaded->adds_bos, &loaded->adds_bos,
                       error) ||
        !gguf_get_bool(file, "tokenizer.ggml.add_eos_token", false, &loaded->adds_eos, error) ||
        !collect_specials(loaded, always, &loaded->user_defined, error) ||
        !collect_specials(loaded, all, &loaded->specials, error))
        goto done;
    /* What is asked for must exist. */
    loaded->adds_bos = loaded->adds_bos && loaded->bos >= 0;
    loaded->adds_eos = loaded->adds_eos && loaded->eos >= 0;
    *out = loaded;
    loaded = NULL;
    ok = true;
done:
    vocab_free(&loaded);
    return ok;
}

void vocab_free(vocab **v)
{
    if (!v || !*v)
        return;
    free((*v)->scores);
    bpe_merges_free(&(*v)->merges);
    pretokenizer_free(&(*v)->splitter);
    special_set_free(&(*v)->specials);
    special_set_free(&(*v)->user_defined);
    string_index_free(&(*v)->index);
    free((*v)->stops);
    free((*v)->types);
    free((*v)->tokens);
    free((*v)->text);
    free(*v);
    *v = NULL;
}

enum vocab_model vocab_model_kind(const vocab *v)
{
    return v->model;
}

const char *vocab_pre_name(const vocab *v)
{
    return v->rule ? v->rule->name : "";
}

uint32_t vocab_size(const vocab *v)
{
    return v->n_tokens;
}

gguf_string vocab_token(const vocab *v, uint32_t id)
{
    return id < v->n_tokens ? v->tokens[id] : (gguf_string){"", 0};
}

enum token_type vocab_token_type(const vocab *v, uint32_t id)
{
    return id < v->n_tokens ? (enum token_type)v->types[id] : TOKEN_UNKNOWN;
}

int32_t vocab_bos(const vocab *v)
{
    return v->bos;
}

int32_t vocab_eos(const vocab *v)
{
    return v->eos;
}

int32_t vocab_eot(const vocab *v)
{
    return v->eot;
}

int32_t vocab_unknown(const vocab *v)
{
    return v->unknown;
}

int32_t vocab_pad(const vocab *v)
{
    return v->pad;
}

bool vocab_adds_bos(const vocab *v)
{
    return v->adds_bos;
}

bool vocab_adds_eos(const vocab *v)
{
    return v->adds_eos;
}

bool vocab_is_stop(const vocab *v, uint32_t id)
{
    return id < v->n_tokens && v->stops[id];
}

bool vocab_compatible(const vocab *target, const vocab *draft, gguf_error *error)
{
    char theirs[96], ours[96];
    uint32_t shared = target->n_tokens < draft->n_tokens ? target->n_tokens : draft->n_tokens;
    for (uint32_t id = 0; id < shared; id++) {
        const gguf_string *a = &target->tokens[id], *b = &draft->tokens[id];
        if (a->length != b->length || memcmp(a->data, b->data, a->length) != 0)
            return gguf_fail(error,
                             "the draft's vocabulary differs from the target's: token %u is \"%s\" "
                             "in the target and \"%s\" in the draft",
                             id, gguf_quote(ours, sizeof(ours), a->data, a->length),
                             gguf_quote(theirs, sizeof(theirs), b->data, b->length));
    }
    if (target->n_tokens != draft->n_tokens) {
        bool target_has_more = target->n_tokens > draft->n_tokens;
        const gguf_string *extra = &(target_has_more ? target : draft)->tokens[shared];
        return gguf_fail(error,
                         "the draft's vocabulary differs from the target's: the target has %u "
                         "tokens and the draft %u; token %u, \"%s\", is only in the %s",
                         target->n_tokens, draft->n_tokens, shared,
                         gguf_quote(ours, sizeof(ours), extra->data, extra->length),
                         target_has_more ? "target" : "draft");
    }
    const struct {
        const char *name;
        int32_t target, draft;
    } ids[] = {{"BOS", target->bos, draft->bos}, {"EOS", target->eos, draft->eos}};
    for (size_t i = 0; i < N_ELEMENTS(ids); i++) {
        if (ids[i].target != ids[i].draft)
            return gguf_fail(error,
                             "the draft's vocabulary differs from the target's: %s is token %d in "
                             "the target and %d in the draft (-1: none)",
                             ids[i].name, ids[i].target, ids[i].draft);
    }
    return true;
}

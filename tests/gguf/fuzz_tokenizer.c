/* Fuzzer of vocabularies and tokenisers.
 *
 * The first byte of an input says what it is: below the number of the files given by
 * OUTRIDER_FUZZ_VOCABS (a list with colons), a text for the vocabulary of that file; else a
 * vocabulary, made of what follows, and a text for it. Whatever comes out must be in range, whole
 * characters, and for byte-level BPE the text itself.
 *
 * As built by default it replays the files that are its arguments, and with a number for an
 * argument that many random inputs. To fuzz, see fuzz_gguf.c; the target is
 * tests/gguf/fuzz_tokenizer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_text.h"
#include "tokenizer.h"
#include "utf8.h"
#include "vocab_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

/* Tokenises, looks at the ids, and pushes them back. */
static void check_text(const vocab *v, const char *text, size_t n, unsigned flags, bool comes_back)
{
    int32_t *ids;
    size_t n_ids;
    gguf_error error = {.text = ""};
    bool is_valid = utf8_find_invalid(text, n) == n;
    if (!tokenize(v, text, n, flags, &ids, &n_ids, &error)) {
        require(!ids && n_ids == 0, "ids of a failure");
        require(error.text[0] != '\0' && !error.is_out_of_memory, "no reason");
        require(!is_valid || !comes_back, error.text);
        return;
    }
    require(is_valid, "broken text was taken");
    char *back = NULL;
    size_t n_back = 0, capacity = 0;
    detokenizer d;
    detokenizer_init(&d, v, true, false);
    for (size_t i = 0; i < n_ids; i++) {
        size_t before = n_back;
        require(ids[i] >= 0 && (uint32_t)ids[i] < vocab_size(v), "id out of range");
        require(detokenizer_push(&d, (uint32_t)ids[i], &back, &n_back, &capacity), "memory");
        require(utf8_find_invalid(back + before, n_back - before) == n_back - before,
                "half a character");
    }
    require(detokenizer_finish(&d, &back, &n_back, &capacity), "memory");
    if (comes_back)
        require(n_back == n && memcmp(back, text, n) == 0, "the text does not come back");
    free(back);
    free(ids);
}

enum { MOST_VOCABS = 16 };
static vocab *vocabs[MOST_VOCABS];
static size_t n_vocabs;

static void load_vocabs(void)
{
    static bool is_done;
    const char *list = getenv("OUTRIDER_FUZZ_VOCABS");
    if (is_done || !list)
        return;
    is_done = true;
    char *paths = strdup(list), *rest = NULL;
    require(paths != NULL, "memory");
    for (char *path = strtok_r(paths, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
        gguf_error error;
        require(n_vocabs < MOST_VOCABS, "too many vocabularies");
        require(load_vocab_file(path, &vocabs[n_vocabs], &error), error.text);
        n_vocabs++;
    }
    free(paths);
}

/* Reading an input bit by bit; past its end everything is zero. */
typedef struct input {
    const uint8_t *data;
    size_t n;
} input;

static uint8_t take(input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->data++;
}

static gguf_string take_string(input *in)
{
    size_t n = take(in) & 7;
    gguf_string string = {(const char *)in->data, n < in->n ? n : in->n};
    in->data += string.length;
    in->n -= string.length;
    return string;
}

static void check_made_vocab(input *in)
{
    static const char *const patterns[] = {"gpt-2", "llama-bpe", "deepseek-llm", "tekken"};
    enum { MOST = 256 };
    gguf_string tokens[MOST], merges[MOST];
    char sides[MOST][16];
    int32_t types[MOST];
    float scores[MOST];
    vocab_builder builder = {0};
    gguf_error error = {.text = ""};
    vocab *v;

    uint8_t shape = take(in);
    bool is_spm = shape & 1;
    const char *pre = patterns[shape >> 1 & 3];
    size_t n_tokens = take(in), n_merges = take(in);
    for (size_t i = 0; i < n_tokens; i++) {
        tokens[i] = take_string(in);
        types[i] = shape & 8 && i == n_tokens - 1 ? take(in) : 1 + take(in) % 6;
        /* Few bits, so that there are equals and infinities. */
        uint32_t bits = (uint32_t)take(in) << 24;
        memcpy(&scores[i], &bits, sizeof(bits));
    }
    for (size_t i = 0; i < n_merges; i++) {
        gguf_string left = take_string(in), right = take_string(in);
        memcpy(sides[i], left.data, left.length);
        sides[i][left.length] = shape & 64 && i == 3 ? '_' : ' ';
        memcpy(sides[i] + left.length + 1, right.data, right.length);
        merges[i] = (gguf_string){sides[i], left.length + 1 + right.length};
    }
    builder_string(&builder, "tokenizer.ggml.model", is_spm ? "llama" : "gpt2", is_spm ? 5 : 4);
    builder_string(&builder, "tokenizer.ggml.pre", pre, strlen(pre));
    builder_strings(&builder, "tokenizer.ggml.tokens", tokens, n_tokens);
    builder_i32s(&builder, "tokenizer.ggml.token_type", types, n_tokens);
    builder_f32s(&builder, "tokenizer.ggml.scores", scores, n_tokens);
    builder_strings(&builder, "tokenizer.ggml.merges", merges, n_merges);
    uint8_t special = take(in);
    if (special & 1)
        builder_u32(&builder, "tokenizer.ggml.bos_token_id", special >> 1);
    if (special & 16)
        builder_u32(&builder, "tokenizer.ggml.unknown_token_id", special & 15);
    builder_bool(&builder, "tokenizer.ggml.add_bos_token", shape & 16);
    builder_bool(&builder, "tokenizer.ggml.add_space_prefix", shape & 32);
    if (builder_load(&builder, &v, &error)) {
        require(vocab_compatible(v, v, &error), "a vocabulary differs from itself");
        check_text(v, (const char *)in->data, in->n, 0, false);
        check_text(v, (const char *)in->data, in->n, TOKENIZE_PARSE_SPECIAL | TOKENIZE_ADD_BOS,
                   false);
        vocab_free(&v);
    } else {
        require(!v && error.text[0] != '\0', "a failure without a reason");
    }
    builder_free(&builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    load_vocabs();
    uint8_t kind = take(&in);
    if (kind < n_vocabs) {
        bool is_bpe = vocab_model_kind(vocabs[kind]) == VOCAB_BPE;
        check_text(vocabs[kind], (const char *)in.data, in.n, 0, is_bpe);
        check_text(vocabs[kind], (const char *)in.data, in.n, TOKENIZE_PARSE_SPECIAL, is_bpe);
    } else {
        check_made_vocab(&in);
    }
    return 0;
}

#ifdef OUTRIDER_FUZZ_REPLAY
static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    static uint8_t data[1 << 20];
    size_t n = fread(data, 1, sizeof(data), file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, n);
    return 0;
}

/* Random inputs of both kinds: texts that are mostly valid, and vocabularies whose strings are made
 * of few letters, so that tokens, merges and text meet. */
static void replay_random(unsigned long n_inputs)
{
    enum { MOST = 3000 };
    static uint8_t data[MOST];
    uint64_t seed = 42;
    load_vocabs();
    for (unsigned long i = 0; i < n_inputs; i++) {
        size_t n;
        if (i % 2 == 0 && n_vocabs > 0) {
            data[0] = (uint8_t)(i / 2 % n_vocabs);
            n = 1 + random_text(&seed, (char *)data + 1, 500);
            if (random_below(&seed, 4) == 0)
                data[random_below(&seed, (uint32_t)n - 1) + (n > 1)] = (uint8_t)random_next(&seed);
        } else {
            n = random_below(&seed, MOST);
            for (size_t at = 0; at < n; at++)
                data[at] = random_below(&seed, 3)
                               ? (uint8_t) "ab \x01\x02\x03<\xe2\x96\x81"[random_below(&seed, 10)]
                               : (uint8_t)random_next(&seed);
            if (n > 4) {
                data[0] = 0xff;
                data[2] = (uint8_t)random_below(&seed, 60);
                data[3] = (uint8_t)random_below(&seed, 3) ? (uint8_t)random_below(&seed, 20) : 0;
                if (random_below(&seed, 2))
                    data[1] |= 1;
            }
        }
        LLVMFuzzerTestOneInput(data, n);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *end;
        unsigned long n_inputs = strtoul(argv[i], &end, 10);
        if (*end == '\0')
            replay_random(n_inputs);
        else if (replay_file(argv[i]) != 0)
            return 1;
    }
    for (size_t i = 0; i < n_vocabs; i++)
        vocab_free(&vocabs[i]);
    return 0;
}
#endif

/* Pre-split patterns of byte-level BPE, run by PCRE2. See pretokenize.h.
 *
 * The patterns are those of the models' own tokenisers, written so that no run of one kind of
 * character costs more than its length: nothing is searched for again and again from every place of
 * a run (the blanks at the end are anchored on both sides), and repeats are over single classes,
 * which neither recurse nor use up a stack. */
#include "pretokenize.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* White space as Unicode defines it (White_Space): all separators and these controls. PCRE2's own
 * \s has U+180E in addition. For use inside a class. */
#define SPACE "\\p{Z}\\t-\\r\\x{85}"

/* Runs of blanks leave their last one to the word that follows. */
#define BLANKS_BUT_LAST "[" SPACE "]+(?![^" SPACE "])"

/* After a word of any case. Spelled out: caseless matching in Unicode would take U+017F for an s.
 */
#define CONTRACTION "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"

#define GPT2 "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" BLANKS_BUT_LAST

#define LLAMA3(digits)                                                                             \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|"  \
                "[" SPACE "]*[\\r\\n]+|" BLANKS_BUT_LAST "|[" SPACE "]+"

/* Letters that may begin a word, and those that may go on, where a capital begins a new one. */
#define TEKKEN_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define TEKKEN_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

/* DeepSeek's list of letters that have case: those of Unicode 11 but without a few blocks
 * (Georgian, Coptic supplements, Latin extensions D and E, mathematical letters). */
#define DEEPSEEK_CASED_LETTERS                                                                     \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"                 \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"                  \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"    \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}"                 \
    "\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"                 \
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}"         \
    "\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"        \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}"                 \
    "\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}"         \
    "\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}"         \
    "\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}"                   \
    "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}"                  \
    "\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}"                 \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"                 \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"             \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"         \
    "\\x{1E900}-\\x{1E943}"

#define DEEPSEEK_PUNCTUATION                                                                       \
    "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}"

static const split_rule rules[] = {
    {
        .name = "default",
        .stages = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    },
    {
        .name = "deepseek-llm",
        .stages = {"[\\r\\n]", "[" SPACE "]?[" DEEPSEEK_CASED_LETTERS "]+",
                   "[" SPACE "]?[" DEEPSEEK_PUNCTUATION "]+",
                   /* blanks at the end of a piece */
                   "(?<![" SPACE "])[" SPACE "]++\\z",
                   /* Han, Kana, Hangul and what lies between them */
                   "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+", "\\p{N}+"},
    },
    {
        .name = "deepseek-v3",
        .stages = {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+",
                   "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
                   " ?[\\p{P}\\p{S}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|" BLANKS_BUT_LAST "|[" SPACE
                   "]+"},
    },
    {
        .name = "falcon",
        .stages = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"},
    },
    {
        .name = "gpt-2",
        .stages = {GPT2},
    },
    {
        .name = "llama-bpe",
        .ignore_merges = true,
        .adds_bos = true,
        .stages = {LLAMA3("\\p{N}{1,3}")},
    },
    {
        .name = "qwen2",
        .stages = {LLAMA3("\\p{N}")},
    },
    {
        .name = "smollm",
        .stages = {"\\p{N}", GPT2},
    },
    {
        .name = "starcoder",
        .stages = {"\\p{N}", GPT2},
    },
    {
        .name = "tekken",
        .ignore_merges = true,
        .adds_bos = true,
        .stages = {"[^\\r\\n\\p{L}\\p{N}]?" TEKKEN_UPPER "*" TEKKEN_LOWER "+|"
                   "[^\\r\\n\\p{L}\\p{N}]?" TEKKEN_UPPER "+" TEKKEN_LOWER "*|"
                   "\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*|[" SPACE
                   "]*[\\r\\n]+|" BLANKS_BUT_LAST "|[" SPACE "]+"},
    },
};

struct pretokenizer {
    const split_rule *rule;
    pcre2_match_context *context;
    pcre2_code *stages[SPLIT_MAX_STAGES];
    bool has_jit[SPLIT_MAX_STAGES];
    size_t n_stages;
};

const split_rule *split_rule_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (strlen(rules[i].name) == length && memcmp(rules[i].name, name, length) == 0)
            return &rules[i];
    }
    return NULL;
}

static bool fail_with_pcre(gguf_error *error, const split_rule *rule, size_t stage, int code)
{
    char reason[128] = "unknown error";
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAPLIMIT)
        return gguf_no_memory(error, "splitting a text");
    pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof(reason));
    return gguf_fail(error, "pre-split pattern %s, stage %zu: %s", rule->name, stage, reason);
}

bool pretokenizer_create(const split_rule *rule, pretokenizer **out, gguf_error *error)
{
    bool ok = false;
    *out = NULL;
    pretokenizer *splitter = calloc(1, sizeof(*splitter));
    if (!splitter)
        return gguf_no_memory(error, "a pre-split pattern");
    splitter->rule = rule;
    splitter->context = pcre2_match_context_create(NULL);
    if (!splitter->context) {
        gguf_no_memory(error, "a pre-split pattern");
        goto done;
    }
    /* The interpreter counts the blanks that it gives back; a long run is no reason to fail. */
    pcre2_set_match_limit(splitter->context, UINT32_MAX);
    pcre2_set_depth_limit(splitter->context, UINT32_MAX);
    pcre2_set_heap_limit(splitter->context, UINT32_MAX);
    for (size_t i = 0; i < SPLIT_MAX_STAGES && rule->stages[i]; i++) {
        int code;
        PCRE2_SIZE offset;
        pcre2_code *stage = pcre2_compile((PCRE2_SPTR)rule->stages[i], PCRE2_ZERO_TERMINATED,
                                          PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
        if (!stage) {
            fail_with_pcre(error, rule, i, code);
            goto done;
        }
        splitter->stages[i] = stage;
        splitter->n_stages = i + 1;
        /* Machine code is a matter of speed only: a system may forbid it. */
        splitter->has_jit[i] = pcre2_jit_compile(stage, PCRE2_JIT_COMPLETE) == 0;
    }
    *out = splitter;
    splitter = NULL;
    ok = true;
done:
    pretokenizer_free(&splitter);
    return ok;
}

void pretokenizer_free(pretokenizer **splitter)
{
    if (!splitter || !*splitter)
        return;
    for (size_t i = 0; i < (*splitter)->n_stages; i++)
        pcre2_code_free((*splitter)->stages[i]);
    pcre2_match_context_free((*splitter)->context);
    free(*splitter);
    *splitter = NULL;
}

static bool add_piece(piece_list *pieces, size_t end)
{
    if (pieces->n == pieces->capacity) {
        size_t capacity = pieces->capacity ? pieces->capacity * 2 : 64;
        uint32_t *ends = realloc(pieces->ends, capacity * sizeof(ends[0]));
        if (!ends)
            return false;
        pieces->ends = ends;
        pieces->capacity = capacity;
    }
    pieces->ends[pieces->n++] = (uint32_t)end;
    return true;
}

/* The next match at or after `from`. A stack that machine code outgrew is no error: the interpreter
 * keeps its frames on the heap. */
static int match_stage(const pretokenizer *splitter, size_t stage, const char *text, size_t n,
                       size_t from, pcre2_match_data *match)
{
    const pcre2_code *code = splitter->stages[stage];
    if (splitter->has_jit[stage]) {
        int found = pcre2_jit_match(code, (PCRE2_SPTR)text, n, from, 0, match, splitter->context);
        if (found != PCRE2_ERROR_JIT_STACKLIMIT)
            return found;
    }
    return pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                       splitter->context);
}

/* Cuts one piece of the text, which begins at `base`, by one stage. */
static bool split_piece(const pretokenizer *splitter, size_t stage, const char *text, size_t base,
                        size_t n, pcre2_match_data *match, piece_list *out, gguf_error *error)
{
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
    size_t at = 0;
    while (at < n) {
        int found = match_stage(splitter, stage, text + base, n, at, match);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0)
            return fail_with_pcre(error, splitter->rule, stage, found);
        if (range[1] <= at) /* no pattern here matches nothing; still, never loop for ever */
            break;
        if ((range[0] > at && !add_piece(out, base + range[0])) || !add_piece(out, base + range[1]))
            return gguf_no_memory(error, "splitting a text");
        at = range[1];
    }
    if (at < n && !add_piece(out, base + n))
        return gguf_no_memory(error, "splitting a text");
    return true;
}

bool pretokenizer_split(const pretokenizer *splitter, const char *text, size_t n_bytes,
                        piece_list *pieces, gguf_error *error)
{
    bool ok = false;
    piece_list current = {0}, next = {0};
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    *pieces = (piece_list){0};
    if (!match || (n_bytes > 0 && !add_piece(&current, n_bytes))) {
        gguf_no_memory(error, "splitting a text");
        goto done;
    }
    for (size_t stage = 0; stage < splitter->n_stages; stage++) {
        size_t base = 0;
        next.n = 0;
        for (size_t i = 0; i < current.n; i++) {
            size_t end = current.ends[i];
            if (!split_piece(splitter, stage, text, base, end - base, match, &next, error))
                goto done;
            base = end;
        }
        piece_list swapped = current;
        current = next;
        next = swapped;
    }
    *pieces = current;
    current = (piece_list){0};
    ok = true;
done:
    free(next.ends);
    free(current.ends);
    pcre2_match_data_free(match);
    return ok;
}

/* `outrider bench`: measures single passes and generations on this device. Every test is warmed up,
 * then all of them take turns, so that a machine's mood meets all alike. */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "text.h"

#define MAX_TESTS 64
#define MAX_PREFILL 65536

struct settings {
    const char *model, *draft, *file, *rows, *prefill, *device;
    otr_cache_type cache_type;
    int64_t n_predict, draft_max, repeats, depth, verify;
    bool json, quiet, validation;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"-m", "--model"}, OPTION_TEXT, AT(model), "FILE", 0, 0,
     "target model, GGUF (default: the demo pair)"},
    {{"-md", "--model-draft", "--draft-model"}, OPTION_TEXT, AT(draft), "FILE", 0, 0,
     "draft model: adds the tests draft and speculate"},
    {{"-p", "--prefill"}, OPTION_TEXT, AT(prefill), "N,N", 0, 0,
     "rows of the prefill tests (default 64,512)"},
    {{"--rows"}, OPTION_TEXT, AT(rows), "N,N", 0, 0,
     "rows of the verify tests, 2 to 17 (default 2 to 17)"},
    {{"-n", "--predict"}, OPTION_INTEGER, AT(n_predict), "N", 2, INT32_MAX,
     "tokens of a generation (default 64)"},
    {{"--draft-max", "--draft", "--draft-n"}, OPTION_INTEGER, AT(draft_max), "K", 1, OTR_MAX_DRAFT,
     "tokens drafted a block (default 5)"},
    {{"--verify"}, OPTION_CHOICE, AT(verify), "coupled|rejection|block", 0, 0,
     "how generations verify what was drafted (default coupled)"},
    {{"-f", "--file"}, OPTION_TEXT, AT(file), "FILE", 0, 0,
     "text that the generations continue (default: a short one)"},
    {{"-d", "--depth"}, OPTION_INTEGER, AT(depth), "N", 0, MAX_PREFILL,
     "tokens in the cache before each pass (default 0)"},
    {{"-r", "--repetitions"}, OPTION_INTEGER, AT(repeats), "N", 1, 10000,
     "runs of every test (default 5)"},
    {{"-ct", "--cache-type"}, OPTION_CACHE, AT(cache_type), "TYPE", 0, 0,
     "keys and values as f16, or as q8_0: 9 bits an element, not 16,\n"
     "for long contexts (default f16)"},
    {{"-dev", "--device"}, OPTION_TEXT, AT(device), "NAME", 0, 0,
     "index, UUID or part of a name: see 'outrider devices'"},
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0, "print one JSON object"},
    {{"-q", "--quiet"}, OPTION_SET, AT(quiet), NULL, 0, 0, "no progress or warnings"},
    {{"--validate"}, OPTION_SET, AT(validation), NULL, 0, 0,
     "run under the Vulkan validation layers"},
};
/* clang-format on */

static const command_line line = {
    .name = "bench",
    .usage = "[-m FILE [-md FILE]] [options]\n       outrider bench --compare A.json B.json",
    .about =
        "Measures decoding, verification of several rows, prefill, the draft, and generations "
        "with\n"
        "and without it: the median of several runs, the least and the most, tokens/s, and the\n"
        "bandwidth that reading the weights needs, beside that of copies on the device.\n"
        "--compare shows two results side by side.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes = "--json: {schema, version, device, driver, model, draft, depth, cache_type, verify,\n"
             "copy_bytes_per_second, results: [{test, rows, repeats, median_s, min_s, max_s,\n"
             "tokens_per_second, weight_bytes, bytes_per_second, dispatches, host_us,\n"
             "acceptance}]}; test is decode, verify, prefill, draft or speculate, whose rows are\n"
             "K, 0 without the draft. apps/docs/bench.md explains each test and field.\n",
};

typedef struct bench {
    engine *e;
    const struct settings *settings;
    otr_session *passes;      /* keeps the tokens that --depth asks for */
    otr_session *generations; /* of its own, so that a long cache is filled once */
    int32_t *prompt;
    size_t n_prompt;
    bench_result results[MAX_TESTS];
    size_t n_results;
} bench;

static int add_test(bench *b, enum bench_test test, uint32_t rows)
{
    bench_result *r = &b->results[b->n_results];

    if (b->n_results == MAX_TESTS)
        return fail(EXIT_CODE_USAGE, "more than %d tests", MAX_TESTS);
    *r = (bench_result){.test = test, .rows = rows, .acceptance = -1};
    r->seconds = calloc((size_t)b->settings->repeats, sizeof(*r->seconds));
    if (!r->seconds)
        return fail_memory();
    b->n_results++;
    return EXIT_CODE_OK;
}

/* One test for each number of a list such as "2,4,8". */
static int add_list(bench *b, const char *name, const char *list, enum bench_test test, long least,
                    long most)
{
    for (const char *at = list;;) {
        char *end;
        long rows;
        int code;

        errno = 0;
        rows = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || errno || rows < least || rows > most)
            return fail(EXIT_CODE_USAGE, "%s needs numbers from %ld to %ld with commas, not '%s'",
                        name, least, most, list);
        code = add_test(b, test, (uint32_t)rows);
        if (code || !*end)
            return code;
        at = end + 1;
    }
}

static int add_tests(bench *b)
{
    const struct settings *s = b->settings;
    int code = add_test(b, BENCH_DECODE, 1);

    if (!code)
        code = add_list(b, "--rows", s->rows ? s->rows : "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
                        BENCH_VERIFY, 2, OTR_MAX_DRAFT + 1);
    if (!code)
        code = add_list(b, "--prefill", s->prefill ? s->prefill : "64,512", BENCH_PREFILL, 1,
                        MAX_PREFILL);
    return code;
}

static int add_draft_tests(bench *b)
{
    int code = EXIT_CODE_OK;

    if (b->e->draft) {
        code = add_test(b, BENCH_DRAFT, 1);
        if (!code)
            code = add_test(b, BENCH_SPECULATE, (uint32_t)b->settings->draft_max);
    }
    return code ? code : add_test(b, BENCH_SPECULATE, 0);
}

static otr_verify verify_of(const bench *b)
{
    return b->settings->verify ? (otr_verify)(b->settings->verify - 1) : OTR_VERIFY_COUPLED;
}

static otr_result generate(bench *b, bench_result *r, double *seconds)
{
    otr_generate_params params = otr_generate_params_default();
    otr_stats stats = {.size = sizeof(stats)};
    otr_result result = otr_session_rewind(b->generations, 0);

    interrupt_watch(b->generations);
    params.max_tokens = (int32_t)b->settings->n_predict;
    params.draft_max = r->rows;
    params.ignore_stop_tokens = true;
    params.plain_probes = 0;
    params.verify = verify_of(b);
    if (result == OTR_OK)
        result = otr_session_append(b->generations, b->prompt, b->n_prompt, NULL, NULL);
    if (result == OTR_OK)
        result = otr_generate(b->generations, &params, NULL, NULL, &stats);
    /* The tokens after the first, and the time that they took. */
    r->tokens = stats.emitted > 1 ? stats.emitted - 1 : 0;
    *seconds = stats.tokens_per_second > 0 ? (double)r->tokens / stats.tokens_per_second : 0;
    r->acceptance = r->rows && stats.verified ? stats.acceptance : -1;
    return result;
}

static otr_result measure(bench *b, bench_result *r, double *seconds)
{
    otr_measure_params params = otr_measure_params_default();
    otr_measurement m = {.size = sizeof(m)};
    otr_result result;

    params.path = r->test == BENCH_PREFILL ? OTR_EVALUATE_PREFILL : OTR_EVALUATE_ROWS;
    params.rows = r->rows;
    params.use_draft = r->test == BENCH_DRAFT;
    result = otr_session_measure(b->passes, &params, &m);
    *seconds = m.seconds;
    r->tokens = r->rows;
    r->weight_bytes = m.weight_bytes;
    r->dispatches = m.dispatches;
    if (r->n == 0 || m.host_seconds < r->host_seconds)
        r->host_seconds = m.host_seconds;
    return result;
}

/* The passes' cache: as many tokens as --depth says. */
static otr_result fill_cache(bench *b)
{
    size_t n = (size_t)b->settings->depth;
    int32_t *ids = malloc((n + 1) * sizeof(*ids));
    progress shown = progress_begin("filling the cache", !b->e->quiet && progress_wanted());
    otr_result result = ids ? OTR_OK : OTR_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; ids && i < n; i++)
        ids[i] = b->prompt[i % b->n_prompt];
    interrupt_watch(b->passes);
    if (result == OTR_OK && n)
        result = otr_session_append(b->passes, ids, n, progress_update, &shown);
    progress_end(&shown);
    free(ids);
    return result;
}

/* Round 0 warms up. */
static otr_result run_rounds(bench *b)
{
    uint64_t rounds = (uint64_t)b->settings->repeats + 1;
    progress shown = progress_begin("measuring", !b->e->quiet && progress_wanted());
    otr_result result = OTR_OK;

    for (uint64_t round = 0; round < rounds && result == OTR_OK; round++) {
        for (size_t i = 0; i < b->n_results && result == OTR_OK; i++) {
            bench_result *r = &b->results[i];
            double seconds = 0;

            result = (r->test == BENCH_SPECULATE ? generate : measure)(b, r, &seconds);
            if (result == OTR_OK && round)
                r->seconds[r->n++] = seconds;
            if (!progress_update(round * b->n_results + i, rounds * b->n_results, &shown) ||
                interrupt_signal())
                result = OTR_ERROR_CANCELLED;
        }
    }
    progress_end(&shown);
    return result;
}

static int run(bench *b)
{
    otr_result result = fill_cache(b);

    if (result == OTR_OK)
        result = run_rounds(b);
    if (result == OTR_ERROR_CANCELLED && interrupt_signal())
        return EXIT_CODE_SIGNAL + interrupt_signal();
    return result == OTR_OK ? EXIT_CODE_OK : fail_result(&b->e->log, b->e->context, result);
}

static int read_prompt(bench *b)
{
    static const char text_of_default[] =
        "The little program read the file line by line. For each line it counted the words, and "
        "then";
    text t = {0};
    int code = EXIT_CODE_OK;

    if (b->settings->file)
        code = input_file(b->settings->file, &t);
    else
        text_append(&t, text_of_default, sizeof(text_of_default) - 1);
    if (!code)
        code = engine_tokenize(b->e, text_string(&t), t.n, &b->prompt, &b->n_prompt);
    if (!code && !b->n_prompt)
        code = fail(EXIT_CODE_INPUT, "the text has no tokens; give a longer one with -f FILE");
    text_free(&t);
    return code;
}

static int open_session(bench *b, uint64_t n_ctx, otr_session **session)
{
    otr_session_params params = otr_session_params_default();
    otr_result result;

    if (n_ctx > INT32_MAX)
        return fail(EXIT_CODE_USAGE, "%" PRIu64 " tokens are more than a context can have", n_ctx);
    params.n_ctx = (uint32_t)n_ctx;
    params.cache_type = b->settings->cache_type;
    result = otr_session_create(b->e->target, b->e->draft, &params, session);
    return result == OTR_OK ? EXIT_CODE_OK : fail_result(&b->e->log, b->e->context, result);
}

static int open_sessions(bench *b)
{
    uint64_t rows = OTR_MAX_DRAFT + 1;
    int code;

    for (size_t i = 0; i < b->n_results; i++)
        rows = b->results[i].rows > rows ? b->results[i].rows : rows;
    code = open_session(b, rows + (uint64_t)b->settings->depth, &b->passes);
    if (!code)
        code = open_session(b, b->n_prompt + (uint64_t)b->settings->n_predict, &b->generations);
    return code;
}

static int report(bench *b)
{
    bench_report report = {
        .e = b->e,
        .results = b->results,
        .n_results = b->n_results,
        .depth = b->settings->depth,
        .cache_type = b->settings->cache_type,
        .verify = verify_of(b),
    };
    otr_result result = otr_session_measure_copy(b->passes, &report.copy_bytes_per_second);

    if (result != OTR_OK)
        return fail_result(&b->e->log, b->e->context, result);
    if (b->settings->json)
        return output_json(bench_json(&report)) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
    return bench_print(&report) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

int command_bench(int argc, char **argv)
{
    struct settings settings = {.n_predict = 64, .draft_max = 5, .repeats = 5};
    bench b = {.settings = &settings};
    engine_params params;
    engine e;
    int code;

    if (argc > 0 && strcmp(argv[0], "--compare") == 0) {
        if (argc != 3)
            return fail(EXIT_CODE_USAGE, "--compare needs two files, as in 'outrider bench "
                                         "--compare before.json after.json'");
        return output_finish(bench_compare(argv[1], argv[2]));
    }
    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    code = add_tests(&b);
    if (code)
        goto done;
    params = (engine_params){
        .model = settings.model,
        .draft = settings.draft,
        .with_demo_draft = true,
        .device = settings.device,
        .validation = settings.validation,
        .quiet = settings.quiet,
    };
    code = engine_open(&e, &params);
    b.e = &e;
    if (!code)
        code = add_draft_tests(&b);
    if (!code)
        code = read_prompt(&b);
    if (!code)
        code = open_sessions(&b);
    if (!code)
        code = run(&b);
    if (!code)
        code = report(&b);
    interrupt_watch(NULL);
    otr_session_destroy(&b.generations);
    otr_session_destroy(&b.passes);
    code = engine_check_validation(&e, code);
    code = output_finish(engine_close(&e, code));
done:
    for (size_t i = 0; i < b.n_results; i++)
        free(b.results[i].seconds);
    free(b.prompt);
    return code;
}

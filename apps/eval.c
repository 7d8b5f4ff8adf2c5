/* `outrider eval`: measures a model. Two forms:
 *   perplexity of a text, with its standard error;
 *   logits of given tokens (and of a greedy continuation), summed up row by row, in the shape of
 * the golden files that tests/ compares with. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "eval.h"
#include "input.h"
#include "options.h"
#include "output.h"
#include "text.h"

#define AT(field) offsetof(struct eval_settings, field)
/* clang-format off */
static const option options[] = {
    {{"-m", "--model"}, OPTION_TEXT, AT(model), "FILE", 0, 0,
     "model, GGUF (default: the demo target)"},
    {{"-f", "--file"}, OPTION_TEXT, AT(file), "FILE", 0, 0,
     "text, '-' is standard input: its perplexity"},
    {{"-p", "--prompt"}, OPTION_TEXT, AT(prompt), "TEXT", 0, 0, "the same for a short text"},
    {{"--ids"}, OPTION_TEXT, AT(ids), "1,2,3", 0, 0,
     "token ids: the logits of every position. Nothing is put\n"
     "before them"},
    {{"-n", "--predict"}, OPTION_INTEGER, AT(n_predict), "N", 0, INT32_MAX,
     "logits, not perplexity: continue greedily by N tokens, past\n"
     "any end of text, and show those positions too"},
    {{"--rows"}, OPTION_INTEGER, AT(rows), "K", 0, OTR_MAX_DRAFT + 1,
     "use the kernels of decoding, K rows a pass; 0: those of\n"
     "prefill (default 0)"},
    {{"-c", "--ctx-size"}, OPTION_CONTEXT, AT(n_ctx), "N", 0, OTR_MAX_CONTEXT,
     "window of the perplexity in tokens (default 512, or the\n"
     "model's context if that is less)"},
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
    .name = "eval",
    .usage = "[-m FILE] (-f FILE | -p TEXT | --ids IDS) [options]",
    .about =
        "Perplexity of a text, or the logits of given tokens.\n\n"
        "A text longer than the window is cut into windows that overlap by half: each token is\n"
        "predicted once, from at least half a window of text (in the first window from what\n"
        "there is). Each window begins with the model's BOS if the model asks for one. The\n"
        "standard error is that of the mean log-likelihood, times the perplexity.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes = "--json, perplexity: {model, device, tokens, scored, window, perplexity,\n"
             "standard_error, mean_nll, tokens_per_second}. --json, logits: {model, device,\n"
             "prompt_ids, greedy_ids, rows: [{top_ids, top_logits, logsumexp, mean, rms}]}; row i\n"
             "follows token i, the 16 highest logits come first to last, ties by lower id.\n",
};

double eval_logsumexp(const float *logits, uint32_t n)
{
    double highest = -INFINITY, sum = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return NAN;
        highest = logits[i] > highest ? logits[i] : highest;
    }
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logits[i] - highest);
    return highest + log(sum);
}

int eval_fail_not_finite(engine *e)
{
    fail_result(&e->log, e->context, OTR_ERROR_CANCELLED); /* what the library says of it */
    return fail(EXIT_CODE_INPUT, "the logits are not finite: the model's weights may be damaged; "
                                 "'outrider selftest' checks the device");
}

otr_evaluate_params eval_params(const struct eval_settings *settings)
{
    otr_evaluate_params params = otr_evaluate_params_default();

    params.path = settings->rows ? OTR_EVALUATE_ROWS : OTR_EVALUATE_PREFILL;
    params.rows = (uint32_t)settings->rows;
    return params;
}

static int parse_ids(const char *list, int32_t **ids, size_t *n_ids)
{
    size_t capacity = 1;
    const char *at = list;

    for (const char *c = list; *c; c++)
        capacity += *c == ',';
    *ids = malloc(capacity * sizeof(**ids));
    if (!*ids)
        return fail_memory();
    for (;;) {
        char *end;
        long long id;

        errno = 0;
        id = strtoll(at, &end, 10);
        if (end == at || *at < '0' || *at > '9' || (*end && *end != ','))
            return fail(EXIT_CODE_USAGE, "--ids needs token ids such as 1,2,3, not '%s'", list);
        if (errno == ERANGE || id < 0 || id > INT32_MAX)
            return fail(EXIT_CODE_USAGE, "--ids: %.*s is no token id", (int)(end - at), at);
        (*ids)[(*n_ids)++] = (int32_t)id;
        if (!*end)
            return EXIT_CODE_OK;
        at = end + 1;
    }
}

static int check_ids(const engine *e, const int32_t *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids; i++) {
        if ((uint32_t)ids[i] >= e->target_info.n_vocab)
            return fail(EXIT_CODE_USAGE,
                        "--ids: %" PRId32 " at place %zu is no token of the model, "
                        "which has %" PRIu32,
                        ids[i], i + 1, e->target_info.n_vocab);
    }
    return EXIT_CODE_OK;
}

static int read_input(const struct eval_settings *settings, text *input, int32_t **ids,
                      size_t *n_ids)
{
    if (!settings->file + !settings->prompt + !settings->ids != 2)
        return fail(EXIT_CODE_USAGE, "give a text with -f FILE or -p TEXT, or tokens with --ids; "
                                     "one of them");
    if (settings->ids)
        return parse_ids(settings->ids, ids, n_ids);
    if (settings->file)
        return input_file(settings->file, input);
    text_append_unescaped(input, settings->prompt, strlen(settings->prompt));
    return input_check("the text (-p)", input);
}

int command_eval(int argc, char **argv)
{
    struct eval_settings settings = {.n_predict = -1};
    engine_params params;
    engine e;
    text input = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    code = read_input(&settings, &input, &ids, &n_ids);
    if (code)
        goto done;
    params = (engine_params){
        .model = settings.model,
        .device = settings.device,
        .validation = settings.validation,
        .quiet = settings.quiet,
    };
    code = engine_open(&e, &params);
    if (!code)
        code = settings.ids ? check_ids(&e, ids, n_ids)
                            : engine_tokenize(&e, text_string(&input), input.n, &ids, &n_ids);
    if (!code && (settings.ids || settings.n_predict >= 0))
        code = eval_logits(&e, &settings, &ids, n_ids);
    else if (!code)
        code = eval_perplexity(&e, &settings, ids, n_ids);
    code = engine_check_validation(&e, code);
    code = engine_close(&e, code);
done:
    text_free(&input);
    free(ids);
    return code;
}

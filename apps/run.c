/* `outrider run`: writes text. Options mean what llama.cpp's users expect.
 *
 * Order: options, prompt, models, tokens, prefill, generation, statistics. The text goes to stdout
 * as it is made, everything else to stderr; with --json one object goes to stdout and nothing else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "engine.h"
#include "input.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "report_file.h"
#include "text.h"
#include "trace.h"

/* Integers that every JSON reader keeps exactly. */
#define MAX_SEED 9007199254740992.0

struct settings {
    const char *model, *draft, *prompt, *file, *device, *draft_device, *trace;
    otr_cache_type cache_type;
    int64_t n_predict, top_k, repeat_last_n, seed, n_ctx, draft_max, schedule, drafter, verify,
        draft_queue;
    double temperature, top_p, min_p, repeat_penalty;
    option_list stop;
    bool escape, display_prompt, ignore_eos, json, quiet, verbose, validation;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"-m", "--model"}, OPTION_TEXT, AT(model), "FILE", 0, 0,
     "target model, GGUF (default: the demo pair)"},
    {{"-md", "--draft-model", "--model-draft"}, OPTION_TEXT, AT(draft), "FILE", 0, 0,
     "draft model, of the same vocabulary\n"
     "(default with -m: none)"},
    {{"-p", "--prompt"}, OPTION_TEXT, AT(prompt), "TEXT", 0, 0,
     "text to continue; \\n, \\t, \\\", \\\\ and \\xHH are replaced"},
    {{"-f", "--file"}, OPTION_TEXT, AT(file), "FILE", 0, 0,
     "text to continue, from a file, as it is but for one newline\n"
     "at its end; '-' is standard input, the default when that is\n"
     "no terminal"},
    {{"-e", "--escape"}, OPTION_SET, AT(escape), NULL, 0, 0,
     "replace escapes in -p and --stop (default)"},
    {{"--no-escape"}, OPTION_CLEAR, AT(escape), NULL, 0, 0, "take them as they are"},
    {{"-n", "--predict", "--n-predict"}, OPTION_INTEGER, AT(n_predict), "N", -2, INT32_MAX,
     "most tokens to write; -1 or -2: until the end of the text or\n"
     "the context (default -1)"},
    {{"-c", "--ctx-size"}, OPTION_CONTEXT, AT(n_ctx), "N", 0, OTR_MAX_CONTEXT,
     "context in tokens, prompt and text together\n"
     "(default 0: the model's, at most 4096)"},
    {{"-ct", "--cache-type"}, OPTION_CACHE, AT(cache_type), "TYPE", 0, 0,
     "keys and values as f16, or as q8_0: 9 bits an element, not 16,\n"
     "for long contexts (default f16)"},
    {{"--temp", "--temperature"}, OPTION_NUMBER, AT(temperature), "T", 0, 100,
     "temperature; 0: always the likeliest token (default 0.8)"},
    OPTIONS_OF_KEPT_TOKENS(AT),
    {{"--repeat-penalty"}, OPTION_NUMBER, AT(repeat_penalty), "X", 0.01, 100,
     "divide what was said before by X; 1: off (default 1)"},
    {{"--repeat-last-n"}, OPTION_INTEGER, AT(repeat_last_n), "N", 0, 512,
     "tokens that the penalty looks back on; 0: off (default 64)"},
    {{"-s", "--seed"}, OPTION_INTEGER, AT(seed), "N", -1, MAX_SEED,
     "the same seed gives the same text; -1: a random one, which\n"
     "the statistics name (default -1)"},
    {{"--stop", "-r", "--reverse-prompt"}, OPTION_LIST, AT(stop), "TEXT", 0, 0,
     "end before this text; may be given several times"},
    {{"--ignore-eos"}, OPTION_SET, AT(ignore_eos), NULL, 0, 0,
     "go on after the model's end of text"},
    {{"--draft-max", "--draft", "--draft-n"}, OPTION_INTEGER, AT(draft_max), "K", -1, OTR_MAX_DRAFT,
     "tokens drafted a block; 0: plain decoding, the draft isn't\n"
     "loaded; -1: as many as pay, or none (default -1)"},
    {{"--drafter"}, OPTION_CHOICE, AT(drafter), "model|ngram|both", 0, 0,
     "who drafts; ngram: what followed an earlier occurrence of the\n"
     "text's end, which needs no draft model (default: with\n"
     "--draft-max -1 both, else the draft model)"},
    {{"--schedule"}, OPTION_CHOICE, AT(schedule), "auto|serial|pipelined", 0, 0,
     "serial: the draft works before the target; pipelined: for the\n"
     "next block while the target checks this one; auto: pipelined\n"
     "where that is faster and the draft has a queue or device of\n"
     "its own (default auto)"},
    {{"--verify"}, OPTION_CHOICE, AT(verify), "coupled|rejection|block", 0, 0,
     "coupled: the text is the target's alone; rejection, block:\n"
     "it depends on the draft too, with the same distribution, and\n"
     "the serial schedule (default coupled)"},
    {{"-dev", "--device"}, OPTION_TEXT, AT(device), "NAME", 0, 0,
     "index, UUID or part of a name: see 'outrider devices'"},
    {{"-devd", "--draft-device", "--device-draft"}, OPTION_TEXT, AT(draft_device), "NAME", 0, 0,
     "the draft's device; the target's own is opened a second time,\n"
     "so that both run at once (default: shared with the target)"},
    {{"--draft-queue"}, OPTION_CHOICE, AT(draft_queue), "own|shared", 0, 0,
     "on a shared device: a queue of its own where there are two,\n"
     "so that both can run at once, or the target's (default own)"},
    {{"--trace"}, OPTION_TEXT, AT(trace), "FILE", 0, 0,
     "write what was drafted and accepted, token by token, for\n"
     "'outrider simulate'"},
    {{"--no-display-prompt"}, OPTION_CLEAR, AT(display_prompt), NULL, 0, 0,
     "don't repeat the prompt before the text"},
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0,
     "print one JSON object at the end instead of the text"},
    {{"-q", "--quiet"}, OPTION_SET, AT(quiet), NULL, 0, 0,
     "no progress, statistics or warnings on standard error"},
    {{"--verbose"}, OPTION_SET, AT(verbose), NULL, 0, 0,
     "on standard error, for every block: who drafted, why, what it\n"
     "brought, what was expected"},
    {{"--validate"}, OPTION_SET, AT(validation), NULL, 0, 0,
     "run under the Vulkan validation layers; exit code 1 if they\n"
     "complain"},
};
/* clang-format on */

static const command_line line = {
    .name = "run",
    .usage = "[-m FILE [-md FILE]] [-p TEXT | -f FILE] [options]",
    .about =
        "Continues a text. With a draft model the draft proposes up to K tokens and the target\n"
        "checks them in one pass; the text is the same as without. At the end a short block on\n"
        "standard error says what that earned. Ctrl-C ends the text and still gives the block;\n"
        "a second one kills.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes = "--json: {text, tokens, finish_reason, seed, model, draft, device, stats}.\n"
             "finish_reason is stop, length, context, cancelled or error.\n",
};

/* Where the text goes while it is made. */
struct stream {
    bool collect;  /* for --json */
    bool terminal; /* control characters are shown, not obeyed */
    text collected;
    bool ends_line;
};

static bool stream_write(struct stream *s, const char *bytes, size_t n)
{
    bool written;
    text safe = {0};

    if (s->collect) {
        text_append(&s->collected, bytes, n);
        return !s->collected.failed;
    }
    if (n)
        s->ends_line = bytes[n - 1] == '\n';
    if (s->terminal) {
        text_append_printable(&safe, bytes, n, PRINTABLE_KEEP_LINES);
        written = !safe.failed && output_write(text_string(&safe), safe.n);
    } else {
        written = output_write(bytes, n);
    }
    text_free(&safe);
    return output_flush() && written;
}

static bool on_text(const char *bytes, size_t n, void *user)
{
    return stream_write(user, bytes, n) && !interrupt_signal();
}

static int read_prompt(const struct settings *settings, text *prompt)
{
    int code;

    if (settings->prompt && settings->file)
        return fail(EXIT_CODE_USAGE, "-p and -f both give a prompt; choose one");
    if (settings->prompt) {
        size_t n = strlen(settings->prompt);

        if (settings->escape)
            text_append_unescaped(prompt, settings->prompt, n);
        else
            text_append(prompt, settings->prompt, n);
        return input_check("the prompt (-p)", prompt);
    }
    if (!settings->file && isatty(STDIN_FILENO))
        return fail(EXIT_CODE_USAGE, "no prompt; give one with -p TEXT, -f FILE or on standard "
                                     "input");
    code = input_file(settings->file ? settings->file : "-", prompt);
    if (code)
        return code;
    if (!settings->file && prompt->n == 0)
        return fail(EXIT_CODE_USAGE, "no prompt: standard input is empty; give one with -p TEXT or "
                                     "-f FILE");
    if (prompt->n && prompt->data[prompt->n - 1] == '\n')
        prompt->data[--prompt->n] = '\0';
    return EXIT_CODE_OK;
}

/* Stop strings after unescaping; freed with free_stops. */
static int read_stops(const struct settings *settings, text **stops)
{
    *stops = calloc(settings->stop.n + 1, sizeof(**stops));
    if (!*stops)
        return fail_memory();
    for (size_t i = 0; i < settings->stop.n; i++) {
        const char *item = settings->stop.items[i];
        int code;

        if (settings->escape)
            text_append_unescaped(&(*stops)[i], item, strlen(item));
        else
            text_append(&(*stops)[i], item, strlen(item));
        code = input_check("--stop", &(*stops)[i]);
        if (code)
            return code;
        if (!(*stops)[i].n || strlen((*stops)[i].data) != (*stops)[i].n)
            return fail(EXIT_CODE_USAGE, "--stop needs a text that is not empty and has no NUL");
    }
    return EXIT_CODE_OK;
}

static void free_stops(const struct settings *settings, text *stops)
{
    for (size_t i = 0; stops && i < settings->stop.n; i++)
        text_free(&stops[i]);
    free(stops);
}

static uint64_t choose_seed(int64_t given)
{
    uint32_t seed;

    if (given >= 0)
        return (uint64_t)given;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = (uint32_t)time(NULL) ^ (uint32_t)getpid() << 16;
    return seed;
}

static otr_generate_params generate_params(const struct settings *settings, uint64_t seed)
{
    otr_generate_params params = otr_generate_params_default();

    params.sampling.seed = seed;
    params.sampling.temperature = (float)settings->temperature;
    params.sampling.top_k = (int32_t)settings->top_k;
    params.sampling.top_p = (float)settings->top_p;
    params.sampling.min_p = (float)settings->min_p;
    params.sampling.repeat_penalty = (float)settings->repeat_penalty;
    params.sampling.repeat_last_n = (int32_t)settings->repeat_last_n;
    params.max_tokens = (int32_t)settings->n_predict;
    params.draft_max = settings->draft_max < 0 ? OTR_DRAFT_AUTO : (uint32_t)settings->draft_max;
    params.ignore_stop_tokens = settings->ignore_eos;
    if (settings->schedule)
        params.schedule = (otr_schedule)(settings->schedule - 1);
    if (settings->verify)
        params.verify = (otr_verify)(settings->verify - 1);
    params.drafters = (uint32_t)settings->drafter; /* in the order of the flags */
    return params;
}

/* Takes the collected text; NULL when memory runs out. */
static json_t *result_object(const engine *e, const struct stream *stream, const int32_t *ids,
                             size_t n_ids, uint64_t seed, const otr_stats *stats)
{
    json_t *object = json_object(), *tokens = json_array();
    char *stats_text = NULL;
    json_t *stats_value = NULL;
    const char *draft = e->draft_path;
    int bad = 0;

    if (otr_stats_to_json(stats, &stats_text) == OTR_OK)
        stats_value = json_loads(stats_text, 0, NULL);
    for (size_t i = 0; i < n_ids; i++)
        bad |= json_array_append_new(tokens, json_integer(ids[i]));
    bad |= json_object_set_new(object, "text",
                               json_text(text_string(&stream->collected), stream->collected.n));
    bad |= json_object_set_new(object, "tokens", tokens);
    bad |= json_object_set_new(object, "finish_reason",
                               json_string(otr_finish_string(stats->finish)));
    bad |= json_object_set_new(object, "seed", json_integer((json_int_t)seed));
    bad |= json_object_set_new(object, "model", json_text(e->target_path, strlen(e->target_path)));
    bad |= json_object_set_new(object, "draft",
                               draft ? json_text(draft, strlen(draft)) : json_null());
    bad |= json_object_set_new(object, "device", json_text(e->device.name, strlen(e->device.name)));
    bad |= json_object_set_new(object, "stats", stats_value);
    otr_free(stats_text);
    if (bad) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static int append_prompt(engine *e, otr_session *session, const text *prompt, bool show_progress)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    progress shown = progress_begin("reading the prompt", show_progress);
    otr_result result;
    int code = engine_tokenize(e, text_string(prompt), prompt->n, &ids, &n_ids);

    if (code)
        goto done;
    if (n_ids == 0) {
        int32_t bos = otr_token_bos(e->target);

        if (bos < 0) {
            code = fail(EXIT_CODE_INPUT, "the prompt is empty, and this model has no token to "
                                         "begin a text with; give a prompt");
            goto done;
        }
        ids[n_ids++] = bos;
    }
    result = otr_session_append(session, ids, n_ids, progress_update, &shown);
    progress_end(&shown);
    if (result != OTR_OK)
        code = fail_result(&e->log, e->context, result);
done:
    free(ids);
    return code;
}

/* With models loaded: everything up to the end block. */
static int generate(engine *e, const struct settings *settings, const text *prompt,
                    const text *stops)
{
    otr_session_params session_params = otr_session_params_default();
    uint64_t seed = choose_seed(settings->seed);
    otr_generate_params params = generate_params(settings, seed);
    struct stream stream = {
        .collect = settings->json, .terminal = isatty(STDOUT_FILENO), .ends_line = true};
    otr_stats stats = {.size = sizeof(stats), .finish = OTR_FINISH_ERROR};
    const char **stop_strings = calloc(settings->stop.n + 1, sizeof(*stop_strings));
    otr_session *session = NULL;
    trace_log trace = {0};
    const int32_t *ids;
    size_t n_prompt = 0, n_all = 0;
    otr_result result;
    int code = EXIT_CODE_OK, finished;
    bool began;

    if (!stop_strings)
        return fail_memory();
    for (size_t i = 0; i < settings->stop.n; i++)
        stop_strings[i] = stops[i].data;
    params.stop_strings = stop_strings;
    params.n_stop_strings = settings->stop.n;
    session_params.n_ctx = (uint32_t)settings->n_ctx;
    session_params.cache_type = settings->cache_type;
    if (settings->draft_queue)
        session_params.draft_queue = (otr_draft_queue)(settings->draft_queue - 1);
    result = otr_session_create(e->target, e->draft, &session_params, &session);
    if (result != OTR_OK) {
        code = fail_result(&e->log, e->context, result);
        goto done;
    }
    interrupt_watch(session);
    code = append_prompt(e, session, prompt, !settings->quiet && progress_wanted());
    if (code)
        goto done;
    otr_session_tokens(session, &n_prompt);
    if (settings->display_prompt && !settings->json)
        stream_write(&stream, text_string(prompt), prompt->n);
    if (settings->trace) {
        params.on_block = trace_add_block;
        params.block_user = &trace;
    }
    result = otr_generate(session, &params, on_text, &stream, &stats);
    if (stream.terminal && !stream.collect && !stream.ends_line)
        output_write("\n", 1);
    output_flush();
    if (result != OTR_OK)
        code = fail_result(&e->log, e->context, result);
    /* Without a signal it was on_text that ended it; output_finish knows why. */
    if (result == OTR_ERROR_CANCELLED || stats.finish == OTR_FINISH_CANCELLED)
        code = interrupt_signal() ? EXIT_CODE_SIGNAL + interrupt_signal() : EXIT_CODE_OK;
    if (stream.collected.failed)
        code = fail_memory();
    /* Text made before an error is worth giving out; a generation that never began isn't. */
    began = result == OTR_OK || result == OTR_ERROR_CANCELLED || stats.emitted > 0;
    if (settings->json && began) {
        ids = otr_session_tokens(session, &n_all);
        n_all = n_all > n_prompt ? n_all - n_prompt : 0;
        if (!output_json(result_object(e, &stream, ids + n_prompt, n_all, seed, &stats)) && !code)
            code = EXIT_CODE_FAILED;
    }
    if (settings->trace && began) {
        ids = otr_session_tokens(session, &n_all);
        int traced = trace_write(&trace, settings->trace, ids, n_prompt, &stats);
        code = code ? code : traced;
    }
    /* A failed write has its own message; statistics of what nobody got are noise. */
    finished = output_finish(code);
    if (began && !settings->quiet && finished == code) {
        if (!stream.terminal && !stream.collect && !stream.ends_line)
            fputc('\n', stderr); /* where both go to one place, and the text ended no line */
        report_run(e, &stats, seed);
    }
    code = finished;
done:
    interrupt_watch(NULL);
    otr_session_destroy(&session);
    free(stop_strings);
    text_free(&stream.collected);
    trace_log_free(&trace);
    return code;
}

/* A rule of verification other than coupled, in the order of the choices; NULL: coupled, which
 * plain decoding and temperature 0 always are. */
static const char *rule_of(const struct settings *settings)
{
    static const char *const rules[] = {NULL, NULL, "rejection", "block"};

    return settings->draft_max && (float)settings->temperature > 0 ? rules[settings->verify] : NULL;
}

/* Options that exclude each other. */
static int check_conflicts(const struct settings *settings)
{
    const char *rule = rule_of(settings);

    if (rule && settings->drafter & OTR_DRAFTER_NGRAM)
        return fail(EXIT_CODE_USAGE,
                    "--verify %s needs the draft model's probabilities, which the n-gram drafter "
                    "of --drafter %s doesn't have",
                    rule, settings->drafter & OTR_DRAFTER_MODEL ? "both" : "ngram");
    if (rule && settings->schedule == 1 + OTR_SCHEDULE_PIPELINED)
        return fail(EXIT_CODE_USAGE,
                    "--verify %s needs the serial schedule, not --schedule pipelined", rule);
    if (rule && settings->draft_device)
        return fail(EXIT_CODE_USAGE,
                    "--verify %s needs target and draft to share a device; leave out "
                    "--draft-device",
                    rule);
    if (settings->draft_max && settings->draft_queue && settings->draft_device)
        return fail(EXIT_CODE_USAGE, "--draft-queue is of a device that target and draft share; "
                                     "leave out --draft-queue or --draft-device");
    return EXIT_CODE_OK;
}

/* With a target of one's own there is a draft only if it is named. */
static int check_draft(const struct settings *settings)
{
    const char *wants = settings->draft_device                  ? "--draft-device"
                        : settings->draft_queue                 ? "--draft-queue"
                        : settings->drafter & OTR_DRAFTER_MODEL ? "--drafter model"
                        : rule_of(settings)                     ? "--verify"
                                                                : NULL;
    int code = check_conflicts(settings);

    if (code || !wants || settings->draft || !settings->model || !settings->draft_max)
        return code;
    return fail(EXIT_CODE_USAGE, "%s needs a draft model (-md)", wants);
}

/* Before the work: a trace that can be written, and that replaces nothing that is read. */
static int check_trace(const struct settings *settings, const engine_params *models)
{
    const char *const file = settings->file && strcmp(settings->file, "-") != 0 ? settings->file
                                                                                : "/dev/stdin";
    const char *const others[] = {settings->draft, settings->prompt ? NULL : file};
    int code = engine_check_output(models, settings->trace);

    if (!code)
        code = report_file_check_apart(settings->trace, others, 2);
    return code ? code : report_file_check(settings->trace);
}

int command_run(int argc, char **argv)
{
    struct settings settings = {
        .n_predict = -1,
        .top_k = 40,
        .repeat_last_n = 64,
        .seed = -1,
        .draft_max = -1,
        .temperature = 0.8,
        .top_p = 0.95,
        .min_p = 0.05,
        .repeat_penalty = 1.0,
        .escape = true,
        .display_prompt = true,
    };
    engine_params params;
    engine e;
    text prompt = {0};
    text *stops = NULL;
    bool uses_draft;
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        goto done;
    uses_draft = settings.draft_max != 0 && settings.drafter != OTR_DRAFTER_NGRAM;
    params = (engine_params){
        .model = settings.model,
        .draft = uses_draft ? settings.draft : NULL,
        .with_demo_draft = uses_draft,
        .device = settings.device,
        .draft_device = settings.draft_device,
        .verbose = settings.verbose,
        .validation = settings.validation,
        .quiet = settings.quiet,
    };
    code = check_draft(&settings);
    if (!code)
        code = read_stops(&settings, &stops);
    if (!code)
        code = check_trace(&settings, &params);
    if (!code)
        code = read_prompt(&settings, &prompt);
    if (code)
        goto done;
    code = engine_open(&e, &params);
    if (!code)
        code = generate(&e, &settings, &prompt, stops);
    code = engine_check_validation(&e, code);
    code = engine_close(&e, code);
done:
    free_stops(&settings, stops);
    free(settings.stop.items);
    text_free(&prompt);
    return code;
}

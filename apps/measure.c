/* `outrider measure`: does speculation pay on the user's own prompts? See measure.h for the parts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "interrupt.h"
#include "measure.h"
#include "output.h"
#include "report_file.h"

struct settings {
    const char *model, *draft, *device, *draft_device, *draft_max, *ngram, *budget, *json, *csv,
        *html, *resume;
    measure_data_params data;
    otr_cache_type cache_type;
    int64_t n_predict, n_ctx, top_k, seed, schedule;
    double temperature, top_p, min_p;
    bool keeps_text, ignore_eos, quiet, validation;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"-m", "--model"}, OPTION_TEXT, AT(model), "FILE", 0, 0,
     "target model, GGUF (default: the demo pair)"},
    {{"-md", "--draft-model", "--model-draft"}, OPTION_TEXT, AT(draft), "FILE", 0, 0,
     "draft model, of the same vocabulary (default with -m: none,\n"
     "only n-gram lookup is measured)"},
    {{"--data"}, OPTION_LIST, AT(data.files), "FILE", 0, 0,
     "prompts: JSON lines, a text file or a folder of text files;\n"
     "may be given several times"},
    {{"--task"}, OPTION_LIST, AT(data.tasks), "NAME=PATH", 0, 0,
     "a text file or folder as a task of that name"},
    {{"--prompts"}, OPTION_INTEGER, AT(data.prompts), "N", 1, 100000,
     "prompts cut from a text or folder (default 12)"},
    {{"--prompt-bytes"}, OPTION_INTEGER, AT(data.bytes), "N", 1, 1e7,
     "length of these (default 400)"},
    {{"--budget"}, OPTION_TEXT, AT(budget), "TIME", 0, 0,
     "end after this time, as 90s, 10m or 2h (default 10m);\n"
     "0: measure all prompts"},
    {{"--resume"}, OPTION_TEXT, AT(resume), "FILE", 0, 0,
     "go on with a result of --json, which is replaced unless\n"
     "--json says otherwise"},
    {{"--json"}, OPTION_TEXT, AT(json), "FILE", 0, 0,
     "the whole result; '-' prints it instead of the text"},
    {{"--csv"}, OPTION_TEXT, AT(csv), "FILE", 0, 0, "a row for each task and setting"},
    {{"--html"}, OPTION_TEXT, AT(html), "FILE", 0, 0,
     "a page with plots, for a browser; needs no network"},
    {{"--no-text"}, OPTION_CLEAR, AT(keeps_text), NULL, 0, 0,
     "keep no text of outputs in JSON and HTML"},
    {{"--draft-max", "--draft", "--draft-n"}, OPTION_TEXT, AT(draft_max), "K,K", 0, 0,
     "tokens drafted a block (default 2,4,8); 0: the draft isn't\n"
     "loaded"},
    {{"--ngram"}, OPTION_TEXT, AT(ngram), "K,K", 0, 0,
     "measure n-gram lookup with so many tokens, too, and let auto\n"
     "use it (default without a draft: 4,8)"},
    {{"--schedule"}, OPTION_CHOICE, AT(schedule), "auto|serial|pipelined", 0, 0,
     "when the draft works: see 'outrider run --help' (default auto)"},
    {{"-n", "--predict", "--n-predict"}, OPTION_INTEGER, AT(n_predict), "N", 2, OTR_MAX_CONTEXT,
     "most tokens of an output (default 128); a prompt's own\n"
     "max_tokens may be fewer"},
    {{"-c", "--ctx-size"}, OPTION_CONTEXT, AT(n_ctx), "N", 0, OTR_MAX_CONTEXT,
     "context in tokens (default 0: what the prompts need)"},
    {{"-ct", "--cache-type"}, OPTION_CACHE, AT(cache_type), "TYPE", 0, 0,
     "keys and values as f16 or q8_0 (default f16)"},
    {{"--temp", "--temperature"}, OPTION_NUMBER, AT(temperature), "T", 0, 100,
     "temperature, unless a prompt has its own (default 0.8)"},
    OPTIONS_OF_KEPT_TOKENS(AT),
    {{"-s", "--seed"}, OPTION_INTEGER, AT(seed), "N", 0, 9007199254740992.0,
     "of the sampling (default 1)"},
    {{"--ignore-eos"}, OPTION_SET, AT(ignore_eos), NULL, 0, 0,
     "go on after the model's end of text"},
    {{"-dev", "--device"}, OPTION_TEXT, AT(device), "NAME", 0, 0,
     "index, UUID or part of a name: see 'outrider devices'"},
    {{"-devd", "--draft-device", "--device-draft"}, OPTION_TEXT, AT(draft_device), "NAME", 0, 0,
     "the draft's device; the target's own is opened a second time\n"
     "(default: shared with the target)"},
    {{"-q", "--quiet"}, OPTION_SET, AT(quiet), NULL, 0, 0, "no progress or warnings"},
    {{"--validate"}, OPTION_SET, AT(validation), NULL, 0, 0,
     "run under the Vulkan validation layers"},
};
/* clang-format on */

static const command_line line = {
    .name = "measure",
    .usage = "[-m FILE [-md FILE]] --data FILE [options]",
    .about =
        "Tells whether speculation pays on your own prompts. Each prompt is continued without the\n"
        "draft, with several numbers of drafted tokens (K) and with auto, one after the other;\n"
        "the text is the same each time. First comes the answer for each task: use K, don't, or\n"
        "leave it to auto, with the speed-up, its 95 % interval, and what it does to the longest\n"
        "waits for a token. Ctrl-C ends it and keeps what was measured.\n"
        "A line of JSON is {\"prompt\": TEXT} and, if wanted, \"task\", \"max_tokens\" and\n"
        "\"temperature\". apps/docs/measure.md explains the rule and every number.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes = "--json: {schema, version, device, driver, model, draft, data, options, measured,\n"
             "too_short, finished, overall, tasks: [...], prompts: [...]};\n"
             "each field is explained in apps/docs/measure.md.\n",
};

/* ----------------------------------------------------------------------------------- options */

static int read_budget(const char *typed, double *seconds)
{
    char *end;
    double value = strtod(typed, &end);
    double unit = *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;

    if (end == typed || !(value >= 0 && value < 1e7) || (*end && (!strchr("smh", *end) || end[1])))
        return fail(EXIT_CODE_USAGE, "--budget needs a time such as 90s, 10m or 2h, not '%s'",
                    typed);
    *seconds = value * unit;
    return EXIT_CODE_OK;
}

/* A setting of the drafter for each K of a list. */
static int read_list(measure *m, const char *name, const char *list, uint32_t drafter)
{
    bool wanted[OTR_MAX_DRAFT + 1] = {false};

    for (const char *at = list;;) {
        char *end;
        long k = strtol(at, &end, 10);

        if (end == at || (*end && *end != ',') || k < 1 || k > OTR_MAX_DRAFT)
            return fail(EXIT_CODE_USAGE, "%s needs numbers from 1 to %d with commas, not '%s'",
                        name, OTR_MAX_DRAFT, list);
        wanted[k] = true;
        if (!*end)
            break;
        at = end + 1;
    }
    for (uint32_t k = 1; k <= OTR_MAX_DRAFT; k++)
        if (wanted[k])
            m->settings[m->n_settings++] = (measure_setting){drafter, k};
    return EXIT_CODE_OK;
}

static bool has_draft(const struct settings *s)
{
    return (s->draft || !s->model) && !(s->draft_max && strcmp(s->draft_max, "0") == 0);
}

/* plain, each K, and auto, which chooses among the drafters that are measured: with n-gram lookup
 * beside it a draft that doesn't pay would get the gain of the lookup. */
static int read_settings(measure *m, const struct settings *s)
{
    bool drafts = has_draft(s);
    const char *ngram = s->ngram || drafts ? s->ngram : "4,8";
    int code = EXIT_CODE_OK;

    m->settings[m->n_settings++] = (measure_setting){0, 0};
    if (drafts)
        code = read_list(m, "--draft-max", s->draft_max ? s->draft_max : "2,4,8",
                         OTR_DRAFTER_MODEL);
    else if (s->draft_max && strcmp(s->draft_max, "0") != 0)
        code = fail(EXIT_CODE_USAGE,
                    "--draft-max %s needs a draft; give one with -md FILE, or use "
                    "--ngram %s",
                    s->draft_max, s->draft_max);
    if (!code && ngram)
        code = read_list(m, "--ngram", ngram, OTR_DRAFTER_NGRAM);
    m->settings[m->n_settings++] = (measure_setting){
        (drafts ? OTR_DRAFTER_MODEL : 0) | (ngram ? OTR_DRAFTER_NGRAM : 0), OTR_DRAFT_AUTO};
    return code;
}

/* What is named, even if it isn't loaded, and what is read. */
static int check_inputs_stay(const struct settings *s, const measure_data *data,
                             const engine_params *models, const char *path)
{
    const char *const named[] = {s->model, s->draft};
    int code = report_file_check_apart(path, named, 2);

    if (!code)
        code = engine_check_output(models, path);
    if (!code)
        code = report_file_check_apart(path, (const char *const *)data->files, data->n_files);
    return code;
}

static int check_outputs(const struct settings *s, const measure_data *data,
                         const engine_params *models)
{
    const char *const paths[] = {s->json, s->csv, s->html};
    int n_stdout = 0, code = EXIT_CODE_OK;

    for (size_t i = 0; i < 3; i++)
        n_stdout += paths[i] && strcmp(paths[i], "-") == 0;
    if (n_stdout > 1)
        return fail(EXIT_CODE_USAGE, "only one of --json, --csv and --html can go to standard "
                                     "output");
    for (size_t i = 0; i < 3 && !code; i++) {
        code = check_inputs_stay(s, data, models, paths[i]);
        if (!code)
            code = report_file_check_apart(paths[i], paths, i);
        if (!code && i) /* --json may go on with --resume's file */
            code = report_file_check_apart(paths[i], &s->resume, 1);
        if (!code)
            code = report_file_check(paths[i]);
    }
    return code;
}

/* ------------------------------------------------------------------------------- preparations */

static int tokenize_all(measure *m, uint64_t limit)
{
    size_t n = m->data.n_prompts;
    int code = EXIT_CODE_OK;
    uint64_t most = 0;

    m->ids = calloc(n, sizeof(*m->ids));
    m->n_ids = calloc(n, sizeof(*m->n_ids));
    m->records = calloc(n, sizeof(*m->records));
    if (!m->ids || !m->n_ids || !m->records)
        return fail_memory();
    for (size_t i = 0; i < n && !code; i++) {
        const measure_prompt *p = &m->data.prompts[i];
        uint64_t need;

        code = engine_tokenize(m->e, p->text, p->n_bytes, &m->ids[i], &m->n_ids[i]);
        need = m->n_ids[i] + (uint64_t)measure_wanted_tokens(m, i);
        /* The passes behind the prompt need room too. */
        if (need < m->n_ids[i] + MEASURE_MAX_ROWS)
            need = m->n_ids[i] + MEASURE_MAX_ROWS;
        if (!code && !m->n_ids[i])
            code = fail(EXIT_CODE_INPUT, "%s: the prompt has no tokens", p->source);
        else if (!code && need > limit)
            code = fail(EXIT_CODE_INPUT,
                        "%s: %zu tokens of the prompt and the output's make %" PRIu64
                        ", and the context has %" PRIu64 "; use a larger -c, a smaller -n or a "
                        "shorter prompt",
                        p->source, m->n_ids[i], need, limit);
        most = need > most ? need : most;
    }
    m->n_ctx = (uint32_t)most;
    return code;
}

static int open_session(measure *m, const struct settings *s)
{
    otr_session_params params = otr_session_params_default();
    uint32_t trained = m->e->target_info.n_ctx_train;
    otr_result result;
    int code = tokenize_all(m, s->n_ctx ? (uint64_t)s->n_ctx : trained ? trained : 4096);

    if (code)
        return code;
    if (s->n_ctx)
        m->n_ctx = (uint32_t)s->n_ctx;
    params.n_ctx = m->n_ctx;
    params.cache_type = m->cache_type;
    result = otr_session_create(m->e->target, m->e->draft, &params, &m->session);
    interrupt_watch(m->session);
    return result == OTR_OK ? EXIT_CODE_OK : fail_result(&m->e->log, m->e->context, result);
}

/* Whatever went wrong before, what was measured is given out. */
static int report(const measure *m, const struct settings *s, const json_t *head, int code)
{
    const struct {
        const char *path;
        void (*write)(text *t, const json_t *summary);
    } files[] = {{s->csv, measure_csv}, {s->html, measure_html}};
    bool stdout_taken = s->json && strcmp(s->json, "-") == 0;
    json_t *summary;
    text t = {0};

    if (!m->n_records) {
        if (!code)
            code = fail(EXIT_CODE_INPUT, "every output ended before its second token; "
                                         "--ignore-eos goes on");
        return code;
    }
    summary = measure_summary(m, head);
    if (!summary)
        return fail_memory();
    if (s->json) {
        int written = measure_write_json(m, head, s->json);
        code = code ? code : written;
    }
    for (size_t i = 0; i < 2; i++) {
        int written = EXIT_CODE_OK;

        if (!files[i].path)
            continue;
        stdout_taken |= strcmp(files[i].path, "-") == 0;
        files[i].write(&t, summary);
        written = report_file_write(files[i].path, &t);
        code = code ? code : written;
        text_free(&t);
    }
    if (!stdout_taken) {
        measure_text(&t, summary);
        if (t.failed)
            code = fail_memory();
        else
            output_write(text_string(&t), t.n);
        text_free(&t);
    }
    json_decref(summary);
    return code;
}

/* With models loaded. */
static int work(measure *m, const struct settings *s, double budget_s)
{
    json_t *head = NULL;
    int code = open_session(m, s);

    if (code)
        return code;
    head = measure_head(m);
    if (!head)
        return fail_memory();
    if (s->resume)
        code = measure_resume(m, s->resume, head);
    if (!code) {
        code = measure_all(m, head, s->json, budget_s);
        code = report(m, s, head, code);
    }
    json_decref(head);
    return code;
}

static void free_all(measure *m, struct settings *s)
{
    for (size_t i = 0; i < m->data.n_prompts; i++) {
        if (m->ids)
            free(m->ids[i]);
        if (m->records && i < m->n_records)
            measure_record_free(&m->records[i]);
    }
    free(m->ids);
    free(m->n_ids);
    free(m->records);
    measure_data_free(&m->data);
    free(s->data.files.items);
    free(s->data.tasks.items);
}

int command_measure(int argc, char **argv)
{
    struct settings s = {
        .budget = "10m",
        .n_predict = 128,
        .data = {.prompts = 12, .bytes = 400},
        .seed = 1,
        .top_k = 40,
        .temperature = 0.8,
        .top_p = 0.95,
        .min_p = 0.05,
        .keeps_text = true,
    };
    measure m = {0};
    engine_params params;
    engine e;
    double budget_s = 0;
    int code;

    if (!options_parse(&line, argc, argv, &s, &code))
        goto done;
    if (s.resume && !s.json)
        s.json = s.resume;
    params = (engine_params){
        .model = s.model,
        .draft = has_draft(&s) ? s.draft : NULL,
        .with_demo_draft = has_draft(&s),
        .device = s.device,
        .draft_device = s.draft_device,
        .validation = s.validation,
        .quiet = s.quiet,
    };
    code = read_budget(s.budget, &budget_s);
    if (!code)
        code = read_settings(&m, &s);
    if (!code)
        code = measure_data_read(&m.data, &s.data);
    if (!code)
        code = check_outputs(&s, &m.data, &params);
    if (code)
        goto done;
    m.e = &e;
    m.n_predict = s.n_predict;
    m.cache_type = s.cache_type;
    m.keeps_text = s.keeps_text;
    m.ignore_eos = s.ignore_eos;
    m.schedule = s.schedule ? (otr_schedule)(s.schedule - 1) : OTR_SCHEDULE_AUTO;
    m.is_draft_apart = s.draft_device && has_draft(&s);
    m.sampling = otr_sampling_default();
    m.sampling.seed = (uint64_t)s.seed;
    m.sampling.temperature = (float)s.temperature;
    m.sampling.top_k = (int32_t)s.top_k;
    m.sampling.top_p = (float)s.top_p;
    m.sampling.min_p = (float)s.min_p;
    code = engine_open(&e, &params);
    if (!code)
        code = work(&m, &s, budget_s);
    interrupt_watch(NULL);
    otr_session_destroy(&m.session);
    code = engine_check_validation(&e, code);
    code = output_finish(engine_close(&e, code));
done:
    free_all(&m, &s);
    return code;
}

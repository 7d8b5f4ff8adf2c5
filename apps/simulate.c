/* `outrider simulate`: the controller and every fixed K on a synthetic or recorded trace, with given
 * costs; a table of K and schedule against speed-up. Needs no Vulkan and no model. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "drafting.h"
#include "interrupt.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "simulate_trace.h"

#define MAX_TOKENS 1000000

struct settings {
    const char *trace, *verify_cost;
    int64_t n, n_prompt, seed, draft_max, devices;
    int64_t schedule, drafter; /* 1, 2, or 3 for both */
    double alpha, second_alpha, correlation, information, repetition;
    double cost_ratio, overlap, noise, transfer, prefill_ratio, cost_prior, loss_share;
    bool stops_early, json, verbose;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"--trace"}, OPTION_TEXT, AT(trace), "FILE", 0, 0,
     "a recorded trace, '-' for stdin (default: a synthetic one)"},
    {{"-n", "--predict"}, OPTION_INTEGER, AT(n), "N", 1, MAX_TOKENS, "tokens (default 2000)"},
    {{"--prompt-tokens"}, OPTION_INTEGER, AT(n_prompt), "N", 0, MAX_TOKENS,
     "tokens that are prefilled (default 0)"},
    {{"--alpha"}, OPTION_NUMBER, AT(alpha), "A", 0, 1, "acceptance rate (default 0.8)"},
    {{"--second-alpha"}, OPTION_NUMBER, AT(second_alpha), "A", 0, 1,
     "that of the second half (default: the same)"},
    {{"--correlation"}, OPTION_NUMBER, AT(correlation), "R", 0, 1,
     "chance that a token shares the fate of the one before (default 0)"},
    {{"--information"}, OPTION_NUMBER, AT(information), "I", 0, 1,
     "what the draft's probability tells, 0 nothing, 1 all (default 0)"},
    {{"--repetition"}, OPTION_NUMBER, AT(repetition), "R", 0, 0.99,
     "share of the text that repeats itself, for n-grams (default 0)"},
    {{"-s", "--seed"}, OPTION_INTEGER, AT(seed), "S", 0, 4294967295.0, "default 1"},
    {{"--cost-ratio"}, OPTION_NUMBER, AT(cost_ratio), "C", 0.0001, 1000,
     "time of a draft step / of a target step (default 0.1)"},
    {{"--verify-cost"}, OPTION_TEXT, AT(verify_cost), "V", 0, 0,
     "time of n rows / of one: flat, linear:SLOPE, steps:ROWS:HEIGHT,\n"
     "or a list for 1, 2, ... 17 rows, 1,1.1,1.3 (default linear:0.05)"},
    {{"--prefill-ratio"}, OPTION_NUMBER, AT(prefill_ratio), "R", 0.000001, 1,
     "time of a row of a prefill / of a step (default 0.1)"},
    {{"--overlap"}, OPTION_NUMBER, AT(overlap), "O", 0, 1,
     "what runs together takes 0: the sum, 1: the longer (default 0)"},
    {{"--devices"}, OPTION_INTEGER, AT(devices), "N", 1, 2,
     "2: the draft has its own, and overlaps fully (default 1)"},
    {{"--transfer"}, OPTION_NUMBER, AT(transfer), "T", 0, 1000,
     "a block's way between two devices / a target step (default 0)"},
    {{"--noise"}, OPTION_NUMBER, AT(noise), "D", 0, 0.5,
     "relative standard deviation of each time (default 0)"},
    {{"--schedule"}, OPTION_CHOICE, AT(schedule), "serial|pipelined|both", 0, 0,
     "when the draft works (default both, apart and together)"},
    {{"--drafter"}, OPTION_CHOICE, AT(drafter), "model|ngram|both", 0, 0,
     "who drafts; of both auto chooses (default model)"},
    {{"--draft-max", "--draft", "--draft-n"}, OPTION_INTEGER, AT(draft_max), "K", 1,
     CONTROLLER_MAX_DRAFT, "largest K (default 16)"},
    {{"--cost-prior"}, OPTION_NUMBER, AT(cost_prior), "C", 0, 1000,
     "cost ratio that auto begins with (default: the true one)"},
    {{"--loss-share"}, OPTION_NUMBER, AT(loss_share), "L", 0, 1,
     "share of plain time that auto may lose (default 0.02)"},
    {{"--no-early-stop"}, OPTION_CLEAR, AT(stops_early), NULL, 0, 0,
     "auto can't end a chain that becomes unlikely"},
    {{"-v", "--verbose"}, OPTION_SET, AT(verbose), NULL, 0, 0, "what auto learnt and why"},
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0, "print one JSON object"},
};
/* clang-format on */

static const command_line line = {
    .name = "simulate",
    .usage = "[--trace FILE] [options]",
    .about =
        "Runs the controller, and every fixed K, on a trace of what a drafter gets right, with\n"
        "given times, and prints the speed-up over plain decoding. Times are relative to a\n"
        "target step with one row. Needs no Vulkan and no model.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes =
        "A trace has a JSON object a line. First {\"trace\": 1}, with \"prompt_tokens\", "
        "\"prompt\"\n"
        "(ids), \"target_ms\" (for 1 to 17 rows, null where not measured), \"draft_ms\" and\n"
        "\"prefill_ratio\" where known; its times take the place of the options'. Then a line\n"
        "for each token: {\"id\": 513, \"p\": 0.93, \"hit\": true}: the draft's probability of "
        "what\n"
        "it proposed there and whether that was right; left out where nothing was proposed.\n"
        "--json: {schema, tokens, known, target_ms, draft_ms, overlap, results: [{policy, "
        "drafter,\n"
        "schedule, draft_max, speedup, tokens_per_block, acceptance, blocks, plain_blocks,\n"
        "total_ms, plain_ms, largest_block_ms}], controller}.\n",
};

/* ----------------------------------------------------------------------------------- input */

static bool number_at(const char **at, double least, double most, double *out)
{
    char *end;

    errno = 0;
    *out = strtod(*at, &end);
    if (end == *at || errno || !(*out >= least && *out <= most))
        return false;
    *at = end;
    return true;
}

static bool read_list(const char *at, double v[CONTROLLER_MAX_ROWS])
{
    int n = 0;

    for (;;) {
        if (n == CONTROLLER_MAX_ROWS || !number_at(&at, 0.001, 1e6, &v[n]))
            return false;
        n++;
        if (!*at)
            break;
        if (*at++ != ',')
            return false;
    }
    /* A short list goes on as it ended. */
    for (int i = n; i < CONTROLLER_MAX_ROWS; i++)
        v[i] = v[i - 1] + (n > 1 && v[n - 1] > v[n - 2] ? v[n - 1] - v[n - 2] : 0);
    for (int i = CONTROLLER_MAX_ROWS - 1; i >= 0; i--)
        v[i] /= v[0];
    return true;
}

static bool read_curve(const char *given, double v[CONTROLLER_MAX_ROWS])
{
    double slope = 0, rows = 1, height = 0;
    const char *at = given;

    if (strncmp(given, "linear:", 7) == 0) {
        at += 7;
        if (!number_at(&at, 0, 1000, &slope) || *at)
            return false;
    } else if (strncmp(given, "steps:", 6) == 0) {
        at += 6;
        if (!number_at(&at, 1, 17, &rows) || *at++ != ':' || !number_at(&at, 0, 1000, &height) ||
            *at)
            return false;
    } else if (strcmp(given, "flat") != 0) {
        return read_list(given, v);
    }
    for (int i = 0; i < CONTROLLER_MAX_ROWS; i++)
        v[i] = 1 + slope * i + height * floor(i / floor(rows));
    return true;
}

static int read_costs(const struct settings *s, const recorded_trace *recorded,
                      simulation_costs *out)
{
    *out = (simulation_costs){
        .prefill_ratio = s->prefill_ratio,
        .overlap = s->devices == 2 ? 1 : s->overlap,
        .noise = s->noise,
        .seed = (uint64_t)s->seed,
        .draft_ms = s->cost_ratio,
    };
    if (!read_curve(s->verify_cost, out->target_ms))
        return fail(EXIT_CODE_USAGE,
                    "--verify-cost needs flat, linear:SLOPE, steps:ROWS:HEIGHT or up to 17 numbers "
                    "with commas, not '%s'",
                    s->verify_cost);
    if (s->transfer > 0 && s->devices != 2)
        return fail(EXIT_CODE_USAGE, "--transfer needs --devices 2");
    if (recorded->has_costs) {
        memcpy(out->target_ms, recorded->target_ms, sizeof(out->target_ms));
        out->draft_ms = recorded->draft_ms;
    }
    if (recorded->prefill_ratio > 0)
        out->prefill_ratio = recorded->prefill_ratio;
    out->transfer_ms = s->transfer * out->target_ms[0];
    return EXIT_CODE_OK;
}

/* ------------------------------------------------------------------------------------ runs */

#define MAX_RUNS (2 * CONTROLLER_MAX_ROWS + 3)

typedef struct run {
    simulation_policy policy;
    simulation_result result;
} run;

typedef struct simulate {
    const struct settings *settings;
    recorded_trace recorded;
    simulation_costs costs;
    bool schedules[N_SCHEDULES];
    bool drafters[2]; /* model, n-gram */
    run *runs;
    size_t n_runs;
} simulate;

_Static_assert((int)DRAFTER_MODEL == OTR_DRAFTER_MODEL && (int)DRAFTER_NGRAM == OTR_DRAFTER_NGRAM,
               "a drafter is a flag");
static const char *name_of_drafter(enum drafter drafter)
{
    return drafters_name((uint32_t)drafter);
}

static const char *name_of_schedule(enum schedule schedule)
{
    return schedule_name(schedule == SCHEDULE_SERIAL ? OTR_SCHEDULE_SERIAL
                                                     : OTR_SCHEDULE_PIPELINED);
}

static void add_fixed(simulate *s, enum schedule schedule)
{
    for (uint32_t k = 0; k <= (uint32_t)s->settings->draft_max; k++)
        s->runs[s->n_runs++].policy = (simulation_policy){
            .drafter = s->drafters[0] ? DRAFTER_MODEL : DRAFTER_NGRAM,
            .schedule = schedule,
            .n_draft = k,
        };
}

static void add_automatic(simulate *s, bool serial, bool pipelined)
{
    simulation_policy p = {.automatic = true, .params = controller_params_default()};

    p.params.drafters[DRAFTER_MODEL] = s->drafters[0];
    p.params.drafters[DRAFTER_NGRAM] = s->drafters[1];
    p.params.schedules[SCHEDULE_SERIAL] = serial;
    p.params.schedules[SCHEDULE_PIPELINED] = pipelined;
    p.params.stops_early = s->settings->stops_early;
    p.params.max_draft = (uint32_t)s->settings->draft_max;
    p.params.overlap = s->costs.overlap;
    p.params.loss_share = s->settings->loss_share;
    p.params.cost_prior = s->settings->cost_prior >= 0 ? s->settings->cost_prior
                                                       : s->costs.draft_ms / s->costs.target_ms[0];
    s->runs[s->n_runs++].policy = p;
}

static int run_all(simulate *s)
{
    s->runs = calloc(MAX_RUNS, sizeof(*s->runs));
    if (!s->runs)
        return fail_memory();
    for (int i = 0; i < N_SCHEDULES; i++) {
        if (!s->schedules[i])
            continue;
        add_fixed(s, (enum schedule)i);
        add_automatic(s, i == SCHEDULE_SERIAL, i == SCHEDULE_PIPELINED);
    }
    if (s->schedules[0] && s->schedules[1])
        add_automatic(s, true, true);
    for (size_t i = 0; i < s->n_runs; i++) {
        if (interrupt_signal())
            return EXIT_CODE_SIGNAL + interrupt_signal();
        if (!simulation_run(&s->recorded.trace, &s->costs, &s->runs[i].policy, &s->runs[i].result))
            return fail_memory();
    }
    return EXIT_CODE_OK;
}

static double speedup(const simulation_result *r)
{
    return r->total_ms > 0 ? r->plain_ms / r->total_ms : 1;
}

/* ----------------------------------------------------------------------------------- output */

static const run *find_run(const simulate *s, bool is_automatic, int schedule, uint32_t n_draft)
{
    for (size_t i = 0; i < s->n_runs; i++) {
        const simulation_policy *p = &s->runs[i].policy;
        bool same = p->automatic ? p->params.schedules[schedule] && !p->params.schedules[!schedule]
                                 : (int)p->schedule == schedule && p->n_draft == n_draft;
        if (p->automatic == is_automatic && same)
            return &s->runs[i];
    }
    return NULL;
}

static void print_row(const simulate *s, bool is_automatic, uint32_t n_draft)
{
    for (int i = 0; i < N_SCHEDULES; i++) {
        const run *r = find_run(s, is_automatic, i, n_draft);
        if (!r)
            continue;
        uint64_t verified = r->result.verified, blocks = r->result.blocks;
        output_printf("  %9.3f  %6.2f", speedup(&r->result),
                      (double)(blocks + r->result.accepted) / (double)(blocks ? blocks : 1));
        if (verified)
            output_printf("  %5.1f %%", 100 * (double)r->result.accepted / (double)verified);
        else
            output_printf("  %7s", "-");
    }
    output_printf("\n");
}

static void print_controller(const simulation_result *r)
{
    const controller *c = &r->controller;

    output_printf(
        "\nauto: %llu blocks, loss %.2f ms (gains are negative) of %.2f ms, overlap %.2f\n",
        (unsigned long long)c->n_blocks, c->loss_ms, c->run_ms, c->overlap);
    for (int i = 0; i < N_DECISION_REASONS; i++)
        if (c->n_reasons[i])
            output_printf("  %-24s %8llu blocks\n", decision_reason_string((enum decision_reason)i),
                          (unsigned long long)c->n_reasons[i]);
    for (int i = DRAFTER_MODEL; i < N_DRAFTERS; i++) {
        const drafter_state *d = &c->drafters[i];
        if (!c->params.drafters[i])
            continue;
        output_printf("  %s: %s, %llu blocks, %llu probes, next probe after %u, acceptance %.3f;\n"
                      "    by confidence",
                      name_of_drafter((enum drafter)i), d->on ? "on" : "off",
                      (unsigned long long)d->n_blocks, (unsigned long long)d->n_probes, d->interval,
                      controller_acceptance(c, (enum drafter)i));
        for (uint32_t b = 0; b < CONTROLLER_BANDS; b++)
            output_printf(" %.2f", calibration_of_band(&d->calibration, b));
        output_printf("\n");
    }
    output_printf("  v(n):");
    for (uint32_t n = 1; n <= CONTROLLER_MAX_ROWS; n++)
        output_printf(" %.2f", controller_target_ms(c, n) / controller_target_ms(c, 1));
    output_printf("\n  blocks by K:");
    for (int k = 0; k < CONTROLLER_MAX_ROWS; k++)
        output_printf(" %llu", (unsigned long long)r->draft_histogram[k]);
    output_printf("\n");
}

static void print_table(const simulate *s)
{
    const recorded_trace *t = &s->recorded;
    double plain = s->costs.target_ms[0];

    output_printf("%zu tokens", t->trace.n);
    if (s->settings->trace)
        output_printf(", the draft known at %zu", t->n_known);
    output_printf("; cost ratio %.3g, v(2) %.3g, v(9) %.3g, v(17) %.3g, overlap %.2g\n\n   K",
                  s->costs.draft_ms / plain, s->costs.target_ms[1] / plain,
                  s->costs.target_ms[8] / plain, s->costs.target_ms[16] / plain, s->costs.overlap);
    for (int i = 0; i < N_SCHEDULES; i++)
        if (s->schedules[i])
            output_printf("  %9s  tokens  accept.", name_of_schedule((enum schedule)i));
    output_printf("\n");
    for (uint32_t k = 0; k <= (uint32_t)s->settings->draft_max; k++) {
        output_printf("%4u", k);
        print_row(s, false, k);
    }
    output_printf("auto");
    print_row(s, true, 0);
    const run *last = &s->runs[s->n_runs - 1];
    if (s->schedules[0] && s->schedules[1])
        output_printf("auto, both schedules: %.3f\n", speedup(&last->result));
    if (s->settings->verbose)
        print_controller(&last->result);
}

static json_t *run_json(const run *r)
{
    const simulation_policy *p = &r->policy;
    const simulation_result *x = &r->result;
    const char *drafter = name_of_drafter(p->drafter), *schedule = name_of_schedule(p->schedule);

    if (p->automatic) {
        drafter = drafters_name((p->params.drafters[DRAFTER_MODEL] ? OTR_DRAFTER_MODEL : 0) |
                                (p->params.drafters[DRAFTER_NGRAM] ? OTR_DRAFTER_NGRAM : 0));
        schedule = p->params.schedules[0] && p->params.schedules[1]
                       ? "both"
                       : name_of_schedule(p->params.schedules[0] ? SCHEDULE_SERIAL
                                                                 : SCHEDULE_PIPELINED);
    }
    return json_pack(
        "{s:s,s:s,s:s,s:I,s:f,s:f,s:o,s:I,s:I,s:f,s:f,s:f}", "policy",
        p->automatic ? "auto" : "fixed", "drafter", drafter, "schedule", schedule, "draft_max",
        (json_int_t)(p->automatic ? p->params.max_draft : p->n_draft), "speedup", speedup(x),
        "tokens_per_block", x->blocks ? (double)(x->blocks + x->accepted) / (double)x->blocks : 0.0,
        "acceptance",
        x->verified ? json_real((double)x->accepted / (double)x->verified) : json_null(), "blocks",
        (json_int_t)x->blocks, "plain_blocks", (json_int_t)x->plain_blocks, "total_ms", x->total_ms,
        "plain_ms", x->plain_ms, "largest_block_ms", x->largest_block_ms);
}

static json_t *controller_json(const controller *c)
{
    json_t *reasons = json_object(), *rows = json_array(), *drafters = json_object();

    for (int i = 0; i < N_DECISION_REASONS; i++)
        json_object_set_new(reasons, decision_reason_string((enum decision_reason)i),
                            json_integer((json_int_t)c->n_reasons[i]));
    for (uint32_t n = 1; n <= CONTROLLER_MAX_ROWS; n++)
        json_array_append_new(rows, json_real(controller_target_ms(c, n)));
    for (int i = DRAFTER_MODEL; i < N_DRAFTERS; i++)
        if (c->params.drafters[i])
            json_object_set_new(drafters, name_of_drafter((enum drafter)i),
                                json_pack("{s:b,s:I,s:I,s:f}", "on", c->drafters[i].on, "blocks",
                                          (json_int_t)c->drafters[i].n_blocks, "probes",
                                          (json_int_t)c->drafters[i].n_probes, "acceptance",
                                          controller_acceptance(c, (enum drafter)i)));
    return json_pack("{s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "run_ms", c->run_ms, "loss_ms", c->loss_ms,
                     "budget_ms", controller_budget_ms(c), "overlap", c->overlap, "target_ms", rows,
                     "blocks", reasons, "drafters", drafters);
}

static json_t *report_json(const simulate *s)
{
    json_t *results = json_array(), *times = json_array();

    for (size_t i = 0; i < s->n_runs; i++)
        json_array_append_new(results, run_json(&s->runs[i]));
    for (int i = 0; i < CONTROLLER_MAX_ROWS; i++)
        json_array_append_new(times, json_real(s->costs.target_ms[i]));
    return json_pack("{s:i,s:I,s:I,s:o,s:f,s:f,s:o,s:o}", "schema", 1, "tokens",
                     (json_int_t)s->recorded.trace.n, "known", (json_int_t)s->recorded.n_known,
                     "target_ms", times, "draft_ms", s->costs.draft_ms, "overlap", s->costs.overlap,
                     "results", results, "controller",
                     controller_json(&s->runs[s->n_runs - 1].result.controller));
}

static int make_trace(simulate *s)
{
    const struct settings *a = s->settings;
    trace_process process = {
        .n = (size_t)a->n,
        .n_prompt = (uint32_t)a->n_prompt,
        .alpha = a->alpha,
        .second_alpha = a->second_alpha,
        .correlation = a->correlation,
        .information = a->information,
        .repetition = a->repetition,
        .seed = (uint64_t)a->seed,
    };

    if (a->trace) {
        int code = simulate_read_trace(a->trace, &s->recorded);
        if (!code && s->drafters[1] && !s->recorded.has_ids)
            code = fail(EXIT_CODE_INPUT, "%s has no ids, which the n-gram drafter needs", a->trace);
        return code;
    }
    s->recorded.n_known = process.n;
    return trace_generate(&process, &s->recorded.trace) ? EXIT_CODE_OK : fail_memory();
}

int command_simulate(int argc, char **argv)
{
    struct settings settings = {
        .verify_cost = "linear:0.05",
        .schedule = 3,
        .drafter = OTR_DRAFTER_MODEL,
        .n = 2000,
        .seed = 1,
        .draft_max = CONTROLLER_MAX_DRAFT,
        .devices = 1,
        .alpha = 0.8,
        .second_alpha = -1,
        .cost_ratio = 0.1,
        .prefill_ratio = 0.1,
        .cost_prior = -1,
        .loss_share = 0.02,
        .stops_early = true,
    };
    simulate s = {.settings = &settings};
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    for (int i = 0; i < 2; i++) {
        s.schedules[i] = settings.schedule >> i & 1;
        s.drafters[i] = settings.drafter >> i & 1;
    }
    code = make_trace(&s);
    if (!code)
        code = read_costs(&settings, &s.recorded, &s.costs);
    if (!code)
        code = run_all(&s);
    if (!code && settings.json)
        code = output_json(report_json(&s)) ? EXIT_CODE_OK : EXIT_CODE_FAILED;
    else if (!code)
        print_table(&s);
    free(s.runs);
    trace_free(&s.recorded.trace);
    return output_finish(code);
}

/* The page of `outrider measure` (measure.h): the answer, plots, tables and sample outputs, in one file
 * that loads nothing. Texts of the user and of models are escaped. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "html.h"
#include "measure.h"
#include "measure_plots.h"

static void add_user_text(text *t, const char *s)
{
    text_printf(t, "<bdi>");
    html_escape(t, s);
    text_printf(t, "</bdi>");
}

static void add_answer(text *t, const json_t *o)
{
    measure_answer a = measure_answer_of(o);

    text_printf(t, "<div class=\"answer\"><strong>");
    add_user_text(t, measure_string(o, "task"));
    text_printf(t, "</strong> <span class=\"badge %s\">%s</span><b>%s×</b>",
                measure_string(o, "verdict"), text_string(&a.verdict), text_string(&a.speedup));
    text_printf(t, "<span class=\"faint\">%s, %s", a.setting, text_string(&a.interval));
    if (a.prediction.n)
        text_printf(t, "<br>%s", text_string(&a.prediction));
    text_printf(t, "<br>%s</span></div>\n", text_string(&a.latency));
    measure_answer_free(&a);
}

static void add_cell(text *t, double value, int digits)
{
    if (isfinite(value))
        text_printf(t, "<td>%.*f</td>", digits, value);
    else
        text_printf(t, "<td>–</td>");
}

static void add_row(text *t, const json_t *s, bool is_plain)
{
    const json_t *speedup = json_object_get(s, "speedup"), *alpha = json_object_get(s, "alpha");
    const json_t *latency = json_object_get(s, "latency_ms");
    static const char *const ranks[] = {"p50", "p95", "p99", "max"};

    text_printf(t, "<tr><td>%s</td>", measure_string(s, "name"));
    add_cell(t, is_plain ? NAN : measure_number(speedup, "estimate"), 3);
    if (!is_plain && isfinite(measure_number(speedup, "low")))
        text_printf(t, "<td>%.3f to %.3f</td>", measure_number(speedup, "low"),
                    measure_number(speedup, "high"));
    else
        text_printf(t, "<td>–</td>");
    add_cell(t, measure_number(s, "speedup_predicted"), 3);
    add_cell(t, 100 * measure_number(s, "prediction_error"), 1);
    add_cell(t, measure_number(s, "tokens_per_second"), 1);
    add_cell(t, 100 * measure_number(alpha, "estimate"), 1);
    add_cell(t, measure_number(s, "tau"), 2);
    add_cell(t, measure_number(s, "break_even_tau"), 2);
    for (size_t i = 0; i < 4; i++)
        add_cell(t, measure_number(latency, ranks[i]), i < 3 ? 2 : 1);
    text_printf(t, "</tr>\n");
}

static void add_table(text *t, const json_t *o)
{
    const json_t *alpha = json_object_get(o, "alpha"), *s;
    size_t i;

    text_printf(t, "<h3>");
    add_user_text(t, measure_string(o, "task"));
    text_printf(t, "</h3>\n<p class=\"faint\">%" JSON_INTEGER_FORMAT " prompts",
                json_integer_value(json_object_get(o, "prompts")));
    if (isfinite(measure_number(alpha, "estimate")))
        text_printf(t, "; acceptance %.1f&nbsp;%%", 100 * measure_number(alpha, "estimate"));
    if (isfinite(measure_number(alpha, "low")))
        text_printf(t, " (95&nbsp;%%: %.1f to %.1f)", 100 * measure_number(alpha, "low"),
                    100 * measure_number(alpha, "high"));
    if (isfinite(measure_number(o, "c")))
        text_printf(t, "; a draft step costs %.3f plain steps", measure_number(o, "c"));
    text_printf(
        t,
        "; auto was off %.0f&nbsp;%% of the time<code class=\"run\">outrider run %s</code></p>\n",
        100 * measure_number(o, "share_off"), measure_string(o, "run_options"));
    text_printf(
        t, "<div class=\"wide\"><table><thead><tr><th></th><th>speed-up</th><th>95&nbsp;%%</th>"
           "<th>predicted</th><th>±&nbsp;%%</th><th>tokens/s</th><th>accepted,<br>%%</th>"
           "<th>tokens<br>a block</th><th>break-<br>even</th><th>p50, "
           "ms</th><th>p95</th><th>p99</th><th>max</th></tr>"
           "</thead><tbody>\n");
    json_array_foreach(json_object_get(o, "settings"), i, s) add_row(t, s, i == 0);
    text_printf(t, "</tbody></table></div>\n");
}

/* ---------------------------------------------------------------------------- sample outputs */

/* Its line feeds are shown as arrows: those of the output itself are what breaks its lines. */
static void add_rejected(text *t, const char *piece)
{
    text_printf(t, "<del>");
    for (const char *at = piece ? piece : ""; *at;) {
        size_t length = strcspn(at, "\n");
        char *part = strndup(at, length);

        html_escape(t, part ? part : "");
        free(part);
        at += length;
        if (*at == '\n') {
            text_printf(t, "↵");
            at++;
        }
    }
    text_printf(t, "</del>");
}

/* Neighbours of one origin share a span; before a token that replaced a drafted one stands that. */
static void add_strip(text *t, const json_t *pieces, const json_t *run)
{
    const char *origins = measure_string(run, "origins");
    const json_t *rejected = json_object_get(run, "rejected");
    size_t n = json_array_size(pieces), n_rejected = 0;
    char open = 0;

    text_printf(t, "<div class=\"strip\">");
    for (size_t i = 0; i < n && origins[i]; i++) {
        if (origins[i] != open) {
            text_printf(t, "%s<span class=\"%c\">", open ? "</span>" : "", origins[i]);
            open = origins[i];
        }
        if (open == ORIGIN_REJECTED && json_is_array(rejected))
            add_rejected(t, json_string_value(json_array_get(rejected, n_rejected++)));
        html_escape(t, json_string_value(json_array_get(pieces, i)));
    }
    text_printf(t, "%s</div>\n", open ? "</span>" : "");
}

/* The first prompt of each task, with the K that measured best for it. */
static void add_samples(text *t, const json_t *summary)
{
    const json_t *task, *prompt;
    bool begun = false;
    size_t i, k;

    json_array_foreach(json_object_get(summary, "tasks"), i, task)
    {
        const char *setting = measure_string(task, "predicted_setting");

        json_array_foreach(json_object_get(summary, "prompts"), k, prompt)
        {
            const json_t *run = measure_find(json_object_get(prompt, "runs"), "setting", setting);
            const json_t *pieces = json_object_get(prompt, "pieces");

            if (strcmp(measure_string(prompt, "task"), measure_string(task, "task")) != 0 || !run ||
                !json_is_array(pieces))
                continue;
            if (!begun)
                text_printf(
                    t, "<h2>Sample outputs</h2>\n<p class=\"legend\">"
                       "<span class=\"key a\">drafted, and accepted</span> "
                       "<span class=\"key r\"><del>drafted, and rejected</del> the target’s own in "
                       "its place</span> <span class=\"key b\">the target’s own: nothing was "
                       "rejected</span></p>\n");
            begun = true;
            text_printf(t, "<h3>");
            add_user_text(t, measure_string(task, "task"));
            text_printf(t, ", %s</h3>\n<p class=\"faint\">", setting);
            add_user_text(t, measure_string(prompt, "source"));
            text_printf(t, "</p>\n");
            add_strip(t, pieces, run);
            break;
        }
    }
}

/* -------------------------------------------------------------------------------------- page */

static void add_model(text *t, const char *label, const json_t *model)
{
    text_printf(t, "<tr><td>%s</td><td>", label);
    add_user_text(t, measure_string(model, "name"));
    text_printf(t, ", ");
    add_user_text(t, measure_string(model, "formats"));
    text_printf(t, ", <code>%s</code></td></tr>\n", measure_string(model, "fnv1a64"));
}

static void add_conditions(text *t, const json_t *summary)
{
    const json_t *device = json_object_get(summary, "device");
    const json_t *driver = json_object_get(summary, "driver");
    const json_t *data = json_object_get(summary, "data");
    const json_t *o = json_object_get(summary, "options");

    text_printf(t, "<h2>Measured on</h2>\n<table class=\"facts\"><tbody>\n<tr><td>device</td><td>");
    add_user_text(t, measure_string(device, "name"));
    if (json_is_true(json_object_get(o, "draft_apart"))) {
        text_printf(t, "</td></tr>\n<tr><td>the draft’s, of its own</td><td>");
        add_user_text(t, measure_string(json_object_get(summary, "draft_device"), "name"));
    }
    text_printf(t, "</td></tr>\n<tr><td>driver</td><td>");
    add_user_text(t, measure_string(driver, "name"));
    text_printf(t, " ");
    add_user_text(t, measure_string(driver, "info"));
    text_printf(t, "</td></tr>\n");
    add_model(t, "target", json_object_get(summary, "model"));
    if (json_is_object(json_object_get(summary, "draft")))
        add_model(t, "draft", json_object_get(summary, "draft"));
    text_printf(t,
                "<tr><td>prompts</td><td>%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
                ", <code>%s</code></td></tr>\n<tr><td>options</td><td>at most %" JSON_INTEGER_FORMAT
                " tokens, temperature %g, seed %" JSON_INTEGER_FORMAT
                ", context %" JSON_INTEGER_FORMAT ", cache %s, schedule %s</td></tr>\n",
                json_integer_value(json_object_get(summary, "measured")),
                json_integer_value(json_object_get(data, "prompts")),
                measure_string(data, "fnv1a64"),
                json_integer_value(json_object_get(o, "max_tokens")),
                measure_number(o, "temperature"), json_integer_value(json_object_get(o, "seed")),
                json_integer_value(json_object_get(summary, "n_ctx")),
                measure_string(o, "cache_type"), measure_string(o, "schedule"));
    text_printf(t,
                "<tr><td>made by</td><td>outrider %s, <code>outrider measure</code></td></tr>\n"
                "</tbody></table>\n",
                measure_string(summary, "version"));
}

void measure_html(text *t, const json_t *summary)
{
    const json_t *overall = json_object_get(summary, "overall"), *task;
    const json_t *tasks = json_object_get(summary, "tasks");
    size_t i;

    html_begin(t, "Does speculation pay?");
    text_printf(t, "<p>");
    add_user_text(t, measure_string(json_object_get(summary, "model"), "name"));
    if (json_is_object(json_object_get(summary, "draft"))) {
        text_printf(t, " with the draft ");
        add_user_text(t, measure_string(json_object_get(summary, "draft"), "name"));
    } else {
        text_printf(t, " without a draft");
    }
    text_printf(t, " on ");
    add_user_text(t, measure_string(json_object_get(summary, "device"), "name"));
    text_printf(t, "</p>\n");
    if (!json_is_true(json_object_get(summary, "finished")))
        text_printf(
            t,
            "<p class=\"warn\">Ended early: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
            " prompts were measured.</p>\n",
            json_integer_value(json_object_get(summary, "measured")),
            json_integer_value(json_object_get(json_object_get(summary, "data"), "prompts")));
    text_printf(t, "<div class=\"answers\">\n");
    if (json_array_size(tasks) != 1)
        add_answer(t, overall);
    json_array_foreach(tasks, i, task) add_answer(t, task);
    text_printf(
        t, "</div>\n<p class=\"faint\">Speed-up of the setting over plain decoding: the "
           "geometric mean over prompts, with its 95&nbsp;%% interval. p99: of a hundred "
           "tokens one waits longer, plain and with the setting. <em>use</em>: the interval "
           "of the best K or of auto is above 1. <em>don’t</em>: one is below 1, and the other "
           "not above. <em>auto</em>: not decided.</p>\n<div class=\"plots\">\n");
    plot_speedups(t, summary);
    plot_acceptance(t, summary);
    plot_costs(t, summary);
    plot_latencies(t, summary);
    text_printf(
        t,
        "</div>\n<h2>Numbers</h2>\n<p class=\"faint\"><em>predicted</em>: from acceptance and the "
        "times of single passes. <em>±&nbsp;%%</em>: how far a prompt typically is from what the "
        "others of its task predict. <em>break-even</em>: tokens a block from which on it "
        "pays.</p>\n");
    json_array_foreach(tasks, i, task) add_table(t, task);
    if (json_array_size(tasks) > 1)
        add_table(t, overall);
    add_samples(t, summary);
    add_conditions(t, summary);
    html_end(t);
}

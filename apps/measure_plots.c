/* The plots of `outrider measure`'s page: see measure_plots.h. */
#include "measure_plots.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "html.h"
#include "measure.h"
#include "svg.h"

#define WIDTH 400
#define HEIGHT 260
#define MAX_NAMES 32

static const char *name_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "?";
}

static void begin_figure(text *t, const char *title)
{
    text_printf(t, "<figure><h3>%s</h3>\n", title);
}

static void end_figure(text *t, const char *caption)
{
    text_printf(t, "<figcaption>%s</figcaption></figure>\n", caption);
}

/* Black is plain decoding's, and the same colour auto's in every plot. */
static int series_of_setting(const json_t *setting, size_t i)
{
    static const int fixed[] = {1, 2, 4, 5, 6, 7};

    if (i == 0)
        return 0;
    if (strcmp(name_of(setting, "name"), "auto") == 0)
        return 3;
    return fixed[(i - 1) % (sizeof(fixed) / sizeof(fixed[0]))];
}

static int series_of_task(size_t i)
{
    return 1 + (int)(i % 7);
}

static void add_task_legend(text *t, const json_t *summary)
{
    const json_t *task;
    const char *names[MAX_NAMES];
    int series[MAX_NAMES];
    size_t i, n = 0;

    json_array_foreach(json_object_get(summary, "tasks"), i, task) if (n < MAX_NAMES)
    {
        names[n] = name_of(task, "task");
        series[n++] = series_of_task(i);
    }
    plot_legend(t, names, series, n);
}

/* -------------------------------------------------------------------------------- speed-up */

/* The tasks, and overall when there are several. */
static size_t collect_rows(const json_t *summary, const json_t **rows, size_t most)
{
    const json_t *task;
    size_t i, n = 0;

    json_array_foreach(json_object_get(summary, "tasks"), i, task) if (n + 1 < most)
        rows[n++] = task;
    if (n != 1)
        rows[n++] = json_object_get(summary, "overall");
    return n;
}

/* Wide enough for the estimates; whiskers may leave it as arrows. */
static axis speedup_axis(const json_t *const *rows, size_t n)
{
    axis a = {.least = 0.9, .most = 1.1, .log = true, .label = "speed-up over plain decoding"};

    for (size_t i = 0; i < n; i++) {
        const json_t *s;
        size_t k;

        json_array_foreach(json_object_get(rows[i], "settings"), k, s)
        {
            const json_t *x = json_object_get(s, "speedup");
            double estimate = measure_number(x, "estimate");
            double low = measure_number(x, "low"), high = measure_number(x, "high");

            a.least = fmin(a.least, fmax(isfinite(low) ? low : estimate, estimate / 1.6) / 1.05);
            a.most = fmax(a.most, fmin(isfinite(high) ? high : estimate, estimate * 1.6) * 1.05);
        }
    }
    return a;
}

void plot_speedups(text *t, const json_t *summary)
{
    const json_t *rows[MAX_NAMES + 1], *settings, *s;
    size_t n = collect_rows(summary, rows, MAX_NAMES), n_settings, k;
    const char *names[MAX_NAMES];
    int series[MAX_NAMES];
    plot p = {.t = t, .width = WIDTH, .left = 12};

    settings = json_object_get(rows[0], "settings");
    n_settings = json_array_size(settings);
    p.x = speedup_axis(rows, n);
    int row = 22 + 13 * (int)(n_settings - 1);
    p.height = 12 + row * (int)n + 40;
    begin_figure(t, "Speed-up by task");
    plot_begin(&p, "Speed-up of each setting over plain decoding, by task, with 95 % intervals");
    plot_mark_x(&p, 1);
    for (size_t i = 0; i < n; i++) {
        int top = 12 + row * (int)i;

        text_printf(t, "<text class=\"name\" x=\"%d\" y=\"%d\">", p.left + 6, top + 13);
        html_escape(t, name_of(rows[i], "task"));
        text_printf(t, "</text>");
        json_array_foreach(json_object_get(rows[i], "settings"), k, s)
        {
            const json_t *x = json_object_get(s, "speedup");
            double y = top + 9 + 13 * (double)k, estimate = measure_number(x, "estimate");

            if (!k)
                continue;
            plot_range(&p, series_of_setting(s, k), measure_number(x, "low"),
                       measure_number(x, "high"), y);
            if (isfinite(estimate))
                text_printf(t, "<circle class=\"dot s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
                            series_of_setting(s, k), plot_x(&p, estimate), y);
        }
    }
    plot_end(&p);
    json_array_foreach(settings, k, s) if (k && k <= MAX_NAMES)
    {
        names[k - 1] = name_of(s, "name");
        series[k - 1] = series_of_setting(s, k);
    }
    plot_legend(t, names, series, n_settings - 1);
    end_figure(t, "Dots are estimates, whiskers their 95 % intervals over prompts. Right of the "
                  "dotted line is faster than plain decoding.");
}

/* ------------------------------------------------------------------------------ acceptance */

void plot_acceptance(text *t, const json_t *summary)
{
    const json_t *task;
    plot p = {
        .t = t,
        .x = {.least = 0.5, .most = 2.5, .whole = true, .label = "position in the block"},
        .y = {.least = 0, .most = 100, .label = "accepted, %"},
        .width = WIDTH,
        .height = HEIGHT,
        .left = 48,
    };
    size_t i;

    json_array_foreach(json_object_get(summary, "tasks"), i, task)
    {
        size_t n = json_array_size(json_object_get(task, "acceptance_by_position"));
        p.x.most = fmax(p.x.most, (double)n + 0.5);
    }
    begin_figure(t, "Acceptance by position");
    plot_begin(&p, "Chance that a drafted token is accepted, by its position in the block");
    json_array_foreach(json_object_get(summary, "tasks"), i, task)
    {
        const json_t *list = json_object_get(task, "acceptance_by_position");
        double x[OTR_MAX_DRAFT], y[OTR_MAX_DRAFT];
        size_t n = json_array_size(list);

        for (size_t k = 0; k < n && k < OTR_MAX_DRAFT; k++) {
            x[k] = (double)k + 1;
            y[k] = 100 * json_number_value(json_array_get(list, k));
        }
        plot_line(&p, series_of_task(i), x, y, n);
        for (size_t k = 0; k < n; k++)
            plot_dot(&p, series_of_task(i), x[k], y[k]);
    }
    plot_end(&p);
    add_task_legend(t, summary);
    end_figure(t, "Of the drafted tokens that were checked at a position: those before them in the "
                  "block had been accepted.");
}

/* ----------------------------------------------------------------------------------- costs */

static size_t most_drafted(const json_t *settings)
{
    const json_t *s;
    size_t i, most = 1;

    json_array_foreach(settings, i, s)
    {
        json_int_t k = json_integer_value(json_object_get(s, "draft_max"));
        most = k > (json_int_t)most ? (size_t)k : most;
    }
    return most;
}

static double most_tokens(const json_t *summary)
{
    const json_t *task, *s;
    double most = 0;
    size_t i, k;

    json_array_foreach(json_object_get(summary, "tasks"), i, task)
        json_array_foreach(json_object_get(task, "settings"), k, s)
            most = fmax(most, measure_number(s, "tau"));
    return most;
}

/* n-gram lookup has no cost of its own, and its blocks have the rows that it found tokens for. */
static void add_tokens(const plot *p, int series, const json_t *setting)
{
    const json_t *counters = json_object_get(setting, "counters");
    double drafting = measure_number(counters, "blocks") - measure_number(counters, "plain_blocks");
    double tau = measure_number(setting, "tau"), k = measure_number(setting, "draft_max");

    if (!(k > 0))
        return;
    if (strcmp(name_of(setting, "drafter"), "ngram") == 0)
        plot_ring(p, series, measure_number(counters, "drafted") / drafting, tau);
    else
        plot_dot(p, series, k, tau);
}

static bool has_ngram(const json_t *settings)
{
    const json_t *s;
    size_t i;

    json_array_foreach(settings, i, s)
    {
        if (strcmp(name_of(s, "drafter"), "ngram") == 0 && measure_number(s, "draft_max") > 0)
            return true;
    }
    return false;
}

static const char *caption_of_costs(bool dots, bool rings)
{
    if (!dots)
        return "Line: time of a block by that of a plain step. Rings: mean tokens per block where "
               "n-gram lookup found something, at the tokens that it proposed on average. It pays "
               "where a ring is above the line.";
    return rings ? "Lines: time of a block by that of a plain step. Dots: mean tokens per block. "
                   "Speculation pays where a dot is above the break-even line. Rings: n-gram "
                   "lookup, which costs no draft steps and pays above v(K+1)."
                 : "Lines: time of a block by that of a plain step. Dots: mean tokens per block. "
                   "Speculation pays where a dot is above the break-even line.";
}

void plot_costs(text *t, const json_t *summary)
{
    static const char *const names[] = {"break-even: v(K+1) + K c", "of it the target: v(K+1)"};
    const json_t *overall = json_object_get(summary, "overall"), *task, *s;
    const json_t *costs = json_object_get(overall, "verify_cost");
    double x[MEASURE_MAX_ROWS], v[MEASURE_MAX_ROWS], even[MEASURE_MAX_ROWS];
    double c = measure_number(overall, "c");
    bool rings = has_ngram(json_object_get(overall, "settings"));
    size_t n = most_drafted(json_object_get(overall, "settings")) + 2, i, k;
    plot p = {
        .t = t,
        .x = {.least = 0, .whole = true, .label = "K, tokens drafted a block"},
        .y = {.least = 0,
              .most = fmax(3, 1.1 * most_tokens(summary)),
              .label = "plain steps, tokens"},
        .width = WIDTH,
        .height = HEIGHT,
        .left = 48,
    };

    n = n < MEASURE_MAX_ROWS ? n : MEASURE_MAX_ROWS;
    for (k = 0; k < n; k++) {
        x[k] = (double)k;
        v[k] = json_number_value(json_array_get(costs, k));
        even[k] = v[k] + (double)k * c;
        p.y.most = fmax(p.y.most, (isfinite(c) ? even[k] : v[k]) * 1.1);
    }
    p.x.most = (double)n - 0.5;
    begin_figure(t, "What a block costs, and what it brings");
    plot_begin(&p, "Cost of a block in plain steps by K, and mean tokens per block of each task");
    plot_line(&p, 0, x, even, n);
    plot_line(&p, 7, x, v, n);
    json_array_foreach(json_object_get(summary, "tasks"), i, task)
    {
        json_array_foreach(json_object_get(task, "settings"), k, s)
        {
            add_tokens(&p, series_of_task(i), s);
        }
    }
    plot_end(&p);
    if (isfinite(c))
        plot_legend(t, names, (const int[]){0, 7}, 2);
    else
        plot_legend(t, (const char *const[]){"break-even: v(K+1)"}, (const int[]){7}, 1);
    add_task_legend(t, summary);
    end_figure(t, caption_of_costs(isfinite(c), rings));
}

/* ------------------------------------------------------------------------------- latencies */

#define N_LEVELS 60

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* All waits with a setting, sorted; *values is to be freed. */
static size_t collect_waits(const json_t *summary, const char *setting, double **values)
{
    const json_t *prompt, *run, *wait;
    size_t i, k, j, n = 0, capacity = 0;

    *values = NULL;
    json_array_foreach(json_object_get(summary, "prompts"), i, prompt)
    {
        json_array_foreach(json_object_get(prompt, "runs"), k, run)
        {
            if (strcmp(name_of(run, "setting"), setting) != 0)
                continue;
            json_array_foreach(json_object_get(run, "latency_ms"), j, wait)
            {
                if (n == capacity) {
                    capacity = capacity ? 2 * capacity : 1024;
                    double *grown = realloc(*values, capacity * sizeof(**values));
                    if (!grown)
                        return n;
                    *values = grown;
                }
                (*values)[n++] = json_number_value(wait);
            }
        }
    }
    if (n)
        qsort(*values, n, sizeof(**values), compare_doubles);
    return n;
}

/* Shares from all to one in n, evenly on a logarithmic scale. */
static size_t shares_later(const double *sorted, size_t n, double least, double *x, double *y)
{
    size_t used = 0;

    for (size_t i = 0; i <= N_LEVELS; i++) {
        double share = pow(1 / (double)n, (double)i / N_LEVELS);
        size_t rank = (size_t)((1 - share) * (double)n + 1e-9);

        rank = rank < n ? rank : n - 1;
        x[used] = fmax(sorted[rank], least);
        y[used++] = 100 * share;
    }
    return used;
}

void plot_latencies(text *t, const json_t *summary)
{
    const json_t *overall = json_object_get(summary, "overall");
    const char *best = name_of(overall, "predicted_setting");
    const char *names[] = {"plain", "auto", best};
    static const int series[] = {0, 3, 2};
    double *values[3], most = 1, least = INFINITY;
    size_t n[3];
    plot p = {
        .t = t,
        .x = {.log = true, .label = "milliseconds since the token before"},
        .y = {.most = 100, .log = true, .label = "tokens that came later, %"},
        .width = WIDTH,
        .height = HEIGHT,
        .left = 48,
    };

    for (int i = 0; i < 3; i++) {
        n[i] = collect_waits(summary, names[i], &values[i]);
        if (n[i]) {
            most = fmax(most, values[i][n[i] - 1]);
            least = fmin(least, values[i][n[i] / 2] / 4);
        }
    }
    /* Tokens of a block come together: what is under a tenth of the plain median is "at once". */
    if (n[0])
        least = values[0][n[0] / 2] / 10;
    p.y.least = n[0] > 1000 ? 0.01 : n[0] > 100 ? 0.1 : 1;
    p.x.least = fmax(least, 0.001);
    p.x.most = fmax(most * 1.2, 2 * p.x.least);
    begin_figure(t, "Waits for a token");
    plot_begin(&p, "Share of tokens that came later than a time, plain and auto");
    for (int i = 0; i < 3; i++) {
        double x[N_LEVELS + 1], y[N_LEVELS + 1];

        if (n[i])
            plot_line(&p, series[i], x, y, shares_later(values[i], n[i], p.x.least, x, y));
        free(values[i]);
    }
    plot_end(&p);
    plot_legend(t, names, series, 3);
    end_figure(t, "At 1 % stands p99, at 5 % p95. The tokens of a block come together, at the left "
                  "edge, and the first of them after the whole block: so the longest waits grow.");
}

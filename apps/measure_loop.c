/* The loop of `outrider measure` (measure.h) over the prompts: the budget, the line of progress,
 * and the result kept on disk meanwhile. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interrupt.h"
#include "measure.h"
#include "output.h"
#include "progress.h"
#include "report_file.h"

/* What a crash can cost, about. */
#define CHECKPOINT_S 30.0

static bool is_measured(const measure *m, size_t prompt)
{
    for (size_t i = 0; i < m->n_records; i++)
        if (m->records[i].prompt == prompt)
            return true;
    return false;
}

int measure_write_json(const measure *m, const json_t *head, const char *path)
{
    json_t *summary = measure_summary(m, head);
    char *dump = summary ? json_dumps(summary, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    text t = {0};
    int code = dump ? EXIT_CODE_OK : fail_memory();

    if (dump) {
        text_append(&t, dump, strlen(dump));
        text_append(&t, "\n", 1);
        code = report_file_write(path, &t);
    }
    free(dump);
    text_free(&t);
    json_decref(summary);
    return code;
}

struct schedule {
    double start_s, budget_s, saved_s;
    size_t n_done;
    char label[96];
    progress shown;
};

static double left_s(const struct schedule *w, size_t n_left)
{
    double elapsed = now_seconds() - w->start_s;
    double all = w->n_done ? elapsed / (double)w->n_done * (double)n_left : INFINITY;
    double budget = w->budget_s > 0 ? fmax(0, w->budget_s - elapsed) : INFINITY;

    return fmin(all, budget);
}

static void show(struct schedule *w, const measure *m)
{
    size_t n = m->data.n_prompts, done = m->n_records + m->n_short;
    double left = left_s(w, n - done);
    int length = snprintf(w->label, sizeof(w->label), "measuring: %zu of %zu prompts", done, n);

    if (isfinite(left))
        snprintf(w->label + length, sizeof(w->label) - (size_t)length, ", %.0f:%02.0f left",
                 floor(left / 60), floor(fmod(left, 60)));
    w->shown.percent = -1; /* the label changed */
    progress_update(done, n, &w->shown);
}

/* True when the next prompt would end nearer to the budget's end than past it. */
static bool has_time(const struct schedule *w)
{
    double elapsed = now_seconds() - w->start_s;

    return w->budget_s <= 0 || !w->n_done ||
           elapsed + elapsed / (double)w->n_done / 2 < w->budget_s;
}

/* False when that can't be; the end tries again. */
static bool save(struct schedule *w, const measure *m, const json_t *head, const char *json)
{
    progress_end(&w->shown);
    if (measure_write_json(m, head, json) == EXIT_CODE_OK)
        return true;
    if (!m->e->quiet)
        say_warning("the measurement goes on; its result is written at the end");
    return false;
}

int measure_all(measure *m, const json_t *head, const char *json, double budget_s)
{
    struct schedule w = {.start_s = now_seconds(), .budget_s = budget_s};
    otr_result result = OTR_OK;
    bool same = true, is_short, saves = json && strcmp(json, "-") != 0;

    w.saved_s = w.start_s;
    w.shown = progress_begin(w.label, !m->e->quiet && progress_wanted());
    show(&w, m);
    if (m->n_records < m->data.n_prompts)
        result = measure_warm_up(m);
    for (size_t i = 0; i < m->data.n_prompts && result == OTR_OK && same && has_time(&w); i++) {
        if (is_measured(m, i))
            continue;
        result = measure_prompt_run(m, i, &m->records[m->n_records], &same, &is_short);
        if (result != OTR_OK || !same)
            break;
        *(is_short ? &m->n_short : &m->n_records) += 1;
        w.n_done++;
        if (saves && now_seconds() - w.saved_s > CHECKPOINT_S) {
            saves = save(&w, m, head, json);
            w.saved_s = now_seconds();
        }
        show(&w, m);
    }
    progress_end(&w.shown);
    if (!same)
        return EXIT_CODE_FAILED;
    if (result == OTR_ERROR_CANCELLED && interrupt_signal())
        return EXIT_CODE_SIGNAL + interrupt_signal();
    return result == OTR_OK ? EXIT_CODE_OK : fail_result(&m->e->log, m->e->context, result);
}

/* Writes traces of generations: see trace.h; the form is in `outrider simulate --help`. */
#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>

#include "message.h"
#include "report_file.h"

static trace_position_seen *next_position(trace_log *log)
{
    if (log->n == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 256;
        trace_position_seen *grown = realloc(log->positions, capacity * sizeof(*grown));

        if (!grown) {
            log->failed = true;
            return NULL;
        }
        log->positions = grown;
        log->capacity = capacity;
    }
    return &log->positions[log->n++];
}

void trace_add_block(const otr_block *block, void *user)
{
    trace_log *log = user;

    for (uint32_t i = 0; i < block->n_tokens; i++) {
        trace_position_seen *at = next_position(log);

        if (!at)
            return;
        *at = (trace_position_seen){.id = block->tokens[i]};
        /* The last token has something to be compared with only after a miss. */
        if (block->probabilities && i < block->drafted) {
            at->is_known = true;
            at->hit = i < block->accepted;
            at->probability = block->probabilities[i];
        }
    }
}

static void append_head(text *t, const int32_t *prompt, size_t n_prompt, const otr_stats *stats)
{
    double plain_ms = stats->verify_row_ms[0];

    text_printf(t, "{\"trace\": 1, \"prompt\": [");
    for (size_t i = 0; i < n_prompt; i++)
        text_printf(t, "%s%" PRId32, i ? ", " : "", prompt[i]);
    text_printf(t, "]");
    if (plain_ms > 0 && stats->draft_step_ms > 0) {
        text_printf(t, ", \"target_ms\": [");
        for (int i = 0; i <= OTR_MAX_DRAFT; i++)
            if (stats->verify_row_ms[i] > 0)
                text_printf(t, "%s%.6g", i ? ", " : "", stats->verify_row_ms[i]);
            else
                text_printf(t, "%snull", i ? ", " : "");
        text_printf(t, "], \"draft_ms\": %.6g", stats->draft_step_ms);
    }
    if (plain_ms > 0 && stats->prefill_ms > 0 && n_prompt)
        text_printf(t, ", \"prefill_ratio\": %.6g",
                    stats->prefill_ms / (double)n_prompt / plain_ms);
    text_printf(t, "}\n");
}

int trace_write(const trace_log *log, const char *path, const int32_t *prompt, size_t n_prompt,
                const otr_stats *stats)
{
    size_t n = log->n < stats->emitted ? log->n : (size_t)stats->emitted;
    text t = {0};
    int code;

    if (log->failed)
        return fail_memory();
    append_head(&t, prompt, n_prompt, stats);
    for (size_t i = 0; i < n; i++) {
        const trace_position_seen *at = &log->positions[i];

        text_printf(&t, "{\"id\": %" PRId32, at->id);
        if (at->is_known)
            text_printf(&t, ", \"p\": %.6g, \"hit\": %s", (double)at->probability,
                        at->hit ? "true" : "false");
        text_printf(&t, "}\n");
    }
    code = report_file_write(path, &t);
    text_free(&t);
    return code;
}

void trace_log_free(trace_log *log)
{
    free(log->positions);
    *log = (trace_log){0};
}

/* Numbers for people, and the block of statistics at the end of a run: see report.h. */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

static number_text scaled(double value, double step, const char *const *units, size_t n)
{
    number_text out;
    size_t i = 0;

    /* 999.95 would be printed as 1000.0 */
    while (i + 1 < n && value >= step * 0.99995) {
        value /= step;
        i++;
    }
    snprintf(out.s, sizeof(out.s), "%.*f%s%s", i == 0 ? 0 : 1, value, units[i][0] ? " " : "",
             units[i]);
    return out;
}

number_text count_text(uint64_t n)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};

    return scaled((double)n, 1000.0, units, sizeof(units) / sizeof(units[0]));
}

number_text bytes_text(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

    return scaled((double)bytes, 1024.0, units, sizeof(units) / sizeof(units[0]));
}

number_text time_text(double ms)
{
    number_text out;

    if (ms < 10.0)
        snprintf(out.s, sizeof(out.s), "%.1f ms", ms);
    else if (ms < 1000.0)
        snprintf(out.s, sizeof(out.s), "%.0f ms", ms);
    else
        snprintf(out.s, sizeof(out.s), "%.2f s", ms / 1000.0);
    return out;
}

const char *device_type_name(otr_device_type type)
{
    static const char *const names[] = {
        [OTR_DEVICE_OTHER] = "other",
        [OTR_DEVICE_INTEGRATED] = "integrated GPU",
        [OTR_DEVICE_DISCRETE] = "discrete GPU",
        [OTR_DEVICE_VIRTUAL] = "virtual GPU",
        [OTR_DEVICE_CPU] = "CPU",
    };

    return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "other";
}

static void add_speculation(text *t, const engine *e, const otr_stats *stats)
{
    if (!e->draft && stats->plain_blocks == stats->blocks) {
        text_printf(t, "  draft       none (plain decoding)\n");
        return;
    }
    if (stats->verified)
        text_printf(t,
                    "  acceptance  %.1f %% of %" PRIu64 " drafted tokens checked (95 %%: %.1f to "
                    "%.1f), %.2f tokens a block\n",
                    100.0 * stats->acceptance, stats->verified, 100.0 * stats->acceptance_low,
                    100.0 * stats->acceptance_high, stats->tokens_per_block);
    else
        text_printf(t, "  acceptance  nothing drafted was checked\n");
    if (stats->plain_blocks)
        text_printf(t, "  plain       %" PRIu64 " of %" PRIu64 " blocks\n", stats->plain_blocks,
                    stats->blocks);
    if (stats->ngram_blocks)
        text_printf(t, "  n-gram      %" PRIu64 " of %" PRIu64 " blocks\n", stats->ngram_blocks,
                    stats->blocks);
    if (stats->pipelined_blocks)
        text_printf(t,
                    "  pipelined   %" PRIu64 " of %" PRIu64 " blocks, the next one ready after "
                    "%" PRIu64 "; %" PRIu64 " tokens dropped\n",
                    stats->pipelined_blocks, stats->blocks, stats->ready_blocks, stats->dropped);
    if (stats->speedup > 0.0)
        text_printf(t, "  speed-up    %.2fx plain decoding%s (%.1f tokens/s in this run)\n",
                    stats->speedup, stats->speedup < 1.0 ? ": slower" : "",
                    stats->plain_tokens_per_second);
    else
        text_printf(t, "  speed-up    not measured (too short: give a larger -n)\n");
}

void report_run(const engine *e, const otr_stats *stats, uint64_t seed)
{
    text t = {0};

    text_printf(&t,
                "outrider: %" PRIu64 " token%s, %.1f tokens/s, first after %s "
                "(%" PRIu64 " prompt token%s)\n",
                stats->emitted, stats->emitted == 1 ? "" : "s", stats->tokens_per_second,
                time_text(stats->ttft_ms).s, stats->prompt_tokens,
                stats->prompt_tokens == 1 ? "" : "s");
    add_speculation(&t, e, stats);
    text_printf(&t, "  finish      %s, seed %" PRIu64 ", on ", otr_finish_string(stats->finish),
                seed);
    text_append_printable(&t, e->device.name, strlen(e->device.name), 0);
    text_printf(&t, " (%s)\n", device_type_name(e->device.type));
    if (!t.failed)
        fwrite(t.data, 1, t.n, stderr);
    text_free(&t);
}

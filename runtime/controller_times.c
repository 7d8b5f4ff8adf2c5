/* Times of passes, learnt online: controller_times.h. */
#include "controller_times.h"

#include <math.h>

#define SLOPE_PRIOR 0.1        /* of plain time, a row more */
#define CATCH_UP_PRIOR 0.2     /* row of a prefill / step, where nothing was measured */
#define UNKNOWN_DEVIATION 0.05 /* of a time measured once */
#define COMMON_DRIFT 0.02      /* part of a time's change that the other row counts follow */

double times_clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

void times_measure(measured_time *t, double ms)
{
    if (!(ms > 0) || !isfinite(ms))
        return;
    if (t->n >= 4)
        ms = times_clamp(ms, t->ms / 3, t->ms * 3); /* a hiccup, or the first step of a change */
    t->n = t->n < 1e6 ? t->n + 1 : t->n;
    double gain = 1 / t->n > TIMES_LEAST_GAIN ? 1 / t->n : TIMES_LEAST_GAIN;
    double difference = t->ms > 0 ? ms / t->ms - 1 : 0;
    t->variance = (1 - gain) * (t->variance + gain * difference * difference);
    t->ms += gain * (ms - t->ms);
}

double times_uncertainty(const measured_time *t)
{
    double n = t->n < 1 / TIMES_LEAST_GAIN ? t->n : 1 / TIMES_LEAST_GAIN;
    /* Two passes that agree by chance must not look certain. */
    double variance = (n * t->variance + UNKNOWN_DEVIATION * UNKNOWN_DEVIATION) / (n + 1);
    return n > 0 ? sqrt(variance / n) : 1;
}

double times_plain_ms(const controller *c)
{
    return c->target[0].ms;
}

double times_target_ms(const controller *c, uint32_t rows, bool optimistic)
{
    uint32_t below = 0, above = 0;

    for (uint32_t n = 1; n <= CONTROLLER_MAX_ROWS; n++) {
        if (c->target[n - 1].n <= 0)
            continue;
        if (n <= rows)
            below = n;
        else if (!above)
            above = n;
    }
    if (!below)
        return above ? c->target[above - 1].ms : 0;
    double low = c->target[below - 1].ms;
    if (below == rows)
        return low;
    if (above) {
        double high = c->target[above - 1].ms;
        if (optimistic || high < low)
            return low;
        return low + (high - low) * (rows - below) / (above - below);
    }
    double slope = below > 1 ? (low - times_plain_ms(c)) / (below - 1) : SLOPE_PRIOR * low;
    if (slope < 0)
        slope = 0;
    if (optimistic)
        slope = below > 1 ? slope / 2 : 0;
    return low + slope * (rows - below);
}

double controller_target_ms(const controller *c, uint32_t n_rows)
{
    return n_rows >= 1 && n_rows <= CONTROLLER_MAX_ROWS ? times_target_ms(c, n_rows, false) : 0;
}

double controller_draft_ms(const controller *c)
{
    return c->draft.n > 0 ? c->draft.ms : c->params.cost_prior * times_plain_ms(c);
}

double times_catch_up_row_ms(const controller *c)
{
    if (c->catch_up.n > 0)
        return c->catch_up.ms;
    if (c->prefill_row_ms > 0 && c->params.cost_prior > 0)
        return c->prefill_row_ms * c->params.cost_prior;
    return CATCH_UP_PRIOR * controller_draft_ms(c);
}

void controller_record_pass(controller *c, uint32_t n_rows, double ms)
{
    if (n_rows < 1 || n_rows > CONTROLLER_MAX_ROWS)
        return;
    measured_time *t = &c->target[n_rows - 1];
    double before = t->ms;
    times_measure(t, ms);
    /* A device that gets slower does so for all row counts, of which few are measured. */
    if (t->n > 4 && before > 0) {
        double drift = pow(times_clamp(t->ms / before, 0.9, 1.1), COMMON_DRIFT / TIMES_LEAST_GAIN);
        for (int i = 0; i < CONTROLLER_MAX_ROWS; i++)
            if (&c->target[i] != t)
                c->target[i].ms *= drift;
    }
}

void controller_record_draft_step(controller *c, double ms)
{
    times_measure(&c->draft, ms);
}

void controller_record_prefill(controller *c, uint32_t n_rows, double ms)
{
    if (!(ms > 0) || !n_rows)
        return;
    c->run_ms += ms;
    c->prefill_row_ms = ms / n_rows;
}

/* The controller (controller.h): estimates of times and acceptances, the best option of the next
 * block, and the loss budget that every risk is paid from. */
#include "controller_plan.h"
#include "controller_times.h"

#include <math.h>
#include <string.h>

/* Part of the promised loss that is used; the rest covers noise in the estimates. */
#define USED_SHARE 0.8
/* Of a plain token: a block gives one in any case, so this much may be lost before it begins. */
#define SPARE 0.9
#define MIN_PLAIN_PASSES 1
#define WELL_KNOWN 16 /* passes */
#define MAX_BLOCKS_WITHOUT_PLAIN 64
#define FIRST_INTERVAL 4
#define LEAST_INTERVAL 4
#define MOST_INTERVAL 512
#define GROWTH 2
#define GROWTH_WITHOUT_HIT 4 /* of a drafter none of whose tokens was ever right */
#define PROBE_DRAFT 2
/* Of a plain token: where a probe could lose more, it drafts one token. */
#define PROBE_LOSS 0.5
#define LEAST_PROBE_LOSS 0.25 /* of the worst one: what is taken for expected */
/* To start, and to go on. */
#define GAIN_TO_START 1.02
#define GAIN_TO_GO_ON 1.0
/* A row count never measured is tried when it could gain so much. */
#define GAIN_TO_EXPLORE 1.03
#define EXPLORE_STRIDE 3
#define MAX_EXPLORED 2
#define TAIL_ROWS 32       /* the least that a draft may see */
#define CATCH_UP_BLOCKS 16 /* over which a catch-up must pay */
#define DOUBT 1.5          /* standard deviations */
#define STOP_SLACK 0.9
#define MIN_INFORMATION 0.08

const char *decision_reason_string(enum decision_reason reason)
{
    static const char *const names[N_DECISION_REASONS] = {
        "pays",    "drafted ahead", "probe",   "new row count", "measuring plain decoding",
        "no gain", "loss budget",   "no room", "no drafter",
    };
    return (unsigned)reason < N_DECISION_REASONS ? names[reason] : "unknown";
}

controller_params controller_params_default(void)
{
    return (controller_params){
        .drafters = {[DRAFTER_MODEL] = true},
        .schedules = {[SCHEDULE_SERIAL] = true},
        .max_draft = CONTROLLER_MAX_DRAFT,
        .loss_share = 0.02,
    };
}

void controller_init(controller *c, const controller_params *params)
{
    memset(c, 0, sizeof *c);
    c->params = *params;
    if (c->params.max_draft > CONTROLLER_MAX_DRAFT)
        c->params.max_draft = CONTROLLER_MAX_DRAFT;
    c->overlap = params->overlap;
    for (int i = 0; i < N_DRAFTERS; i++) {
        c->drafters[i].interval = FIRST_INTERVAL;
    }
}

/* ---------------------------------------------------------------------------------- budget */

double controller_budget_ms(const controller *c)
{
    double plain = c->run_ms - c->loss_ms; /* what plain decoding would have taken */
    return c->params.loss_share * USED_SHARE * plain - c->loss_ms;
}

static bool affordable(const controller *c, double catch_up_ms)
{
    return catch_up_ms <= controller_budget_ms(c) + SPARE * times_plain_ms(c);
}

static double probe_loss(const controller *c, enum drafter drafter, uint32_t n_draft)
{
    double chain = drafter == DRAFTER_MODEL ? n_draft * controller_draft_ms(c) : 0;
    return times_target_ms(c, n_draft + 1, false) - times_plain_ms(c) + chain;
}

static uint32_t probe_draft(const controller *c, enum drafter drafter)
{
    return probe_loss(c, drafter, PROBE_DRAFT) > PROBE_LOSS * times_plain_ms(c) ? 1 : PROBE_DRAFT;
}

/* Blocks between probes, so that they take three quarters of the budget when they bring what is
 * expected now. The draft catches up by what was written since, or by the end of it. */
static uint32_t longest_interval(const controller *c, enum drafter drafter)
{
    double income = 0.75 * USED_SHARE * c->params.loss_share * times_plain_ms(c);
    double worst = probe_loss(c, drafter, probe_draft(c, drafter));
    double loss = worst - calibration_mean(&c->drafters[drafter].calibration) * times_plain_ms(c);

    loss = loss > LEAST_PROBE_LOSS * worst ? loss : LEAST_PROBE_LOSS * worst;
    double blocks = loss / income;

    if (drafter == DRAFTER_MODEL) {
        double row = times_catch_up_row_ms(c);
        blocks = (loss + TAIL_ROWS * row) / income;
        if (income > row && loss / (income - row) < blocks)
            blocks = loss / (income - row);
    }
    return (uint32_t)times_clamp(blocks, LEAST_INTERVAL, MOST_INTERVAL);
}

/* ---------------------------------------------------------------------------------- options */

double controller_acceptance(const controller *c, enum drafter drafter)
{
    return calibration_mean(&c->drafters[drafter].calibration);
}

/* Could this drafter gain at all, if every token were accepted? */
static bool could_pay(const controller *c, enum drafter drafter, uint32_t most)
{
    chances all = {.mean = 1};

    if (drafter == DRAFTER_MODEL && c->draft.n <= 0 && c->params.cost_prior <= 0)
        return true;
    for (int i = 0; i < CONTROLLER_MAX_DRAFT; i++)
        all.at[i] = c->draft.n > 0 ? 1 : 0.9; /* a prior of costs needs more room */
    for (int s = 0; s < N_SCHEDULES; s++)
        if (c->params.schedules[s] &&
            plan_best(c, drafter, (enum schedule)s, &all, most, 0, true).n_draft)
            return true;
    return false;
}

/* Rows of a catch-up that can be paid now; 0: none. */
static uint32_t payable_rows(const controller *c, uint32_t lag)
{
    double row = times_catch_up_row_ms(c);

    if (affordable(c, lag * row))
        return lag;
    return affordable(c, TAIL_ROWS * row) && lag > TAIL_ROWS ? TAIL_ROWS : 0;
}

/* --------------------------------------------------------------------------------- decision */

/* Survival under which token k + 1 and those after it cost more than they bring, at the rate of
 * the whole: lambda (T(j) - T(k)) against the sum of the chances, for the best j. */
static void set_stops(const controller *c, const plan *p, const chances *a, controller_decision *d)
{
    const calibration *k = &c->drafters[p->drafter].calibration;
    double lambda = plan_rate(p);

    for (uint32_t i = 0; i < CONTROLLER_BANDS; i++)
        d->band_acceptance[i] = (float)calibration_of_band(k, i);
    for (uint32_t n = 1; n < p->n_draft; n++) {
        double least = 1, chance = 1, sum = 0;
        for (uint32_t j = n + 1; j <= p->n_draft; j++) {
            chance *= a->mean;
            sum += chance;
            double ms = times_target_ms(c, j + 1, false) - times_target_ms(c, n + 1, false) +
                        (j - n) * controller_draft_ms(c);
            double needed = ms > 0 ? lambda * ms / sum : 0;
            least = needed < least ? needed : least;
        }
        d->stop[n - 1] = (float)(STOP_SLACK * least);
    }
}

/* With a telling confidence the chain may be longer, since it stops by itself. */
static void stretch(const controller *c, plan *p, uint32_t most)
{
    const calibration *k = &c->drafters[DRAFTER_MODEL].calibration;

    if (!c->params.stops_early || calibration_information(k) < MIN_INFORMATION)
        return;
    chances upper = {.mean = calibration_upper_mean(k)};
    for (int i = 0; i < CONTROLLER_MAX_DRAFT; i++)
        upper.at[i] = upper.mean;
    plan longer = plan_best(c, DRAFTER_MODEL, p->schedule, &upper, most, 0, false);
    if (longer.n_draft > p->n_draft)
        p->n_draft = longer.n_draft;
}

static void stay_plain(controller_decision *d, enum decision_reason why)
{
    d->drafter = DRAFTER_NONE;
    d->schedule = SCHEDULE_SERIAL;
    d->n_draft = d->n_next = 0;
    d->catch_up_rows = 0;
    d->reason = why;
}

static void take(const controller *c, const plan *p, const chances *a, enum decision_reason why,
                 controller_decision *d)
{
    d->drafter = p->drafter;
    d->schedule = p->schedule;
    d->n_draft = p->n_draft;
    d->n_next = p->n_draft;
    d->reason = why;
    d->expected_speedup = plan_rate(p) * times_plain_ms(c);
    if (c->params.stops_early && p->drafter == DRAFTER_MODEL && why == REASON_PAYS)
        set_stops(c, p, a, d);
}

static enum schedule only_schedule(const controller *c)
{
    return c->params.schedules[SCHEDULE_SERIAL] ? SCHEDULE_SERIAL : SCHEDULE_PIPELINED;
}

/* What a drafter may do in the next block. */
typedef struct candidate {
    plan plan;
    chances chances;
    uint32_t most, rows;
    double catch_up_ms;
} candidate;

static candidate consider(const controller *c, enum drafter drafter, const controller_context *x,
                          uint32_t room)
{
    const drafter_state *s = &c->drafters[drafter];
    candidate out = {.most = room, .chances = plan_chances(c, drafter, x)};

    if (!c->params.drafters[drafter])
        out.most = 0;
    if (drafter == DRAFTER_NGRAM && x->n_ngram < out.most)
        out.most = x->n_ngram;
    if (out.most && drafter == DRAFTER_MODEL && x->draft_lag > 1) {
        out.rows = payable_rows(c, x->draft_lag);
        out.catch_up_ms = (out.rows ? out.rows : x->draft_lag) * times_catch_up_row_ms(c);
    }
    out.plan = (plan){.tokens = 1, .ms = times_plain_ms(c)};
    for (int i = 0; i < N_SCHEDULES && out.most; i++) {
        if (!c->params.schedules[i] && !(drafter == DRAFTER_NGRAM && i == SCHEDULE_SERIAL))
            continue;
        if (drafter == DRAFTER_NGRAM && i != SCHEDULE_SERIAL)
            continue;
        plan p = plan_best(c, drafter, (enum schedule)i, &out.chances, out.most,
                           out.catch_up_ms / CATCH_UP_BLOCKS, false);
        if (p.n_draft && plan_rate(&p) > plan_rate(&out.plan))
            out.plan = p;
    }
    /* Not off by chance: what is on and may well pay goes on with one token, where that is earned. */
    if (out.most && !out.plan.n_draft && s->on && !out.catch_up_ms && controller_budget_ms(c) > 0) {
        double sure = s->calibration.tries + 1, mean = out.chances.mean;
        plan one = {.drafter = drafter, .n_draft = 1, .schedule = only_schedule(c)};

        one.tokens = 1 + out.chances.at[0] + DOUBT * sqrt(mean * (1 - mean) / sure);
        one.ms = plan_block_ms(c, &one, 0, false);
        if (plan_rate(&one) > plan_rate(&out.plan))
            out.plan = one;
    }
    return out;
}

/* A row count that might be cheaper than the line through those measured says. */
static bool explore(const controller *c, candidate *best)
{
    const plan *now = &best->plan;
    uint32_t largest = 1;

    if (c->since_explored < EXPLORE_STRIDE)
        return false;
    for (uint32_t n = 1; n <= CONTROLLER_MAX_ROWS; n++)
        if (c->target[n - 1].n > 0)
            largest = n;
    /* At most twice as far as was measured. */
    uint32_t most = 2 * (largest - 1) < best->most ? 2 * (largest - 1) : best->most;
    plan p = plan_best(c, now->drafter, now->schedule, &best->chances, most, 0, true);
    if (!p.n_draft || p.n_draft == now->n_draft || c->target[p.n_draft].n > 0 ||
        c->explored[p.n_draft] >= MAX_EXPLORED || plan_rate(&p) < GAIN_TO_EXPLORE * plan_rate(now))
        return false;
    best->plan = p;
    return true;
}

static bool plain_time_needed(const controller *c, double speedup)
{
    if (c->target[0].n < MIN_PLAIN_PASSES)
        return true;
    if (c->since_plain >= MAX_BLOCKS_WITHOUT_PLAIN && speedup < 1.5)
        return true;
    return speedup > 1 && speedup < 1 + 3 * times_uncertainty(&c->target[0]) && c->since_plain >= 3;
}

static bool probe(const controller *c, enum drafter drafter, const candidate *k,
                  controller_decision *d)
{
    const drafter_state *s = &c->drafters[drafter];
    bool first = !s->n_blocks;

    if (!k->most || (!first && s->waited < s->interval) || !could_pay(c, drafter, k->most))
        return false;
    uint32_t n_draft = s->probe_draft ? s->probe_draft : probe_draft(c, drafter);
    plan p = {.drafter = drafter, .n_draft = n_draft < k->most ? n_draft : k->most};
    p.schedule = drafter == DRAFTER_NGRAM ? SCHEDULE_SERIAL : only_schedule(c);
    p.tokens = 1;
    p.ms = plan_block_ms(c, &p, 0, false);
    take(c, &p, &k->chances, REASON_PROBE, d);
    return true;
}

static enum decision_reason choose(controller *c, const controller_context *x, uint32_t room,
                                   controller_decision *d)
{
    candidate candidates[N_DRAFTERS];
    int best = DRAFTER_NONE;
    bool any = false;

    for (int i = DRAFTER_MODEL; i < N_DRAFTERS; i++) {
        candidate *k = &candidates[i];
        *k = consider(c, (enum drafter)i, x, room);
        any |= k->most > 0;
        double needed = c->drafters[i].on ? GAIN_TO_GO_ON : GAIN_TO_START;
        if (k->plan.n_draft && c->drafters[i].n_blocks &&
            plan_rate(&k->plan) * times_plain_ms(c) > needed &&
            (!best || plan_rate(&k->plan) > plan_rate(&candidates[best].plan)))
            best = i;
    }
    if (!any)
        return REASON_NO_DRAFTER;
    if (plain_time_needed(c, best ? plan_rate(&candidates[best].plan) * times_plain_ms(c) : 0))
        return REASON_PLAIN_TIME;
    /* A drafter never tried comes first, an unknown one being worth a block. */
    for (int i = DRAFTER_MODEL; i < N_DRAFTERS; i++)
        if ((!best || !c->drafters[i].n_blocks) && probe(c, (enum drafter)i, &candidates[i], d)) {
            candidate *k = &candidates[i];
            d->catch_up_rows = k->rows;
            if (k->catch_up_ms > 0 && !k->rows)
                return REASON_BUDGET;
            return affordable(c, k->catch_up_ms) ? REASON_PROBE : REASON_BUDGET;
        }
    if (!best)
        return REASON_NO_GAIN;
    candidate *k = &candidates[best];
    if ((k->catch_up_ms > 0 && !k->rows) || !affordable(c, k->catch_up_ms))
        return REASON_BUDGET;
    bool exploring = explore(c, k);
    if (!exploring && best == DRAFTER_MODEL)
        stretch(c, &k->plan, k->most);
    take(c, &k->plan, &k->chances, exploring ? REASON_EXPLORE : REASON_PAYS, d);
    d->catch_up_rows = k->rows;
    return d->reason;
}

/* What was drafted ahead costs no more: verify it, unless plain decoding is better even so. */
static enum decision_reason use_ahead(const controller *c, const controller_context *x,
                                      uint32_t room, controller_decision *d)
{
    candidate k = consider(c, DRAFTER_MODEL, x, room);
    uint32_t n_draft = x->n_ahead < room ? x->n_ahead : room;
    plan p = {.drafter = DRAFTER_MODEL, .n_draft = n_draft, .schedule = k.plan.schedule};

    if (!affordable(c, 0))
        return REASON_BUDGET;
    if (!k.plan.n_draft)
        p.schedule = only_schedule(c);
    p.tokens = 1;
    double survival = 1;
    for (uint32_t i = 0; i < n_draft; i++) {
        survival *= k.chances.at[i];
        p.tokens += survival;
    }
    p.ms = times_target_ms(c, n_draft + 1, false);
    if (plan_rate(&p) * times_plain_ms(c) < GAIN_TO_GO_ON)
        return REASON_NO_GAIN;
    take(c, &p, &k.chances, REASON_READY, d);
    if (k.plan.n_draft)
        d->n_next = k.plan.n_draft;
    return REASON_READY;
}

void controller_decide(controller *c, const controller_context *x, controller_decision *d)
{
    uint32_t room = x->max_draft < c->params.max_draft ? x->max_draft : c->params.max_draft;
    enum decision_reason why;

    *d = (controller_decision){.expected_speedup = 1, .ngram_match = x->ngram_match};
    if (x->new_character)
        for (int i = 0; i < N_DRAFTERS; i++) {
            c->drafters[i].interval = FIRST_INTERVAL;
            c->drafters[i].waited = MOST_INTERVAL;
        }
    if (!room)
        why = REASON_NO_ROOM;
    else if (x->n_ahead && c->params.drafters[DRAFTER_MODEL])
        why = use_ahead(c, x, room, d);
    else
        why = choose(c, x, room, d);
    if (why >= REASON_PLAIN_TIME)
        stay_plain(d, why);
}

/* ---------------------------------------------------------------------------------- outcome */

static void learn_times(controller *c, const controller_decision *d, const controller_outcome *o)
{
    double verify = o->verify_ms > 0 ? o->verify_ms
                    : !o->drafted    ? o->total_ms - o->catch_up_ms
                                     : 0;

    if (d->catch_up_rows && o->catch_up_ms > 0)
        times_measure(&c->catch_up, o->catch_up_ms / d->catch_up_rows);
    if (o->drafted && o->draft_ms > 0)
        times_measure(&c->draft, o->draft_ms / o->drafted);
    if (d->schedule != SCHEDULE_PIPELINED || o->n_steps_ahead <= 0) {
        controller_record_pass(c, o->drafted + 1, verify);
        return;
    }
    /* Both ran together: what is missing from the sum of their times is the overlap. */
    double pass = times_target_ms(c, o->drafted + 1, false), ahead = o->n_steps_ahead * c->draft.ms;
    double shorter = pass < ahead ? pass : ahead;
    if (c->target[o->drafted].n <= 0)
        controller_record_pass(c, o->drafted + 1, verify);
    else if (shorter > 0 && verify > 0)
        c->overlap += TIMES_LEAST_GAIN *
                      (times_clamp((pass + ahead - verify) / shorter, 0, 1) - c->overlap);
}

static bool learn_acceptance(controller *c, const controller_decision *d,
                             const controller_outcome *o, uint32_t ngram_match)
{
    calibration *k = &c->drafters[d->drafter].calibration;
    uint32_t n_checked = o->accepted + (o->accepted < o->drafted);
    bool changed = false;

    for (uint32_t i = 0; i < n_checked; i++) {
        uint32_t band = d->drafter == DRAFTER_NGRAM ? calibration_match_band(ngram_match)
                        : o->probabilities          ? calibration_band(o->probabilities[i])
                                                    : CALIBRATION_BANDS;
        changed |= calibration_add(k, i, band, i < o->accepted);
    }
    return changed;
}

/* On or off after a block: a probe that found nothing makes the next one wait longer. */
static void settle(controller *c, const controller_decision *d, const controller_outcome *o,
                   bool changed)
{
    drafter_state *s = &c->drafters[d->drafter];
    controller_context x = {.n_ngram = CONTROLLER_MAX_DRAFT, .ngram_match = d->ngram_match};
    candidate k = consider(c, d->drafter, &x, c->params.max_draft);
    bool pays = k.plan.n_draft && plan_rate(&k.plan) * times_plain_ms(c) > GAIN_TO_START;

    s->waited = 0;
    s->probe_draft = 0;
    if (pays || (s->on && k.plan.n_draft)) {
        s->on = true;
        s->interval = FIRST_INTERVAL;
    } else if (s->on || changed) {
        s->on = false;
        s->interval = FIRST_INTERVAL;
    } else if (o->drafted && o->accepted == o->drafted) {
        /* All of it: look again at once, further. */
        s->interval = 0;
        s->probe_draft = 2 * o->drafted < CONTROLLER_MAX_DRAFT ? 2 * o->drafted
                                                               : CONTROLLER_MAX_DRAFT;
    } else {
        uint32_t longest = longest_interval(c, d->drafter);
        uint32_t growth = s->calibration.hits > 0 ? GROWTH : GROWTH_WITHOUT_HIT;
        s->interval = s->interval < FIRST_INTERVAL ? FIRST_INTERVAL : growth * s->interval;
        s->interval = s->interval < longest ? s->interval : longest;
    }
}

void controller_record(controller *c, const controller_decision *d, const controller_outcome *o)
{
    uint32_t n_tokens = o->accepted + 1;

    c->n_blocks++;
    c->n_tokens += n_tokens;
    c->n_reasons[d->reason]++;
    c->since_plain++;
    c->since_explored++;
    for (int i = 0; i < N_DRAFTERS; i++)
        c->drafters[i].waited += c->drafters[i].waited < UINT32_MAX;
    double plain = times_plain_ms(c);
    learn_times(c, d, o);
    /* The loss so far was reckoned with a plain time that wasn't known well yet. */
    if (plain > 0 && c->target[0].n <= WELL_KNOWN)
        c->loss_ms -= (times_plain_ms(c) - plain) * (double)c->n_drafter_tokens;
    c->run_ms += o->total_ms;
    if (d->drafter == DRAFTER_NONE) {
        c->since_plain = 0;
        return;
    }
    c->loss_ms += o->total_ms - n_tokens * times_plain_ms(c);
    c->n_drafter_tokens += n_tokens;
    if (o->total_ms > c->largest_block_ms)
        c->largest_block_ms = o->total_ms;
    c->drafters[d->drafter].n_blocks++;
    if (d->reason == REASON_PROBE)
        c->drafters[d->drafter].n_probes++;
    if (d->reason == REASON_EXPLORE) {
        c->explored[d->n_draft]++;
        c->since_explored = 0;
    }
    bool changed = learn_acceptance(c, d, o, d->ngram_match);
    settle(c, d, o, changed);
}

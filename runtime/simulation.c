/* The simulator (simulation.h): synthetic traces, and a session's block loop with times from a
 * table in place of devices. */
#include "simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ngram.h"

/* ---------------------------------------------------------------------------------- random */

static uint64_t next_word(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state)
{
    return ((double)(next_word(state) >> 11) + 0.5) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double r = sqrt(-2 * log(uniform(state)));
    return r * cos(6.283185307179586 * uniform(state));
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables". */
static double gamma_variable(uint64_t *state, double shape)
{
    double boost = 1;

    if (shape < 1) {
        boost = pow(uniform(state), 1 / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(state), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(uniform(state)) < 0.5 * x * x + d - d * v + d * log(v))
            return boost * d * v;
    }
}

/* ---------------------------------------------------------------------------------- traces */

/* Of the joint distribution of a Beta-distributed chance and its fate: the chance, given the
 * fate. */
static float chance_given(uint64_t *random, double alpha, double information, bool hit)
{
    if (information <= 0 || alpha <= 0 || alpha >= 1)
        return (float)alpha;
    if (information >= 1)
        return hit;
    double strength = (1 - information) / information;
    double a = gamma_variable(random, alpha * strength + hit);
    double b = gamma_variable(random, (1 - alpha) * strength + !hit);
    return a + b > 0 ? (float)(a / (a + b)) : (float)hit;
}

#define N_VOCABULARY 1000
#define REPEATED_PIECE 24

bool trace_generate(const trace_process *p, trace *out)
{
    uint64_t random = p->seed * 0x2545f4914f6cdd1du + 1, text = random ^ 0x5851f42d4c957f2du;
    bool hit = uniform(&random) < p->alpha;
    size_t copied = 0, from = 0;

    *out = (trace){.n = p->n, .n_prompt = p->n_prompt};
    out->positions = calloc(p->n ? p->n : 1, sizeof *out->positions);
    if (!out->positions)
        return false;
    for (size_t i = 0; i < p->n; i++) {
        trace_position *t = &out->positions[i];
        double alpha = p->second_alpha >= 0 && i >= p->n / 2 ? p->second_alpha : p->alpha;

        if (p->correlation <= 0 || uniform(&random) >= p->correlation)
            hit = uniform(&random) < alpha;
        t->hit = hit;
        t->probability = chance_given(&random, alpha, p->information, hit);
        if (!copied && i > 2 * REPEATED_PIECE &&
            uniform(&text) * REPEATED_PIECE * (1 - p->repetition) < p->repetition) {
            copied = REPEATED_PIECE;
            from = next_word(&text) % (i - REPEATED_PIECE);
        }
        if (copied) {
            copied--;
            t->token = out->positions[from++].token;
        } else {
            t->token = (int32_t)(next_word(&text) % N_VOCABULARY);
        }
    }
    return true;
}

void trace_free(trace *t)
{
    free(t->prompt);
    free(t->positions);
    *t = (trace){0};
}

/* ---------------------------------------------------------------------------------- blocks */

typedef struct simulation {
    const trace *trace;
    const simulation_costs *costs;
    simulation_result *result;
    ngram *ngram; /* NULL: not used */
    uint64_t random;
    size_t position;  /* of the next token */
    uint32_t n_ahead; /* tokens drafted ahead for it */
    size_t draft_lag;
} simulation;

static double noisy(simulation *s, double ms)
{
    if (s->costs->noise <= 0 || ms <= 0)
        return ms;
    double factor = 1 + s->costs->noise * normal(&s->random);
    return ms * (factor > 0.2 ? factor : 0.2);
}

static bool hit_at(const simulation *s, size_t position)
{
    return position < s->trace->n && s->trace->positions[position].hit;
}

/* Length of the chain: as the device stops it. */
static uint32_t chain_length(const simulation *s, const controller_decision *d,
                             float *probabilities)
{
    double survival = 1;

    for (uint32_t i = 0; i < d->n_draft; i++) {
        float p = s->trace->positions[s->position + i].probability;
        probabilities[i] = p;
        survival *= (double)d->band_acceptance[calibration_band(p)];
        if (i < CONTROLLER_MAX_DRAFT && survival < (double)d->stop[i])
            return i + 1;
    }
    return d->n_draft;
}

/* The target's pass, and beside it the draft going on: its guess of the bonus token and K more. */
static void verify_pipelined(simulation *s, const controller_decision *d, controller_outcome *o)
{
    const simulation_costs *costs = s->costs;
    double pass = noisy(s, costs->target_ms[o->drafted]);
    double step = noisy(s, costs->draft_ms), ahead = (d->n_next + 1) * step;
    double shorter = pass < ahead ? pass : ahead;
    size_t bonus = s->position + o->drafted;
    bool whole = o->accepted == o->drafted && hit_at(s, bonus) &&
                 bonus + 1 + d->n_next < s->trace->n;

    if (whole) {
        o->verify_ms = pass + ahead - costs->overlap * shorter;
        o->n_steps_ahead = d->n_next + 1;
        s->n_ahead = d->n_next;
    } else { /* what was drafted so far is dropped */
        o->verify_ms = pass + (1 - costs->overlap) * shorter;
        o->n_steps_ahead = step > 0 ? shorter / step : 0;
    }
}

static void run_model_block(simulation *s, const controller_decision *d, controller_outcome *o,
                            float *probabilities)
{
    const simulation_costs *costs = s->costs;
    bool ready = s->n_ahead > 0;

    if (ready) {
        o->drafted = s->n_ahead < d->n_draft ? s->n_ahead : d->n_draft;
        for (uint32_t i = 0; i < o->drafted; i++)
            probabilities[i] = s->trace->positions[s->position + i].probability;
    } else {
        o->drafted = chain_length(s, d, probabilities);
        o->catch_up_ms = noisy(s, d->catch_up_rows * costs->prefill_ratio * costs->draft_ms);
        o->draft_ms = noisy(s, o->drafted * costs->draft_ms);
    }
    o->probabilities = probabilities;
    s->n_ahead = 0;
    while (o->accepted < o->drafted && hit_at(s, s->position + o->accepted))
        o->accepted++;
    if (d->schedule == SCHEDULE_PIPELINED)
        verify_pipelined(s, d, o);
    else
        o->verify_ms = noisy(s, costs->target_ms[o->drafted]);
    o->total_ms = o->catch_up_ms + o->draft_ms + o->verify_ms + costs->transfer_ms;
    s->draft_lag = 0;
}

static void run_block(simulation *s, const controller_decision *d, controller_outcome *o,
                      const int32_t *proposed, float *probabilities)
{
    *o = (controller_outcome){0};
    if (d->drafter == DRAFTER_MODEL) {
        run_model_block(s, d, o, probabilities);
        return;
    }
    s->n_ahead = 0;
    if (d->drafter == DRAFTER_NGRAM) {
        o->drafted = d->n_draft;
        while (o->accepted < o->drafted &&
               proposed[o->accepted] == s->trace->positions[s->position + o->accepted].token)
            o->accepted++;
    }
    o->verify_ms = noisy(s, s->costs->target_ms[o->drafted]);
    o->total_ms = o->verify_ms;
    s->draft_lag += o->accepted + 1;
}

static void count(simulation *s, const controller_decision *d, const controller_outcome *o)
{
    simulation_result *r = s->result;

    r->blocks++;
    r->total_ms += o->total_ms;
    r->drafted += o->drafted;
    r->accepted += o->accepted;
    r->verified += o->accepted + (o->accepted < o->drafted);
    r->plain_blocks += d->drafter == DRAFTER_NONE;
    r->drafter_blocks[d->drafter]++;
    r->draft_histogram[d->n_draft]++;
    if (d->drafter != DRAFTER_NONE) {
        r->schedule_blocks[d->schedule]++;
        if (o->total_ms > r->largest_block_ms)
            r->largest_block_ms = o->total_ms;
    }
}

static void decide_fixed(const simulation *s, const simulation_policy *p,
                         const controller_context *x, controller_decision *d)
{
    *d = (controller_decision){.drafter = p->drafter,
                               .schedule = p->schedule,
                               .n_draft = p->n_draft,
                               .reason = REASON_PAYS};
    if (d->n_draft > x->max_draft)
        d->n_draft = x->max_draft;
    if (d->drafter == DRAFTER_NGRAM && d->n_draft > x->n_ngram)
        d->n_draft = x->n_ngram;
    if (!d->n_draft)
        d->drafter = DRAFTER_NONE;
    d->n_next = d->n_draft;
    if (d->drafter == DRAFTER_MODEL)
        d->catch_up_rows = (uint32_t)s->draft_lag;
}

/* The n-gram drafter sees a token as soon as it is there. */
static bool feed(simulation *s, uint32_t n_tokens)
{
    for (uint32_t i = 0; s->ngram && i < n_tokens && s->position + i < s->trace->n; i++)
        if (!ngram_append(s->ngram, s->trace->positions[s->position + i].token))
            return false;
    s->position += n_tokens;
    return true;
}

static bool begin(simulation *s, const simulation_policy *p, ngram *g)
{
    const trace *t = s->trace;
    double prefill = t->n_prompt * s->costs->prefill_ratio * s->costs->target_ms[0];

    s->random = s->costs->seed * 0x9e3779b97f4a7c15u + 77;
    s->draft_lag = t->n_prompt;
    s->result->plain_ms = prefill + (double)t->n * s->costs->target_ms[0];
    s->result->total_ms = prefill;
    if (p->automatic) {
        controller_init(&s->result->controller, &p->params);
        controller_record_prefill(&s->result->controller, t->n_prompt, prefill);
    }
    if (p->automatic ? !p->params.drafters[DRAFTER_NGRAM] : p->drafter != DRAFTER_NGRAM)
        return true;
    if (t->n + t->n_prompt > UINT32_MAX || !ngram_init(g, (uint32_t)t->n + t->n_prompt))
        return false;
    s->ngram = g;
    for (uint32_t i = 0; t->prompt && i < t->n_prompt; i++)
        ngram_append(g, t->prompt[i]);
    return true;
}

bool simulation_run(const trace *t, const simulation_costs *costs, const simulation_policy *p,
                    simulation_result *out)
{
    simulation s = {.trace = t, .costs = costs, .result = out};
    float probabilities[CONTROLLER_MAX_DRAFT];
    int32_t proposed[NGRAM_MAX_DRAFT];
    ngram g = {0};

    memset(out, 0, sizeof *out);
    bool ok = begin(&s, p, &g);
    while (ok && s.position < t->n) {
        size_t left = t->n - s.position;
        controller_context x = {.n_ahead = s.n_ahead};
        controller_decision d;
        controller_outcome o;

        x.max_draft = left - 1 < CONTROLLER_MAX_DRAFT ? (uint32_t)(left - 1) : CONTROLLER_MAX_DRAFT;
        x.draft_lag = s.draft_lag < UINT32_MAX ? (uint32_t)s.draft_lag : UINT32_MAX;
        if (s.ngram)
            x.n_ngram = ngram_draft(s.ngram, NGRAM_MAX_DRAFT, proposed, &x.ngram_match);
        if (p->automatic)
            controller_decide(&out->controller, &x, &d);
        else
            decide_fixed(&s, p, &x, &d);
        run_block(&s, &d, &o, proposed, probabilities);
        count(&s, &d, &o);
        if (p->automatic)
            controller_record(&out->controller, &d, &o);
        ok = feed(&s, o.accepted + 1);
    }
    ngram_free(&g);
    return ok;
}

/* ---------------------------------------------------------------------------------- formulas */

double simulation_expected_tokens(double alpha, uint32_t n_draft)
{
    double tokens = 1, survival = 1;
    for (uint32_t i = 0; i < n_draft; i++)
        tokens += survival *= alpha;
    return tokens;
}

double simulation_block_ms(const simulation_costs *costs, enum schedule schedule, double alpha,
                           uint32_t n_draft)
{
    double verify = costs->target_ms[n_draft], chain = n_draft * costs->draft_ms;
    double ahead = chain + costs->draft_ms, whole = pow(alpha, n_draft + 1);

    if (schedule == SCHEDULE_SERIAL || !n_draft)
        return verify + chain;
    return whole * (verify > ahead ? verify : ahead) + (1 - whole) * (verify + chain);
}

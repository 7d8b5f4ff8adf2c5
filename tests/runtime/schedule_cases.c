/* What the tests of schedules share: see schedule_cases.h. */
#include "schedule_cases.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --------------------------------------------------------------------------- what is set up */

const struct kind kinds[] = {
    {MODEL_STORIES, MODEL_STORIES, SHARED},       {MODEL_STORIES, MODEL_STORIES, TWO_QUEUES},
    {MODEL_STORIES, MODEL_STORIES, TWO_FAMILIES}, {MODEL_STORIES, MODEL_STORIES, SEPARATE},
    {MODEL_TARGET, MODEL_DRAFT, SEPARATE},        {MODEL_TARGET, MODEL_RANDOM_DRAFT, SEPARATE},
    {MODEL_TARGET, MODEL_DRAFT, OTHER_DEVICE},    {MODEL_STORIES, MODEL_STORIES, SWAPPED_DEVICES},
};

otr_context *context;
otr_model *target, *draft;
otr_session *session;

static void pretend_two_queues(gpu *g, bool has_two_families)
{
    if (g->n_queues == 2)
        return;
    g->queues[1].queue = g->queues[0].queue;
    g->queues[1].family = g->queues[0].family;
    g->n_queues = 2;
    g->has_two_families = has_two_families;
}

void open_kind(const struct kind *k, uint32_t n_ctx)
{
    bool swapped = k->place == SWAPPED_DEVICES;

    setenv("MOCK_VULKAN_QUEUES",
           k->place == TWO_QUEUES     ? "2"
           : k->place == TWO_FAMILIES ? "1+1"
                                      : "1",
           1);
    context = open_context();
    target = load_model_on(context, k->target, swapped ? "SwiftShader" : NULL, false);
    draft = load_model_on(context, k->draft, k->place == OTHER_DEVICE ? "SwiftShader" : NULL,
                          k->place == SEPARATE);
    if (k->place == TWO_QUEUES || k->place == TWO_FAMILIES)
        pretend_two_queues(target->gpu, k->place == TWO_FAMILIES);
    session = open_session(target, draft, n_ctx);
}

void close_kind(void)
{
    otr_session_destroy(&session);
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    close_context(&context);
}

/* ------------------------------------------------------------------------------- same text */

const struct mode modes[N_MODES] = {
    {"serial", OTR_DRAFTER_MODEL, OTR_SCHEDULE_SERIAL, false, false},
    {"pipelined", OTR_DRAFTER_MODEL, OTR_SCHEDULE_PIPELINED, false, false},
    {"n-gram", OTR_DRAFTER_NGRAM, OTR_SCHEDULE_AUTO, false, false},
    {"both", OTR_DRAFTER_MODEL | OTR_DRAFTER_NGRAM, OTR_SCHEDULE_PIPELINED, false, false},
    {"auto", OTR_DRAFTER_MODEL | OTR_DRAFTER_NGRAM, OTR_SCHEDULE_AUTO, true, false},
    {"auto pipelined", OTR_DRAFTER_MODEL, OTR_SCHEDULE_PIPELINED, true, false},
    {"forced", OTR_DRAFTER_MODEL | OTR_DRAFTER_NGRAM, OTR_SCHEDULE_AUTO, true, true},
};

void *cancel_after(void *delay)
{
    nanosleep(delay, NULL);
    otr_session_cancel(session);
    return NULL;
}

static double random_share(uint64_t *random)
{
    return (next_random(random) % 1000 + 1) / 1000.0;
}

bool change_mind(const char *text, size_t n_bytes, void *user)
{
    forcing *f = user;
    controller *c = &session->controller;
    double ms = 1;

    (void)text, (void)n_bytes;
    f->n_late_starts += session->draft->origin > 0;
    for (int i = 0; i < CONTROLLER_MAX_ROWS; i++) {
        c->target[i] = (measured_time){.ms = ms, .n = 8};
        ms += 0.3 * random_share(&f->random);
    }
    c->draft = (measured_time){.ms = 0.3 * random_share(&f->random), .n = 8};
    c->overlap = random_share(&f->random);
    c->run_ms = 0;
    c->loss_ms = -6 * random_share(&f->random);
    /* All of the text, or only its end, or nothing is affordable. */
    c->catch_up.ms = controller_budget_ms(c) / (30 + next_random(&f->random) % 300);
    c->catch_up.n = 8;
    c->params.schedules[SCHEDULE_SERIAL] = next_random(&f->random) % 2;
    c->params.schedules[SCHEDULE_PIPELINED] = !c->params.schedules[SCHEDULE_SERIAL] ||
                                              next_random(&f->random) % 2;
    for (int i = 0; i < N_DRAFTERS; i++) {
        calibration *k = &c->drafters[i].calibration;
        memset(k, 0, sizeof *k);
        k->tries = 20;
        k->hits = 20 * random_share(&f->random);
        c->drafters[i].n_blocks = 1;
        c->drafters[i].on = true;
        c->params.drafters[i] = next_random(&f->random) % 4 != 0;
    }
    return true;
}

void random_case(uint64_t *random, int number, otr_generate_params *p, int32_t *prompt,
                 size_t *n_prompt, uint32_t n_vocab)
{
    bool repeats = next_random(random) % 2;

    *n_prompt = number % 4 ? 1 + next_random(random) % 30 : MAX_PROMPT - next_random(random) % 20;
    for (size_t i = 0; i < *n_prompt; i++)
        prompt[i] = repeats && i >= 5 ? prompt[i - 5] : (int32_t)(next_random(random) % n_vocab);
    *p = otr_generate_params_default();
    p->sampling.seed = next_random(random);
    p->sampling.temperature = (const float[]){0, 0.6f, 1.1f}[next_random(random) % 3];
    p->sampling.repeat_penalty = next_random(random) % 4 ? 1.0f : 1.3f;
    p->max_tokens = 1 + (int32_t)(next_random(random) % MAX_OUTPUT);
    p->ignore_stop_tokens = next_random(random) % 2;
}

void run_case(const struct mode *m, otr_generate_params p, uint64_t *random, const int32_t *prompt,
              size_t n_prompt, int32_t *ids, size_t *n, otr_stats *stats, forcing *f)
{
    size_t n_tokens;

    p.drafters = m->drafters;
    p.schedule = m->schedule;
    p.draft_max = m->is_auto ? OTR_DRAFT_AUTO : 1 + next_random(random) % OTR_MAX_DRAFT;
    ck_assert_int_eq(otr_session_rewind(session, 0), OTR_OK);
    ck_assert_int_eq(otr_session_append(session, prompt, n_prompt, NULL, NULL), OTR_OK);
    *stats = (otr_stats){.size = sizeof *stats};
    ck_assert_int_eq(otr_generate(session, &p, m->is_forced ? change_mind : NULL, f, stats),
                     OTR_OK);
    const int32_t *tokens = otr_session_tokens(session, &n_tokens);
    *n = n_tokens - n_prompt;
    memcpy(ids, tokens + n_prompt, *n * sizeof *ids);
    ck_assert_uint_eq(stats->emitted, 1 + stats->accepted + stats->blocks - stats->discarded);
    ck_assert_uint_le(stats->ready_blocks, stats->blocks);
    if (m->drafters == OTR_DRAFTER_NGRAM)
        ck_assert_uint_eq(stats->ngram_blocks + stats->plain_blocks, stats->blocks);
    if (m->schedule == OTR_SCHEDULE_SERIAL)
        ck_assert_uint_eq(stats->pipelined_blocks + stats->dropped, 0);
}

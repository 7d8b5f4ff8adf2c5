/* Sessions: creation, the token list, prefill, rewind and evaluation. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "overlap.h"
#include "params.h"
#include "verify.h"

#define DEFAULT_MAX_CTX 4096
#define MAX_PREFILL_ROWS 1024
/* A layer of a prefill pass that takes longer than this gets fewer rows: no submission is meant to
 * run longer than 100 ms, and a layer is the least that can be submitted. */
#define MAX_LAYER_MS 80.0

otr_session_params otr_session_params_default(void)
{
    return (otr_session_params){.size = sizeof(otr_session_params)};
}

otr_evaluate_params otr_evaluate_params_default(void)
{
    return (otr_evaluate_params){.size = sizeof(otr_evaluate_params)};
}

void otr_session_destroy(otr_session **handle)
{
    otr_session *s = handle ? *handle : NULL;
    if (!s)
        return;
    chain_destroy(s);
    verify_destroy(s);
    lane_destroy(&s->target);
    gpu_buffer_destroy(s->gpu, &s->exchange.record);
    gpu_buffer_destroy(s->gpu, &s->exchange.block);
    submission_free(&s->submission);
    ngram_free(&s->ngram);
    free(s->tokens);
    free(s);
    *handle = NULL;
}

uint32_t otr_session_n_ctx(const otr_session *session)
{
    return session ? session->n_ctx : 0;
}

const int32_t *otr_session_tokens(const otr_session *session, size_t *n_tokens)
{
    if (n_tokens)
        *n_tokens = session ? session->n_tokens : 0;
    return session ? session->tokens : NULL;
}

void otr_session_cancel(otr_session *session)
{
    if (session)
        atomic_store(&session->cancelled, true);
}

void session_cut_draft(otr_session *s, uint32_t length)
{
    lane *l = s->draft;

    if (l->length > length)
        l->length = length;
    if (l->length <= l->origin) /* nothing is left: the next text may begin at its start */
        l->length = l->origin = 0;
}

otr_result otr_session_rewind(otr_session *s, size_t n_tokens)
{
    if (!s)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (n_tokens > s->n_tokens)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "can't rewind to %zu tokens, the session has %u", n_tokens,
                            s->n_tokens);
    if (n_tokens < s->n_tokens)
        s->last_row = -1;
    s->n_tokens = (uint32_t)n_tokens;
    if (s->target->length > s->n_tokens)
        s->target->length = s->n_tokens;
    if (s->draft)
        session_cut_draft(s, s->n_tokens);
    if (s->ngram.tokens)
        ngram_rewind(&s->ngram, s->n_tokens);
    return OTR_OK;
}

/* Runs the rows [l->length, l->length + rows) of s->tokens through a lane. */
static otr_result run_rows(otr_session *s, lane *l, enum lane_path path, uint32_t rows,
                           uint32_t out_rows)
{
    uint32_t *request = lane_request(l);
    submission *sub = &s->submission;
    uint64_t start = clock_ns();
    bool known = l->layer_ms[path] > 0;

    request[Q_BASE] = l->length - l->origin;
    request[Q_ORIGIN] = l->origin;
    request[Q_ROWS] = rows;
    request[Q_OUT_FIRST] = 0;
    request[Q_OUT_ROWS] = out_rows;
    memcpy(request + Q_TOKENS, s->tokens + l->length, rows * sizeof *request);
    submission_clear(sub);
    bool ok = lane_add_begin(l, sub, BEGIN_REQUEST) && lane_add_layers(l, sub, path);
    if (ok && out_rows)
        ok = lane_add_output(l, sub, PATH_ROWS) && lane_add_copy_logits(l, sub);
    if (!ok)
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a submission");
    otr_result result = submission_run(sub, &l->place, "a prefill", NULL);
    if (result != OTR_OK)
        return result;
    double ms = (double)(clock_ns() - start) / 1e6;
    lane_pass_took(l, path, ms);
    /* The first pass may have compiled kernels: only later ones say how many rows a layer can bear.
     */
    if (path == PATH_PREFILL && known && l->layer_ms[path] > MAX_LAYER_MS &&
        rows == l->chunk_rows && rows > MAX_ROWS)
        l->chunk_rows = rows / 2;
    l->length += rows;
    return OTR_OK;
}

/* Logits of the pass's rows [first, first + n), n <= MAX_ROWS, after a prefill pass. */
static otr_result fetch_logits(otr_session *s, lane *l, uint32_t first, uint32_t n)
{
    uint32_t *request = lane_request(l);
    submission *sub = &s->submission;

    request[Q_OUT_FIRST] = first;
    request[Q_OUT_ROWS] = n;
    submission_clear(sub);
    if (!lane_add_begin(l, sub, BEGIN_OUTPUT) || !lane_add_output(l, sub, PATH_ROWS) ||
        !lane_add_copy_logits(l, sub))
        return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a submission");
    return submission_run(sub, &l->place, "an evaluation", NULL);
}

/* One row through every kernel of a lane. Some drivers compile at the first dispatch: here and not
 * before the first token. */
static otr_result warm_up(otr_session *s, lane *l)
{
    otr_result result = OTR_OK;

    s->tokens[0] = 0;
    for (int path = 0; path < N_PATHS && result == OTR_OK; path++) {
        l->length = 0;
        result = run_rows(s, l, (enum lane_path)path, 1, 0);
        l->layer_ms[path] = 0; /* says more about the compiler than about the kernels */
    }
    if (result == OTR_OK)
        result = fetch_logits(s, l, 0, 1);
    if (result == OTR_OK) {
        submission_clear(&s->submission);
        if (!lane_add_sample(l, &s->submission))
            return context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY,
                                "out of memory for a submission");
        result = submission_run(&s->submission, &l->place, "a warm-up", NULL);
    }
    l->length = 0;
    return result;
}

otr_result session_prefill(otr_session *s, lane *l, uint32_t end, otr_progress_callback on_progress,
                           void *user)
{
    uint32_t first = l->length;

    while (l->length < end) {
        uint32_t rows = end - l->length < l->chunk_rows ? end - l->length : l->chunk_rows;
        if (atomic_load(&s->cancelled))
            return context_fail(s->context, OTR_ERROR_CANCELLED, "prefill was cancelled");
        otr_result result = run_rows(s, l, PATH_PREFILL, rows, 0);
        if (result != OTR_OK)
            return result;
        if (l == s->target)
            s->last_row = (int32_t)rows - 1;
        if (on_progress && !on_progress(l->length - first, end - first, user))
            return context_fail(s->context, OTR_ERROR_CANCELLED, "prefill was cancelled");
    }
    return OTR_OK;
}

static otr_result check_ids(otr_session *s, const int32_t *ids, size_t n_ids)
{
    if (n_ids && !ids)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT, "ids is NULL for %zu tokens",
                            n_ids);
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= s->target_model->h.n_vocab)
            return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                                "token %zu is %d, the vocabulary has ids 0 to %u", i, ids[i],
                                s->target_model->h.n_vocab - 1);
    return OTR_OK;
}

otr_result otr_session_append(otr_session *s, const int32_t *ids, size_t n_ids,
                              otr_progress_callback on_progress, void *user)
{
    uint64_t start = clock_ns();
    uint32_t before;
    otr_result result;

    if (!s)
        return OTR_ERROR_INVALID_ARGUMENT;
    before = s->n_tokens;
    if (n_ids > s->n_ctx - s->n_tokens)
        return context_fail(
            s->context, OTR_ERROR_CONTEXT_FULL,
            "%zu tokens don't fit: %u of the context's %u positions are in use; use "
            "a larger context (-c) or a shorter text",
            n_ids, s->n_tokens, s->n_ctx);
    result = check_ids(s, ids, n_ids);
    if (result != OTR_OK || !n_ids)
        return result;
    atomic_store(&s->cancelled, false);
    memcpy(s->tokens + s->n_tokens, ids, n_ids * sizeof *ids);
    s->n_tokens += (uint32_t)n_ids;
    /* The draft catches up in otr_generate, if it is used there at all. */
    result = session_prefill(s, s->target, s->n_tokens, on_progress, user);
    if (result != OTR_OK)
        otr_session_rewind(s, before);
    double ms = (double)(clock_ns() - start) / 1e6;
    s->prefill_ms += ms;
    if (result == OTR_OK)
        controller_record_prefill(&s->controller, (uint32_t)n_ids, ms);
    return result;
}

/* ------------------------------------------------------------------------------ creation */

static otr_result check_pair(otr_model *target, otr_model *draft)
{
    gguf_error error = {0};
    if (!draft)
        return OTR_OK;
    if (draft->context != target->context)
        return context_fail(target->context, OTR_ERROR_INVALID_ARGUMENT,
                            "target and draft belong to different contexts");
    if (!vocab_compatible(target->vocab, draft->vocab, &error))
        return context_fail(target->context, OTR_ERROR_VOCABULARY, "%s", error.text);
    return OTR_OK;
}

static otr_result check_cache_type(otr_model *model, otr_cache_type type)
{
    if (type == OTR_CACHE_Q8_0 && model->h.head_size % 32)
        return context_fail(model->context, OTR_ERROR_UNSUPPORTED,
                            "%s: a Q8_0 cache has blocks of 32, which heads of %u can't be cut "
                            "into; use an F16 cache",
                            model->name, model->h.head_size);
    return OTR_OK;
}

static void init_controller(otr_session *s)
{
    controller_params params = controller_params_default();

    if (s->draft_model && s->target_model->weight_bytes)
        params.cost_prior = (double)s->draft_model->weight_bytes /
                            (double)s->target_model->weight_bytes;
    params.drafters[DRAFTER_MODEL] = s->draft_model != NULL;
    controller_init(&s->controller, &params);
}

otr_result otr_session_create(otr_model *target, otr_model *draft, const otr_session_params *params,
                              otr_session **out)
{
    if (!target && out)
        *out = NULL;
    if (!target || !out)
        return OTR_ERROR_INVALID_ARGUMENT;
    tuning t = tuning_find(target->gpu);
    return session_create(target, draft, params, &t, out);
}

bool session_lanes_are_apart(const otr_session *s)
{
    return s->draft && (!s->joined || s->draft->place.queue != s->target->place.queue);
}

/* So that the controller knows what pipelining is worth before it tries. */
static otr_result learn_overlap(otr_session *s)
{
    otr_overlap overlap = {.size = sizeof overlap};

    if (s->n_ctx < OVERLAP_ROOM + 1)
        return OTR_OK;
    otr_result result = overlap_learn(s, &overlap);
    if (result != OTR_OK)
        return result;
    s->controller.overlap = overlap.overlap;
    controller_record_pass(&s->controller, OVERLAP_ROWS, overlap.target_seconds * 1e3);
    controller_record_draft_step(&s->controller, overlap.draft_seconds * 1e3 / OVERLAP_STEPS);
    context_log(s->context, OTR_LOG_INFO,
                "target %.2f ms, draft %.2f ms, together %.2f ms: overlap %.2f",
                overlap.target_seconds * 1e3, overlap.draft_seconds * 1e3,
                overlap.together_seconds * 1e3, overlap.overlap);
    return OTR_OK;
}

/* On the target's device, its last queue or the target's, or on a device of its own. */
static otr_result create_draft(otr_session *s, lane_params *params, otr_draft_queue queue)
{
    gpu *g = s->draft_model->gpu;
    tuning own;

    params->queue = g == s->gpu && queue == OTR_DRAFT_QUEUE_OWN ? g->n_queues - 1 : 0;
    s->joined = g == s->gpu &&
                (params->queue == 0 || !g->has_two_families || g->info->has_timeline_semaphores);
    if (g != s->gpu) {
        own = tuning_find(g);
        params->tuning = &own;
    }
    return chain_create(s, params);
}

otr_result session_create(otr_model *target, otr_model *draft, const otr_session_params *params,
                          const tuning *t, otr_session **out)
{
    otr_session_params p = otr_session_params_default();
    otr_session *s = NULL;
    otr_result result;

    *out = NULL;
    if (!params_take(&p, sizeof p, params))
        return context_fail(target->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_create: the params' size is not set");
    if (p.n_ctx > OTR_MAX_CONTEXT || p.n_ctx == 1 || p.prefill_rows > MAX_PREFILL_ROWS)
        return context_fail(
            target->context, OTR_ERROR_INVALID_ARGUMENT,
            "otr_session_create: n_ctx %u (0 or 2 to %u), prefill_rows %u (at most %u)", p.n_ctx,
            OTR_MAX_CONTEXT, p.prefill_rows, MAX_PREFILL_ROWS);
    if (p.cache_type != OTR_CACHE_F16 && p.cache_type != OTR_CACHE_Q8_0)
        return context_fail(target->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_create: cache_type %d", (int)p.cache_type);
    if (p.draft_queue != OTR_DRAFT_QUEUE_OWN && p.draft_queue != OTR_DRAFT_QUEUE_SHARED)
        return context_fail(target->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_create: draft_queue %d", (int)p.draft_queue);
    result = check_pair(target, draft);
    if (result == OTR_OK)
        result = check_cache_type(target, p.cache_type);
    if (result == OTR_OK && draft)
        result = check_cache_type(draft, p.cache_type);
    if (result != OTR_OK)
        return result;

    s = calloc(1, sizeof *s);
    if (!s)
        return context_fail(target->context, OTR_ERROR_OUT_OF_MEMORY,
                            "out of memory for a session");
    s->context = target->context;
    s->gpu = target->gpu;
    s->target_model = target;
    s->draft_model = draft;
    s->last_row = -1;
    init_controller(s);
    s->n_ctx = p.n_ctx;
    if (!s->n_ctx) {
        s->n_ctx = target->h.n_ctx_train < DEFAULT_MAX_CTX ? target->h.n_ctx_train
                                                           : DEFAULT_MAX_CTX;
        s->n_ctx = s->n_ctx < 2 ? 2 : s->n_ctx;
    }
    uint32_t rows = p.prefill_rows ? p.prefill_rows : t->prefill_rows;
    rows = rows < s->n_ctx ? rows : s->n_ctx;
    s->tokens = malloc(s->n_ctx * sizeof *s->tokens);
    if (!s->tokens) {
        result = context_fail(s->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a session");
        goto fail;
    }
    lane_params shape = {
        .tuning = t, .n_ctx = s->n_ctx, .prefill_rows = rows, .cache_type = p.cache_type};
    result = gpu_buffer_create(s->gpu, X_WORDS * 4, MEMORY_DEVICE, "exchange", &s->exchange.block);
    if (result == OTR_OK)
        result = gpu_buffer_create(s->gpu, B_WORDS * 4, MEMORY_READBACK, "block record",
                                   &s->exchange.record);
    if (result == OTR_OK)
        result = lane_create(target, &shape, &s->exchange.block, &s->target);
    if (result == OTR_OK && draft)
        result = create_draft(s, &shape, p.draft_queue);
    if (result == OTR_OK)
        result = verify_create(s);
    if (result == OTR_OK)
        result = warm_up(s, s->target);
    if (result == OTR_OK && draft)
        result = warm_up(s, s->draft);
    if (result == OTR_OK && session_lanes_are_apart(s))
        result = learn_overlap(s);
    if (result != OTR_OK)
        goto fail;
    *out = s;
    return OTR_OK;

fail:
    otr_session_destroy(&s);
    return result;
}

/* ---------------------------------------------------------------------------- evaluation */

static otr_result give_rows(otr_session *s, const lane *l, size_t row, uint32_t n,
                            otr_logits_callback on_row, void *user)
{
    const float *logits = l->logits_host.mapped;
    for (uint32_t i = 0; i < n; i++)
        if (on_row &&
            !on_row(row + i, logits + (size_t)i * l->logits_stride, l->model->h.n_vocab, user))
            return context_fail(s->context, OTR_ERROR_CANCELLED, "evaluation was cancelled");
    return OTR_OK;
}

otr_result otr_session_evaluate(otr_session *s, const otr_evaluate_params *params,
                                const int32_t *ids, size_t n_ids, otr_logits_callback on_row,
                                void *user)
{
    otr_evaluate_params p = otr_evaluate_params_default();
    otr_result result;
    lane *l;

    if (!s)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!params_take(&p, sizeof p, params))
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_evaluate: the params' size is not set");
    if (p.rows > MAX_ROWS)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_session_evaluate: rows %u (at most %u)", p.rows, MAX_ROWS);
    l = p.use_draft ? s->draft : s->target;
    if (!l)
        return context_fail(s->context, OTR_ERROR_INVALID_ARGUMENT, "the session has no draft");
    if (n_ids > s->n_ctx)
        return context_fail(s->context, OTR_ERROR_CONTEXT_FULL,
                            "%zu tokens don't fit the context of %u positions", n_ids, s->n_ctx);
    result = check_ids(s, ids, n_ids);
    if (result != OTR_OK)
        return result;

    atomic_store(&s->cancelled, false);
    otr_session_rewind(s, 0);
    s->last_row = -1;
    if (n_ids)
        memcpy(s->tokens, ids, n_ids * sizeof *ids);
    s->n_tokens = (uint32_t)n_ids;
    while (l->length < n_ids && result == OTR_OK) {
        uint32_t first = l->length, left = (uint32_t)n_ids - first;
        uint32_t most = p.path == OTR_EVALUATE_PREFILL ? l->chunk_rows : p.rows ? p.rows : MAX_ROWS;
        uint32_t rows = left < most ? left : most;
        if (atomic_load(&s->cancelled)) {
            result = context_fail(s->context, OTR_ERROR_CANCELLED, "evaluation was cancelled");
        } else if (p.path == OTR_EVALUATE_PREFILL) {
            result = run_rows(s, l, PATH_PREFILL, rows, 0);
            for (uint32_t r = 0; r < rows && result == OTR_OK; r += MAX_ROWS) {
                uint32_t n = rows - r < MAX_ROWS ? rows - r : MAX_ROWS;
                result = fetch_logits(s, l, r, n);
                if (result == OTR_OK)
                    result = give_rows(s, l, first + r, n, on_row, user);
            }
        } else {
            result = run_rows(s, l, PATH_ROWS, rows, rows);
            if (result == OTR_OK)
                result = give_rows(s, l, first, rows, on_row, user);
        }
    }
    if (result != OTR_OK)
        otr_session_rewind(s, l->length < s->n_tokens ? l->length : s->n_tokens);
    return result;
}

/* Synchronisation of a whole block, and what a pass is made of. Validation sees hazards best inside one command buffer, so the
 * draft's chain, the target's pass and the acceptance are emitted into a single one here: there
 * must be no message; and with a barrier taken out there must be one. */
#include <check.h>
#include <stdio.h>

#include "../suite.h"
#include "models.h"
#include "record.h"
#include "verify.h"

#define N_DRAFT 2

static otr_context *context;
static otr_model *target, *draft;
static otr_session *session;

static void open_all(void)
{
    static const int32_t prompt[] = {5, 6, 7, 8, 9};
    otr_generate_params params = otr_generate_params_default();

    context = open_context();
    target = load_model(context, MODEL_STORIES);
    draft = load_model(context, MODEL_STORIES);
    session = open_session(target, draft, 64);
    ck_assert_int_eq(otr_session_append(session, prompt, 5, NULL, NULL), OTR_OK);
    params.max_tokens = 4; /* the draft lane has a prefilled cache afterwards */
    params.draft_max = 2;
    params.ignore_stop_tokens = true;
    ck_assert_int_eq(otr_generate(session, &params, NULL, NULL, NULL), OTR_OK);
}

static void close_all(void)
{
    otr_session_destroy(&session);
    otr_model_destroy(&draft);
    otr_model_destroy(&target);
    otr_context_destroy(&context);
}

static void emit_pass(const lane *l, VkCommandBuffer commands, uint32_t mode, enum lane_path path)
{
    emit_begin(l, &l->link, commands, mode);
    emit_group(l, commands, &l->embed, path);
    for (uint32_t i = 0; i < l->model->h.n_layers; i++)
        emit_group(l, commands, &l->layers[i], path);
    emit_group(l, commands, &l->output, path);
    emit_group(l, commands, &l->sample, PATH_ROWS);
}

#define NO_RULE N_RULES

/* Runs one block from a single command buffer; returns the number of new validation messages. */
static uint64_t run_block_by(uint32_t rule)
{
    uint64_t before = otr_validation_message_count(context);
    submission s = {0};
    VkCommandBuffer commands;

    ck_assert_int_eq(record_begin(session->gpu, session->pool, "whole block", &commands), OTR_OK);
    chain_write_root(session, session->n_tokens - 1);
    chain_set_stops(session, NULL, NULL);
    for (int i = 0; i < N_DRAFT; i++) {
        emit_pass(session->draft, commands, i ? BEGIN_DRAFT : BEGIN_CHAIN,
                  i ? PATH_ONE : PATH_ROWS);
        emit_propose(session->draft, &session->draft->link, commands);
    }
    emit_pass(session->target, commands, BEGIN_VERIFY, PATH_ROWS);
    if (rule != NO_RULE)
        verify_rule_emit(session, commands, rule);
    verify_emit_accept(session, commands, ACCEPT_BLOCK);
    ck_assert_int_eq(record_end(session->gpu, commands, "whole block"), OTR_OK);
    ck_assert(submission_add(&s, commands, 0));
    ck_assert_int_eq(submission_run(&s, &session->target->place, "whole block", NULL), OTR_OK);
    submission_free(&s);
    return otr_validation_message_count(context) - before;
}

static uint64_t run_block(void)
{
    return run_block_by(NO_RULE);
}

START_TEST(a_block_has_no_hazard)
{
    open_all();
    ck_assert_uint_eq(run_block(), 0);
    ck_assert_uint_eq(((const uint32_t *)session->exchange.record.mapped)[B_DRAFTED], N_DRAFT);
    ck_assert_uint_eq(otr_validation_message_count(context), 0);
    close_all();
}
END_TEST

START_TEST(a_rule_of_verification_has_no_hazard)
{
    otr_generate_params params = otr_generate_params_default();

    open_all();
    params.verify = OTR_VERIFY_BLOCK;
    params.max_tokens = 3;
    params.draft_max = 2;
    ck_assert_int_eq(otr_generate(session, &params, NULL, NULL, NULL), OTR_OK);
    for (uint32_t rule = 0; rule < N_RULES; rule++)
        ck_assert_uint_eq(run_block_by(rule), 0);
    ck_assert_uint_eq(otr_validation_message_count(context), 0);
    close_all();
}
END_TEST

/* Takes out each barrier between the operations of the target's first layer, the output and the
 * sampling, one at a time. The layer says nothing of write-after-write between descriptors, and
 * takes a buffer that a kernel reads and writes as written: so rope, which works in place on qkv,
 * can lose its barrier unseen. Every other one must be missed. */
START_TEST(a_missing_barrier_is_seen)
{
    enum { N_IN_PLACE = 1 };
    uint32_t n_tried = 0, n_seen = 0;

    open_all();
    lane *l = session->target;
    for (uint32_t i = l->layers[0].first; i < l->n_operations; i++) {
        if (i == l->layers[0].end)
            i = l->output.first;
        if (!l->operations[i].waits)
            continue;
        l->operations[i].waits = false;
        n_seen += run_block() > 0;
        l->operations[i].waits = true;
        n_tried++;
    }
    printf("%u of %u missing barriers seen\n", n_seen, n_tried);
    ck_assert_uint_ge(n_tried, 10);
    ck_assert_uint_eq(n_seen, n_tried - N_IN_PLACE);
    close_all();
}
END_TEST

/* Every dispatch costs a device its start and end: what a layer may have at one row. */
START_TEST(a_layer_has_few_dispatches)
{
    enum { MOST = 8 };

    open_all();
    const lane *l = session->target;
    for (uint32_t i = 0; i < l->model->h.n_layers; i++) {
        uint32_t n = 0;
        for (uint32_t op = l->layers[i].first; op < l->layers[i].end; op++)
            n += l->operations[op].pipeline[PATH_ONE] != VK_NULL_HANDLE;
        ck_assert_uint_le(n, MOST);
    }
    ck_assert_uint_le(l->dispatches_one_row, MOST * l->model->h.n_layers + 4);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synchronisation");
    TCase *tests = tcase_create("synchronisation");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, a_block_has_no_hazard);
    tcase_add_test(tests, a_rule_of_verification_has_no_hazard);
    tcase_add_test(tests, a_missing_barrier_is_seen);
    tcase_add_test(tests, a_layer_has_few_dispatches);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

/* Pairs of models on one device or two, modes of speculation, and random cases: what the tests of
 * schedules share. One pair is open at a time. */
#ifndef OUTRIDER_TEST_SCHEDULE_CASES_H
#define OUTRIDER_TEST_SCHEDULE_CASES_H

#include "models.h"
#include "session.h"

#define MAX_PROMPT 220
#define MAX_OUTPUT 40

/* TWO_QUEUES, TWO_FAMILIES: the mock device has them. Another is told that it has, and both lanes'
 * queues are its one; everything else is as with two. */
enum place { SHARED, TWO_QUEUES, TWO_FAMILIES, SEPARATE, OTHER_DEVICE, SWAPPED_DEVICES };

struct kind {
    const char *target, *draft;
    enum place place;
};
#define N_KINDS 6            /* on one device */
#define N_STORIES_KINDS 4    /* of these the first, with a small model */
#define N_TWO_DEVICE_KINDS 2 /* behind them */
extern const struct kind kinds[];

extern otr_context *context;
extern otr_model *target, *draft;
extern otr_session *session;

void open_kind(const struct kind *k, uint32_t n_ctx);
void close_kind(void);

struct mode {
    const char *name;
    uint32_t drafters;
    otr_schedule schedule;
    bool is_auto, is_forced;
};
#define N_MODES 7
extern const struct mode modes[N_MODES];

typedef struct forcing {
    uint64_t random;
    uint32_t n_late_starts; /* of a draft in the middle of the text */
} forcing;
/* An otr_text_callback; user is a forcing. New beliefs for the controller, so that the next block may
 * be anything. */
bool change_mind(const char *text, size_t n_bytes, void *user);

/* A thread: cancels the session's work after a struct timespec. */
void *cancel_after(void *delay);

void random_case(uint64_t *random, int number, otr_generate_params *p, int32_t *prompt,
                 size_t *n_prompt, uint32_t n_vocab);
/* Generates in a mode and checks the counters; ids has room for MAX_OUTPUT. */
void run_case(const struct mode *m, otr_generate_params p, uint64_t *random, const int32_t *prompt,
              size_t n_prompt, int32_t *ids, size_t *n, otr_stats *stats, forcing *f);

#endif

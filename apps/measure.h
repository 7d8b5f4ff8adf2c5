/* `outrider measure`: what is measured, kept and shown.
 *
 * measure.c is the command; measure_data.c reads the prompts, measure_loop.c goes through them,
 * measure_run.c runs one of them with every setting, measure_record.c keeps that as JSON and reads it
 * back, measure_resume.c goes on with it, measure_head.c says what was measured on what,
 * measure_group.c sums up and predicts, measure_summary.c draws the conclusions, measure_answer.c words
 * the answer, and measure_text.c and measure_html.c show what stands in that summary: the numbers of
 * all forms are the same ones. */
#ifndef OUTRIDER_APPS_MEASURE_H
#define OUTRIDER_APPS_MEASURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "measure_data.h"
#include "text.h"

/* The value of "schema" in the JSON; another meaning gets another name. */
#define MEASURE_SCHEMA "outrider-measure-1"

#define MEASURE_MAX_ROWS (OTR_MAX_DRAFT + 1)

/* How the text is made: the drafter and K. The first is plain decoding, the last auto. */
typedef struct measure_setting {
    uint32_t drafters;  /* OTR_DRAFTER_* flags; of auto all that are measured */
    uint32_t draft_max; /* K, 0, or OTR_DRAFT_AUTO */
} measure_setting;
#define MEASURE_MAX_SETTINGS (2 * OTR_MAX_DRAFT + 2)
/* "plain", "K=4", "ngram K=4", "auto" */
const char *measure_setting_name(const measure_setting *setting, char name[24]);

/* One generation. Its blocks' tokens are all but the first, which comes from the prefill. */
typedef struct measure_run {
    double seconds; /* of these tokens */
    double ttft_ms;
    double blocks_ms, off_ms; /* all blocks' times; of them those without a draft in auto */
    uint64_t emitted, blocks, plain_blocks, pipelined_blocks, drafted, verified, accepted,
        discarded;
    uint64_t verified_by_position[OTR_MAX_DRAFT], accepted_by_position[OTR_MAX_DRAFT];
    float *latency_ms; /* [n_tokens] */
    char *origins;     /* [n_tokens + 1], of the first token and these; measure_origin */
    int32_t *replaced; /* likewise: the drafted token that such a one replaced, or -1 */
    char **rejected;   /* texts of the replaced ones in order, and NULL; NULL: not kept */
    size_t n_tokens, capacity;
} measure_run;

/* Where a token of the output came from. */
enum measure_origin {
    ORIGIN_FIRST = 'f',    /* the prefill */
    ORIGIN_ACCEPTED = 'a', /* drafted, and the target agreed */
    ORIGIN_REJECTED = 'r', /* the target's own in place of a drafted one */
    ORIGIN_BONUS = 'b',    /* the target's own after a block that it agreed with */
    ORIGIN_PLAIN = 'p',    /* the target's own, nothing was drafted */
};

/* What was measured of one prompt; a record is whole or isn't kept. */
typedef struct measure_record {
    size_t prompt; /* in the data */
    size_t n_ids;  /* of the prompt */
    measure_run runs[MEASURE_MAX_SETTINGS];
    /* Single passes behind the prompt, that the prediction is made of. */
    double row_ms[MEASURE_MAX_ROWS];   /* [n-1]: target, n rows */
    double draft_ms, draft_prefill_ms; /* 0: there is no draft model */
    char **pieces;                     /* [emitted]: texts of the output's tokens; NULL: not kept */
} measure_record;

typedef struct measure {
    engine *e;
    otr_session *session;
    measure_data data;
    int32_t **ids; /* [data.n_prompts] */
    size_t *n_ids;
    measure_setting settings[MEASURE_MAX_SETTINGS];
    size_t n_settings;
    otr_sampling sampling;
    int64_t n_predict;
    uint32_t n_ctx;
    otr_cache_type cache_type;
    otr_schedule schedule;
    bool is_draft_apart; /* on a device, or a second opening of the target's, of its own */
    bool keeps_text, ignore_eos;
    measure_record *records; /* [data.n_prompts] */
    size_t n_records;
    size_t n_short; /* this time: prompts whose text ended at once: nothing to measure */
} measure;

/* All settings and passes of a prompt. OTR_ERROR_CANCELLED after a signal. *same is false when a
 * setting's text differs from plain decoding's, which a message told. *is_short: the text ended before
 * its second token. */
otr_result measure_prompt_run(measure *m, size_t prompt, measure_record *record, bool *same,
                              bool *is_short);
/* Of a prompt's output, at most. */
int64_t measure_wanted_tokens(const measure *m, size_t prompt);
/* A few tokens of each setting, so that nothing is compiled or cold in the first measured run. */
otr_result measure_warm_up(measure *m);
void measure_record_free(measure_record *record);

/* Takes the records of an earlier run of the same measurement. An exit code, with a message. */
int measure_resume(measure *m, const char *path, const json_t *head);
/* Measures prompts until the budget ends (0: all of them) or a signal comes; json: where the result is
 * kept meanwhile, or NULL. An exit code, with a message; what was measured is in the records. */
int measure_all(measure *m, const json_t *head, const char *json, double budget_s);
int measure_write_json(const measure *m, const json_t *head, const char *path);

/* A record as JSON and back. measure_record_read is false when the object isn't one of these settings. */
json_t *measure_record_json(const measure *m, const measure_record *record);
bool measure_record_read(const measure *m, const json_t *object, measure_record *record);

/* The part of the result that says what is measured on what. NULL when memory runs out or a model file
 * can't be read for its hash. */
json_t *measure_head(const measure *m);
/* The whole result, whose text, CSV and HTML follow. NULL when memory runs out. */
json_t *measure_summary(const measure *m, const json_t *head);
/* What isn't the same where two results' options differ, for people. */
#define MEASURE_OTHER_OPTIONS "other options (K, -n, sampling, schedule or cache type)"
/* What two heads must have in common for a measurement to be gone on with: NULL, or what differs. */
const char *measure_head_differs(const json_t *mine, const json_t *other);

/* The first object of a list whose `key` is that string, or NULL. */
const json_t *measure_find(const json_t *list, const char *key, const char *value);
/* A text of the summary, "?" for what isn't there. */
const char *measure_string(const json_t *object, const char *key);
/* A number of the summary, NaN for null and what isn't there. */
double measure_number(const json_t *object, const char *key);

/* The answer for a task, in parts, which text and page put together. */
typedef struct measure_answer {
    const char *setting; /* what the speed-up is of; the summary's */
    text verdict;        /* "use K=4", "don't", "auto" */
    text speedup;        /* "1.342" */
    text interval;       /* "95 %: 1.210 to 1.480" */
    text prediction;     /* "predicted 1.361 for K=4"; empty: none */
    text latency;        /* "p99 9.10 to 30.00 ms" */
} measure_answer;
measure_answer measure_answer_of(const json_t *group);
void measure_answer_free(measure_answer *a);

void measure_text(text *t, const json_t *summary);
void measure_csv(text *t, const json_t *summary);
void measure_html(text *t, const json_t *summary);

#endif

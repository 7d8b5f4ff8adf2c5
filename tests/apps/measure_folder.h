/* A folder for a test of `outrider measure` or `compare`: prompts in it, the result's files, and what is read of
 * them.
 *
 * TEST_TARGET and TEST_DRAFT name the models. */
#ifndef OUTRIDER_TESTS_MEASURE_FOLDER_H
#define OUTRIDER_TESTS_MEASURE_FOLDER_H

#include "program.h"

extern const char *target, *draft;
extern char folder[64];
extern char *data, *json, *csv, *html; /* paths in the folder */

/* A task's name that every format must escape. */
#define HOSTILE "<b>\\\"&'=x"

void begin(void);
/* Removes all files, of which none may be a half-written one. */
void end(void);

/* To be freed. */
char *in_folder(const char *name);
void write_file(const char *path, const char *content);
/* To be freed. */
char *read_file(const char *path);
/* So many prompts of each of two tasks. */
void write_prompts(int n_each);

#define MEASURE(...)                                                                               \
    RUN("measure", "-m", target, "-md", draft, "--data", data, "--draft-max", "2,5", "-n", "16",   \
        "--ignore-eos", __VA_ARGS__)

/* A file of JSON; to be freed with json_decref. */
json_t *load(const char *path);
/* NaN for what is no number. */
double number(const json_t *object, const char *key);

/* program_test, with the models' names. */
int measure_test(const char *name, const TTest *const *tests);

#endif

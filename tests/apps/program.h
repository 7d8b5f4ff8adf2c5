/* Runs the outrider program for a test: arguments, standard input, environment, signals; no shell.
 *
 * The program's path comes from OUTRIDER_PROGRAM. Used by the Check programs in this folder. */
#ifndef OUTRIDER_TESTS_PROGRAM_H
#define OUTRIDER_TESTS_PROGRAM_H

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct program_call {
    const char *const *arguments;   /* after the program's name, NULL at the end */
    const char *input;              /* standard input; NULL: /dev/null */
    size_t n_input;                 /* 0: to the NUL */
    const char *const *environment; /* "NAME=value" set on top of the test's own; NULL: none */
    const char *output_path;        /* standard output goes there; NULL: it is captured */
    bool closed_output;             /* no standard output at all */
    bool reader_leaves;             /* the pipe of the output is closed after its first bytes */
    int signal;                     /* sent when the first bytes of output came, or... */
    double signal_after_s;          /* ...after this time, if it is not 0 */
};

struct program_result {
    int code;        /* exit code, or 1000 + the signal that killed it */
    char *out, *err; /* NUL-terminated */
    size_t n_out, n_err;
};

/* Fails the test when the program can't be started or takes more than a few minutes. */
struct program_result program_run(const struct program_call *call);
void program_free(struct program_result *result);

/* program_run with only arguments; the second form has none of them. */
#define RUN(...)                                                                                   \
    program_run(&(struct program_call){.arguments = (const char *const[]){__VA_ARGS__, NULL}})

#define RUN_NOTHING program_run(&(struct program_call){.arguments = (const char *const[]){NULL}})

/* Checks exit code, that standard output is empty, and that standard error is exactly one line
 * "outrider: ..." with each of the texts in it. Frees the result. */
#define EXPECT_REFUSED(result, wanted_code, ...)                                                   \
    program_expect_refused(__FILE__, __LINE__, result, wanted_code,                                \
                           (const char *const[]){__VA_ARGS__, NULL})
void program_expect_refused(const char *file, int line, struct program_result result, int code,
                            const char *const *texts);

/* Standard output as one JSON object; checks the exit code. To be freed with json_decref. */
json_t *program_json(struct program_result *result, int code);

/* The main of a Check program: runs the tests (NULL at the end), each for at most limit_s. Those of
 * long_tests (NULL: none) have the tag LONG_TESTS of suite.h. */
int program_test(const char *name, const TTest *const *tests, double limit_s);
int program_test_long(const char *name, const TTest *const *tests, const TTest *const *long_tests,
                      double limit_s);

#endif

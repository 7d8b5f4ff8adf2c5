/* The end of a Check program's main. */
#ifndef OUTRIDER_TESTS_SUITE_H
#define OUTRIDER_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>

/* The tag of test cases that a slow device leaves to the slow suite: see 'long_apart' in
 * tests/meson.build. */
#define LONG_TESTS "long"
/* Beside that one: of these the slow suite has more in an entry of its own. */
#define COVERED_BY_SLOW "covered"

/* The part of `n` items, from `first` to before `end`, that an argument of a program names: "8" the first
 * eight, "8-" those after them, "8-12" four of these; others, and none, all. */
static inline void suite_part(const char *argument, int n, int *first, int *end)
{
    int from, to;
    char dash;

    *first = 0;
    *end = n;
    int n_read = argument ? sscanf(argument, "%d%c%d", &from, &dash, &to) : 0;
    if (n_read == 1) {
        *end = from;
    } else if (n_read >= 2) {
        *first = from;
        *end = n_read == 3 ? to : n;
    }
}

/* Runs a suite, which it frees, as CK_VERBOSITY and CK_FORK say; returns the exit code. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}

#endif

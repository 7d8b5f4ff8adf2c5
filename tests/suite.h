/* The end of a Check program's main. */
#ifndef OUTRIDER_TESTS_SUITE_H
#define OUTRIDER_TESTS_SUITE_H

#include <check.h>

/* The tag of test cases that a slow device leaves to the slow suite: see 'long_apart' in
 * tests/meson.build. */
#define LONG_TESTS "long"
/* Beside that one: of these the slow suite has more in an entry of its own. */
#define COVERED_BY_SLOW "covered"

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

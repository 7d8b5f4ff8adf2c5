/* Runs the outrider program for a test: see program.h. */
#include "../suite.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_S 240.0

extern char **environ;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool overrides(const char *const *extra, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;

    for (; extra && *extra; extra++) {
        if (strncmp(*extra, variable, n) == 0)
            return true;
    }
    return false;
}

/* The test's environment with `extra` on top; the strings are borrowed. */
static char **make_environment(const char *const *extra)
{
    size_t n = 1, k = 0;
    char **all;

    for (char **e = environ; *e; e++)
        n++;
    for (const char *const *e = extra; e && *e; e++)
        n++;
    all = calloc(n, sizeof(*all));
    ck_assert_ptr_nonnull(all);
    for (char **e = environ; *e; e++) {
        if (!overrides(extra, *e))
            all[k++] = *e;
    }
    for (const char *const *e = extra; e && *e; e++)
        all[k++] = (char *)*e;
    return all;
}

static void append(char **data, size_t *n, const char *bytes, size_t n_bytes)
{
    *data = realloc(*data, *n + n_bytes + 1);
    ck_assert_ptr_nonnull(*data);
    if (n_bytes)
        memcpy(*data + *n, bytes, n_bytes);
    *n += n_bytes;
    (*data)[*n] = '\0';
}

static pid_t start(const struct program_call *call, int in[2], int out[2], int err[2])
{
    const char *program = getenv("OUTRIDER_PROGRAM");
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    char *argv[64] = {(char *)"outrider"};
    char **environment = make_environment(call->environment);
    size_t n = 1;
    pid_t pid = -1;

    ck_assert_msg(program != NULL, "OUTRIDER_PROGRAM names no program");
    for (const char *const *a = call->arguments; *a; a++) {
        ck_assert_uint_lt(n + 1, sizeof(argv) / sizeof(argv[0]));
        argv[n++] = (char *)*a;
    }
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    if (call->input)
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    else
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (call->closed_output)
        posix_spawn_file_actions_addclose(&actions, 1);
    else if (call->output_path)
        posix_spawn_file_actions_addopen(&actions, 1, call->output_path, O_WRONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    posix_spawnattr_init(&attributes);
    sigfillset(&defaults);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    ck_assert_int_eq(posix_spawn(&pid, program, &actions, &attributes, argv, environment), 0);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    return pid;
}

static void feed(int fd, const struct program_call *call)
{
    size_t n = !call->input ? 0 : call->n_input ? call->n_input : strlen(call->input), at = 0;

    /* A program that doesn't read its input is no error of the test. */
    signal(SIGPIPE, SIG_IGN);
    while (at < n) {
        ssize_t written = write(fd, call->input + at, n - at);

        if (written <= 0)
            break;
        at += (size_t)written;
    }
    close(fd);
}

/* Reads what is there; false at the end of the stream. */
static bool take(int fd, char **data, size_t *n)
{
    char buffer[65536];
    ssize_t got = read(fd, buffer, sizeof(buffer));

    if (got > 0)
        append(data, n, buffer, (size_t)got);
    return got > 0 || (got < 0 && errno == EINTR);
}

struct program_result program_run(const struct program_call *call)
{
    struct program_result r = {0};
    int in[2], out[2], err[2], status = 0;
    pid_t pid = start(call, in, out, err);
    double begin = now();
    bool has_signalled = call->signal == 0;
    struct pollfd polled[2] = {{.fd = out[0], .events = POLLIN}, {.fd = err[0], .events = POLLIN}};

    append(&r.out, &r.n_out, "", 0);
    append(&r.err, &r.n_err, "", 0);
    feed(in[1], call);
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        double age = now() - begin;
        bool due = call->signal_after_s > 0.0 ? age > call->signal_after_s : r.n_out > 0;

        if (!has_signalled && due) {
            kill(pid, call->signal);
            has_signalled = true;
        }
        if (age > LIMIT_S) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            ck_abort_msg("the program took more than %.0f s; stderr: %s", LIMIT_S, r.err);
        }
        poll(polled, 2, 20);
        if (polled[0].fd >= 0 && polled[0].revents && !take(out[0], &r.out, &r.n_out))
            polled[0].fd = -1;
        if (polled[1].fd >= 0 && polled[1].revents && !take(err[0], &r.err, &r.n_err))
            polled[1].fd = -1;
        if (call->reader_leaves && r.n_out > 0 && polled[0].fd >= 0) {
            close(out[0]);
            polled[0].fd = out[0] = -1;
        }
    }
    if (out[0] >= 0)
        close(out[0]);
    close(err[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return r;
}

void program_free(struct program_result *result)
{
    free(result->out);
    free(result->err);
    *result = (struct program_result){0};
}

void program_expect_refused(const char *file, int line, struct program_result result, int code,
                            const char *const *texts)
{
    const char *newline = strchr(result.err, '\n');

    if (result.code != code)
        ck_abort_msg("%s:%d: exit code %d, not %d; stderr: %s", file, line, result.code, code,
                     result.err);
    if (result.n_out)
        ck_abort_msg("%s:%d: standard output: %s", file, line, result.out);
    if (strncmp(result.err, "outrider: ", 10) != 0 || !newline || newline[1])
        ck_abort_msg("%s:%d: not one line of error: %s", file, line, result.err);
    for (const char *c = result.err; c < newline; c++) {
        if ((unsigned char)*c < 0x20)
            ck_abort_msg("%s:%d: control character in %s", file, line, result.err);
    }
    for (; *texts; texts++) {
        if (!strstr(result.err, *texts))
            ck_abort_msg("%s:%d: no '%s' in: %s", file, line, *texts, result.err);
    }
    program_free(&result);
}

json_t *program_json(struct program_result *result, int code)
{
    json_error_t error;
    json_t *object;

    ck_assert_msg(result->code == code, "exit code %d, not %d; stderr: %s", result->code, code,
                  result->err);
    object = json_loads(result->out, 0, &error);
    ck_assert_msg(object != NULL, "%s in: %s", error.text, result->out);
    ck_assert(json_is_object(object));
    /* One line. */
    ck_assert_ptr_eq(strchr(result->out, '\n'), result->out + result->n_out - 1);
    return object;
}

static void add_tests(Suite *suite, const char *name, const char *tag, const TTest *const *tests,
                      double limit_s)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, limit_s);
    if (tag)
        tcase_set_tags(tcase, tag);
    for (; tests && *tests; tests++)
        tcase_add_test(tcase, *tests);
    suite_add_tcase(suite, tcase);
}

int program_test_long(const char *name, const TTest *const *tests, const TTest *const *long_tests,
                      double limit_s)
{
    Suite *suite = suite_create(name);

    add_tests(suite, name, NULL, tests, limit_s);
    add_tests(suite, LONG_TESTS, LONG_TESTS, long_tests, limit_s);
    return suite_run(suite);
}

int program_test(const char *name, const TTest *const *tests, double limit_s)
{
    return program_test_long(name, tests, NULL, limit_s);
}

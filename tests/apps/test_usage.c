/* What the program says without a device: help, usage errors, prompts and files that can't be used,
 * no Vulkan at all. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

static const char *const commands[] = {"run",  "eval",    "bench",   "simulate",
                                       "tune", "devices", "inspect", "selftest"};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void expect_text(struct program_result r, const char *const *texts)
{
    ck_assert_msg(r.code == 0, "exit code %d: %s", r.code, r.err);
    ck_assert_str_eq(r.err, "");
    for (; *texts; texts++)
        ck_assert_msg(strstr(r.out, *texts) != NULL, "no '%s' in: %s", *texts, r.out);
    program_free(&r);
}
#define EXPECT_TEXT(result, ...) expect_text(result, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(test_help)
{
    EXPECT_TEXT(RUN("--help"), "Usage: outrider COMMAND", "run ", "eval ", "tune ", "devices ",
                "inspect ", "selftest ", "Exit codes:", "130");
    EXPECT_TEXT(RUN("-h"), "Usage: outrider COMMAND");
    EXPECT_TEXT(RUN("help"), "Usage: outrider COMMAND");
    EXPECT_TEXT(RUN("help", "eval"), "Usage: outrider eval");
    EXPECT_TEXT(RUN("run", "--help"), "-m, --model FILE", "-md, --draft-model", "-p, --prompt",
                "-f, --file", "-n, --predict", "--temp", "--top-k", "--top-p", "--min-p",
                "--repeat-penalty", "--repeat-last-n", "--stop", "-s, --seed", "-c, --ctx-size",
                "--draft-max", "--device", "--json", "--quiet", "--ignore-eos", "--validate",
                "--no-escape", "--no-display-prompt", "Exit codes:");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char usage[64];

        snprintf(usage, sizeof(usage), "Usage: outrider %s", commands[i]);
        EXPECT_TEXT(RUN(commands[i], "--help"), usage, "Options:", "--json", "Exit codes:");
        /* Help wins over a mistake, wherever it stands... */
        EXPECT_TEXT(RUN(commands[i], "--no-such-option", "--help"), usage);
    }
    /* ...but not when it is the value of an option. */
    EXPECT_REFUSED(RUN("run", "-q", "-p", "--help", "-m"), 2, "-m needs a value");
}
END_TEST

START_TEST(test_help_fits_a_terminal)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        struct program_result r = RUN(commands[i], "--help");

        for (const char *at = r.out; *at; at += strcspn(at, "\n") + 1)
            ck_assert_msg(strcspn(at, "\n") <= 92, "long line: %.100s", at);
        program_free(&r);
    }
}
END_TEST

START_TEST(test_version)
{
    struct program_result r = RUN("--version");

    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(strncmp(r.out, "outrider ", 9), 0);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        struct program_result same = RUN(commands[i], "--version");

        ck_assert_int_eq(same.code, 0);
        ck_assert_str_eq(same.out, r.out);
        program_free(&same);
    }
    program_free(&r);
}
END_TEST

START_TEST(test_commands)
{
    EXPECT_REFUSED(RUN_NOTHING, 2, "no command", "--help");
    EXPECT_REFUSED(RUN("rnu"), 2, "'rnu'", "did you mean 'run'?");
    EXPECT_REFUSED(RUN("insepct", "x"), 2, "did you mean 'inspect'?");
    EXPECT_REFUSED(RUN("xyzzyplugh"), 2, "'xyzzyplugh'", "outrider --help");
    EXPECT_REFUSED(RUN("-m", "x.gguf"), 2, "outrider run -m");
    EXPECT_REFUSED(RUN("a\x1b[31m\nb"), 2, "a\\x1b[31m\\nb");
}
END_TEST

START_TEST(test_options)
{
    EXPECT_REFUSED(RUN("run", "--tmep", "1", "-p", "x"), 2, "'--tmep'", "did you mean '--temp'?");
    EXPECT_REFUSED(RUN("run", "--topk=3", "-p", "x"), 2, "'--topk'", "did you mean '--top-k'?");
    EXPECT_REFUSED(RUN("run", "--quite", "-p", "x"), 2, "did you mean '--quiet'?");
    EXPECT_REFUSED(RUN("run", "--qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"), 2, "--help");
    EXPECT_REFUSED(RUN("run", "word"), 2, "unexpected argument 'word'");
    EXPECT_REFUSED(RUN("run", "-p"), 2, "-p needs a value");
    EXPECT_REFUSED(RUN("run", "-p", "x", "--json=1"), 2, "--json takes no value");
    EXPECT_REFUSED(RUN("run", "-p", "x", "-f", "y"), 2, "-p and -f");
    EXPECT_REFUSED(RUN("run", "-p", "x", "--stop", ""), 2, "--stop");
    EXPECT_REFUSED(RUN("tune", "--reset", "-m", "x.gguf"), 2, "--reset", "no model");
    EXPECT_REFUSED(RUN("tune", "word"), 2, "unexpected argument 'word'");
    EXPECT_REFUSED(RUN("tune", "--rest"), 2, "did you mean '--reset'?");
    EXPECT_REFUSED(RUN("tune", "--seconds", "-1"), 2, "--seconds", "between 0 and 3600");
    EXPECT_REFUSED(RUN("tune", "-m", "/nonexistent.gguf"), 3, "/nonexistent.gguf");
    EXPECT_REFUSED(RUN("inspect"), 2, "one GGUF file");
    EXPECT_REFUSED(RUN("inspect", "a", "b"), 2, "unexpected argument 'b'");
    EXPECT_REFUSED(RUN("inspect", "a", "-m", "b"), 2, "one GGUF file");
    EXPECT_REFUSED(RUN("eval"), 2, "-f FILE", "--ids");
    EXPECT_REFUSED(RUN("eval", "-p", "x", "--ids", "1"), 2, "one of them");
    EXPECT_REFUSED(RUN("eval", "--ids", "1,x"), 2, "1,x");
    EXPECT_REFUSED(RUN("eval", "--ids", "1,,2"), 2, "1,,2");
    EXPECT_REFUSED(RUN("eval", "--ids", ""), 2, "--ids");
    EXPECT_REFUSED(RUN("eval", "--ids", "1,-2"), 2, "-2");
    EXPECT_REFUSED(RUN("eval", "--ids", "99999999999999999999"), 2, "no token id");
}
END_TEST

START_TEST(test_ranges)
{
    static const struct {
        const char *option, *value, *message;
    } cases[] = {
        {"-n", "x", "whole number"},
        {"-n", "", "whole number"},
        {"-n", "1.5", "whole number"},
        {"-n", "-3", "between -2 and 2147483647"},
        {"-n", "2147483648", "between -2"},
        {"-n", "99999999999999999999", "between -2"},
        {"-c", "-1", "between 0"},
        {"-c", "1", "-c must be 0 (the default) or 2 to 1048576"},
        {"-c", "1048577", "between 0 and 1048576"},
        {"--draft-max", "17", "between -1 and 16"},
        {"--draft-max", "-2", "between -1 and 16"},
        {"--top-k", "-2", "between -1"},
        {"--repeat-last-n", "513", "between 0 and 512"},
        {"-s", "-2", "between -1 and 9007199254740992"},
        {"-s", "9007199254740993", "between -1 and 9007199254740992"},
        {"-s", "9007199254740994", "between -1 and 9007199254740992"},
        {"--temp", "-0.1", "between 0 and 100"},
        {"--temp", "hot", "a number"},
        {"--temp", "nan", "a number"},
        {"--temp", "inf", "a number"},
        {"--temp", "1e999", "a number"},
        {"--top-p", "1.01", "between 0 and 1"},
        {"--min-p", "-1", "between 0 and 1"},
        {"--repeat-penalty", "0", "between 0.01 and 100"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        EXPECT_REFUSED(RUN("run", "-p", "x", cases[i].option, cases[i].value), 2, cases[i].option,
                       cases[i].message);
    EXPECT_REFUSED(RUN("run", "-p", "x", "--cache-type", "q4_0"), 2, "f16 or q8_0", "q4_0");
    EXPECT_REFUSED(RUN("eval", "-p", "x", "--rows", "18"), 2, "--rows", "between 0 and 17");
}
END_TEST

START_TEST(test_prompts)
{
    EXPECT_REFUSED(RUN("run"), 2, "no prompt", "-p");
    EXPECT_REFUSED(RUN("run", "-p",
                       "ab\xff"
                       "c"),
                   3, "invalid UTF-8 at byte 2", "0xff");
    EXPECT_REFUSED(RUN("run", "-p", "a\\xe2\\x82"), 3, "invalid UTF-8 at byte 1");
    EXPECT_REFUSED(RUN("run", "-p", "x", "--stop", "\\xc3"), 3, "--stop", "invalid UTF-8");
    EXPECT_REFUSED(RUN("run", "-f", "/nonexistent/prompt"), 3, "/nonexistent/prompt",
                   "No such file");
    EXPECT_REFUSED(RUN("run", "-f", "/"), 3, "directory");
    EXPECT_REFUSED(RUN("eval", "-f", "/nonexistent/text"), 3, "/nonexistent/text");
    EXPECT_REFUSED(program_run(&(struct program_call){
                       .arguments = (const char *const[]){"run", NULL},
                       .input = "ok\xc0\xaf",
                   }),
                   3, "standard input", "invalid UTF-8 at byte 2");
    /* Endless input is refused, not swallowed. */
    EXPECT_REFUSED(RUN("run", "-f", "/dev/zero"), 3, "/dev/zero", "larger than 256 MiB");
}
END_TEST

START_TEST(test_no_vulkan)
{
    const char *const no_loader[] = {"OUTRIDER_VULKAN_LOADER=/nonexistent/libvulkan.so", NULL};

    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *arguments[5] = {commands[i]};

        if (strcmp(commands[i], "inspect") == 0 || strcmp(commands[i], "simulate") == 0)
            continue;
        if (strcmp(commands[i], "run") == 0 || strcmp(commands[i], "eval") == 0) {
            arguments[1] = "-p";
            arguments[2] = "hello";
        }
        EXPECT_REFUSED(
            program_run(&(struct program_call){.arguments = arguments, .environment = no_loader}),
            4, "Vulkan", "/nonexistent/libvulkan.so");
    }
}
END_TEST

/* A loader without drivers: a warning says so, and the error what to install. */
START_TEST(test_no_device)
{
    const char *const no_driver[] = {"VK_DRIVER_FILES=/nonexistent/icd.json",
                                     "VK_ICD_FILENAMES=/nonexistent/icd.json", NULL};
    const char *const calls[][5] = {{"run", "-q", "-p", "hello"},
                                    {"eval", "-q", "-p", "hello"},
                                    {"selftest", "-q"},
                                    {"tune", "-q"},
                                    {"tune", "-q", "--reset"}};
    struct program_result r;
    json_t *object;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        EXPECT_REFUSED(
            program_run(&(struct program_call){.arguments = calls[i], .environment = no_driver}), 4,
            "device");
    r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"devices", "--json", NULL}, .environment = no_driver});
    object = program_json(&r, 4);
    ck_assert_uint_eq(json_array_size(json_object_get(object, "devices")), 0);
    ck_assert_ptr_nonnull(strstr(r.err, "install"));
    json_decref(object);
    program_free(&r);
}
END_TEST

START_TEST(test_demo_models)
{
    const char *const elsewhere[] = {"OUTRIDER_MODELS=/nonexistent", NULL};

    EXPECT_REFUSED(
        program_run(&(struct program_call){
            .arguments = (const char *const[]){"run", "-p", "x", NULL}, .environment = elsewhere}),
        3, "outrider-demo-target.gguf", "/nonexistent", "-m");
}
END_TEST

/* A named pipe that nobody writes to: Ctrl-C ends the wait, without a message. */
START_TEST(test_interrupted_input)
{
    char folder[] = "/tmp/outrider-pipe-XXXXXX", pipe_path[64];
    static const char *const commands_with_file[] = {"run", "eval"};

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
    ck_assert_int_eq(mkfifo(pipe_path, 0600), 0);
    for (size_t i = 0; i < 2; i++) {
        struct program_result r = program_run(&(struct program_call){
            .arguments = (const char *const[]){commands_with_file[i], "-f", pipe_path, NULL},
            .signal = SIGINT,
            .signal_after_s = 0.5,
        });

        ck_assert_msg(r.code == 130, "exit code %d: %s", r.code, r.err);
        ck_assert_str_eq(r.err, "");
        program_free(&r);
    }
    unlink(pipe_path);
    rmdir(folder);
}
END_TEST

START_TEST(test_output_errors)
{
    const char *const help[] = {"run", "--help", NULL};
    struct program_result r = program_run(
        &(struct program_call){.arguments = help, .output_path = "/dev/full"});

    EXPECT_REFUSED(r, 1, "standard output", "No space left");
    r = program_run(&(struct program_call){.arguments = help, .closed_output = true});
    EXPECT_REFUSED(r, 1, "standard output");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_help,
                                  test_help_fits_a_terminal,
                                  test_version,
                                  test_commands,
                                  test_options,
                                  test_ranges,
                                  test_prompts,
                                  test_no_vulkan,
                                  test_no_device,
                                  test_demo_models,
                                  test_interrupted_input,
                                  test_output_errors,
                                  NULL};

    return program_test("usage", tests, 60);
}

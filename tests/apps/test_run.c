/* `outrider run` on a device: text, JSON and counters agree; every way to end; what is refused.
 *
 * TEST_TARGET and TEST_DRAFT name the models: small ones where the device is slow. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../folder.h"
#include "program.h"

#define DEMO_DRAFT TEST_MODELS "/outrider-demo-draft.gguf"
#define STORIES TEST_DATA "/models/stories260K-f32.gguf"
#define PROMPT "Once upon a time"

static const char *target, *draft;

#define RUN_MODELS(...) RUN("run", "-m", target, "-md", draft, __VA_ARGS__)

static int64_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_integer(value), "%s is no integer", key);
    return json_integer_value(value);
}

static const char *string(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_string(value), "%s is no string", key);
    return json_string_value(value);
}

static int64_t sum(const json_t *array)
{
    int64_t total = 0;
    const json_t *value;
    size_t i;

    ck_assert(json_is_array(array));
    json_array_foreach(array, i, value)
    {
        total += json_integer_value(value);
    }
    return total;
}

/* The rules of the counters, which hold however a run ended. */
static void check_counters(const json_t *object)
{
    const json_t *stats = json_object_get(object, "stats");
    int64_t emitted = integer(stats, "emitted"), accepted = integer(stats, "accepted");
    int64_t verified = integer(stats, "verified");

    ck_assert_int_eq(emitted, (int64_t)json_array_size(json_object_get(object, "tokens")));
    if (emitted > 0)
        ck_assert_int_eq(emitted,
                         1 + accepted + integer(stats, "blocks") - integer(stats, "discarded"));
    ck_assert_int_ge(integer(stats, "drafted"), verified);
    ck_assert_int_ge(verified, accepted);
    ck_assert_int_eq(sum(json_object_get(stats, "accepted_by_position")), accepted);
    ck_assert_int_eq(sum(json_object_get(stats, "verified_by_position")), verified);
    ck_assert(json_is_number(json_object_get(stats, "tokens_per_second")));
    ck_assert(json_is_number(json_object_get(stats, "ttft_ms")));
}

static json_t *parse(struct program_result r, int code)
{
    json_t *object = program_json(&r, code);

    check_counters(object);
    program_free(&r);
    return object;
}

START_TEST(test_json)
{
    struct program_result r = RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "12", "-s", "7",
                                         "--ignore-eos", "--draft-max", "4");
    json_t *object, *stats;

    ck_assert_str_eq(r.err, "");
    object = parse(r, 0);
    stats = json_object_get(object, "stats");
    ck_assert_str_eq(string(object, "finish_reason"), "length");
    ck_assert_int_eq(integer(object, "seed"), 7);
    ck_assert_str_eq(string(object, "model"), target);
    ck_assert_str_eq(string(object, "draft"), draft);
    ck_assert_uint_gt(strlen(string(object, "device")), 0);
    ck_assert_int_eq(integer(stats, "emitted"), 12);
    ck_assert_int_gt(integer(stats, "drafted"), 0);
    ck_assert_double_gt(json_number_value(json_object_get(stats, "ttft_ms")), 0.0);
    ck_assert_double_gt(json_number_value(json_object_get(stats, "tokens_per_second")), 0.0);
    json_decref(object);
}
END_TEST

/* Whatever drafts, and however much: the same ids. */
START_TEST(test_same_text)
{
    static const char *const draft_max[] = {"0", "1", "5", "16", "-1"};
    json_t *plain = parse(RUN("run", "-m", target, "--json", "-q", "-p", PROMPT, "-n", "12", "-s",
                              "3", "--ignore-eos"),
                          0);

    ck_assert(json_is_null(json_object_get(plain, "draft")));
    for (size_t i = 0; i < sizeof(draft_max) / sizeof(draft_max[0]); i++) {
        json_t *same = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "12", "-s", "3",
                                        "--ignore-eos", "--draft-max", draft_max[i]),
                             0);

        ck_assert_msg(json_equal(json_object_get(same, "tokens"), json_object_get(plain, "tokens")),
                      "other ids with --draft-max %s", draft_max[i]);
        ck_assert(json_equal(json_object_get(same, "text"), json_object_get(plain, "text")));
        json_decref(same);
    }
    json_decref(plain);
}
END_TEST

/* And wherever, whenever. */
START_TEST(test_same_text_of_schedules)
{
    static const char *const options[][4] = {
        {"--schedule", "pipelined", "--drafter", "model"},
        {"--schedule", "pipelined", "--draft-device", "0"},
        {"--schedule", "serial", "--draft-device", "0"},
        {"--draft-device", "0", "--drafter", "both"},
        {"--draft-queue", "shared", "--schedule", "pipelined"},
    };
    json_t *plain = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "16", "-s", "3",
                                     "--ignore-eos", "--draft-max", "0"),
                          0);

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const char *const *o = options[i];
        json_t *same = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "16", "-s", "3",
                                        "--ignore-eos", "--draft-max", "4", o[0], o[1], o[2], o[3]),
                             0);
        const json_t *stats = json_object_get(same, "stats");

        ck_assert_msg(json_equal(json_object_get(same, "tokens"), json_object_get(plain, "tokens")),
                      "other ids with %s %s", o[0], o[1]);
        if (strcmp(o[1], "pipelined") == 0)
            ck_assert_int_gt(integer(stats, "pipelined_blocks"), 0);
        else if (strcmp(o[1], "serial") == 0)
            ck_assert_int_eq(integer(stats, "pipelined_blocks"), 0);
        json_decref(same);
    }
    json_decref(plain);
}
END_TEST

/* An impossible option beside a rule; without drafts or at temperature 0 there is no rule. */
static void refuse_rule_with(const char *rule, const char *option, const char *value,
                             const char *why)
{
    EXPECT_REFUSED(RUN_MODELS("--json", "-p", "x", "--verify", rule, option, value), 2, "--verify",
                   rule, option, why);
    json_decref(parse(RUN_MODELS("--json", "-q", "-p", "x", "-n", "1", "--verify", rule, option,
                                 value, "--draft-max", "0"),
                      0));
    json_decref(parse(RUN_MODELS("--json", "-q", "-p", "x", "-n", "1", "--verify", rule, option,
                                 value, "--temp", "0"),
                      0));
}

/* Of the target's distribution: the same for a seed, at temperature 0 the target's own. */
START_TEST(test_rules_of_verification)
{
    static const char *const rules[] = {"rejection", "block"};
    json_t *plain = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "24", "--temp", "0",
                                     "--ignore-eos", "--draft-max", "0"),
                          0);

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        json_t *sampled[2],
            *greedy = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "24", "--temp", "0",
                                       "--ignore-eos", "--draft-max", "4", "--verify", rules[i]),
                            0);
        for (int k = 0; k < 2; k++)
            sampled[k] = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "24", "--temp", "1",
                                          "-s", "7", "--ignore-eos", "--draft-max", "4", "--verify",
                                          rules[i]),
                               0);
        ck_assert(json_equal(json_object_get(greedy, "tokens"), json_object_get(plain, "tokens")));
        ck_assert(json_equal(json_object_get(sampled[0], "tokens"),
                             json_object_get(sampled[1], "tokens")));
        ck_assert_uint_eq(json_array_size(json_object_get(sampled[0], "tokens")), 24);
        ck_assert_int_gt(integer(json_object_get(sampled[0], "stats"), "accepted"), 0);
        json_decref(sampled[0]);
        json_decref(sampled[1]);
        json_decref(greedy);
        refuse_rule_with(rules[i], "--schedule", "pipelined", "serial");
        refuse_rule_with(rules[i], "--drafter", "ngram", "n-gram");
        refuse_rule_with(rules[i], "--drafter", "both", "n-gram");
        refuse_rule_with(rules[i], "--draft-device", "0", "share");
        EXPECT_REFUSED(RUN("run", "-m", target, "-p", "x", "--verify", rules[i]), 2, "--verify",
                       "-md");
    }
    json_decref(plain);
    EXPECT_REFUSED(RUN_MODELS("--verify", "Block", "-p", "x"), 2, "coupled|rejection|block");
}
END_TEST

static char trace_path[] = "/tmp/outrider-trace-XXXXXX";

/* A trace has a line for each token and can be simulated; --verbose tells of each block. */
START_TEST(test_trace)
{
    int file = mkstemp(trace_path);
    struct program_result r;
    json_t *simulated;

    ck_assert_int_ge(file, 0);
    close(file);
    r = RUN_MODELS("-p", PROMPT, "-n", "40", "-s", "3", "--ignore-eos", "--draft-max", "3",
                   "--trace", trace_path, "--verbose");
    ck_assert_int_eq(r.code, 0);
    ck_assert_ptr_nonnull(strstr(r.err, "block 1: "));
    ck_assert_ptr_nonnull(strstr(r.err, " accepted, "));
    program_free(&r);
    r = RUN("simulate", "--trace", trace_path, "--json");
    simulated = program_json(&r, 0);
    program_free(&r);
    ck_assert_int_eq(integer(simulated, "tokens"), 40);
    ck_assert_int_gt(integer(simulated, "known"), 0);
    json_decref(simulated);
    unlink(trace_path);
    EXPECT_REFUSED(RUN_MODELS("-q", "-p", PROMPT, "-n", "2", "--trace", "/nonexistent/trace"), 1,
                   "/nonexistent/trace");
}
END_TEST

/* A small file with a name of its own in the folder; the path is to be freed. */
static char *small_file(const char *folder, const char *name)
{
    char *path = malloc(strlen(folder) + strlen(name) + 2);
    FILE *f;

    ck_assert_ptr_nonnull(path);
    sprintf(path, "%s/%s", folder, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("One day", f);
    fclose(f);
    return path;
}

static void expect_trace_refused(const char *path, const char *const *arguments)
{
    struct stat about;

    EXPECT_REFUSED(program_run(&(struct program_call){.arguments = arguments}), 2, path, "is read");
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_int_eq(about.st_size, (off_t)strlen("One day"));
}

#define EXPECT_TRACE_REFUSED(path, ...)                                                            \
    expect_trace_refused(                                                                          \
        path, (const char *const[]){"run", __VA_ARGS__, "-n", "2", "--trace", path, NULL})

/* No trace takes the place of a model or of the prompt: refused before these are even read. */
START_TEST(test_trace_replaces_no_input)
{
    char folder[] = "/tmp/outrider-trace-XXXXXX", setting[64];
    char *target_file, *draft_file, *parts[2];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    target_file = small_file(folder, "outrider-demo-target.gguf");
    draft_file = small_file(folder, "outrider-demo-draft.gguf");
    EXPECT_TRACE_REFUSED(target_file, "-m", target_file, "-p", PROMPT);
    EXPECT_TRACE_REFUSED(target_file, "-m", target, "-md", target_file, "-p", PROMPT);
    EXPECT_TRACE_REFUSED(target_file, "-m", target, "-md", target_file, "-p", PROMPT, "--draft-max",
                         "0");
    EXPECT_TRACE_REFUSED(target_file, "-m", target, "-f", target_file);
    /* Another part of a split model. */
    parts[0] = small_file(folder, "m-00001-of-00002.gguf");
    parts[1] = small_file(folder, "m-00002-of-00002.gguf");
    EXPECT_TRACE_REFUSED(parts[1], "-m", parts[0], "-p", PROMPT);
    EXPECT_TRACE_REFUSED(parts[0], "-m", target, "-md", parts[1], "-p", PROMPT);
    for (size_t i = 0; i < 2; i++) {
        unlink(parts[i]);
        free(parts[i]);
    }
    snprintf(setting, sizeof(setting), "OUTRIDER_MODELS=%s", folder);
    for (size_t i = 0; i < 2; i++) {
        char *path = i ? draft_file : target_file;

        EXPECT_REFUSED(
            program_run(&(struct program_call){
                .arguments = (const char *const[]){"run", "-p", PROMPT, "--trace", path, NULL},
                .environment = (const char *const[]){setting, NULL},
            }),
            2, path, "is read");
    }
    unlink(target_file);
    unlink(draft_file);
    free(target_file);
    free(draft_file);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* The text form gives what the JSON form gives, with the prompt before it, and the end block. */
START_TEST(test_text_form)
{
    json_t *object = parse(
        RUN_MODELS("--json", "-q", "-p", PROMPT "\\n", "-n", "8", "-s", "5", "--ignore-eos"), 0);
    const char *text = string(object, "text");
    struct program_result r = RUN_MODELS("-p", PROMPT "\\n", "-n", "8", "-s", "5", "--ignore-eos",
                                         "--draft-max", "5");
    char *wanted = malloc(strlen(text) + sizeof(PROMPT) + 2);

    ck_assert_ptr_nonnull(wanted);
    sprintf(wanted, PROMPT "\n%s", text);
    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.out, wanted);
    free(wanted);
    ck_assert_ptr_nonnull(strstr(r.err, "8 tokens, "));
    ck_assert_ptr_nonnull(strstr(r.err, " tokens/s, first after "));
    ck_assert_ptr_nonnull(strstr(r.err, "acceptance  "));
    ck_assert_ptr_nonnull(strstr(r.err, " tokens a block"));
    ck_assert_ptr_nonnull(strstr(r.err, "speed-up    "));
    ck_assert_ptr_nonnull(strstr(r.err, "finish      length, seed 5, on "));
    /* No progress where nobody watches. */
    ck_assert_ptr_null(strchr(r.err, '\r'));
    ck_assert_ptr_null(strstr(r.err, "loading"));
    program_free(&r);

    r = RUN_MODELS("-p", PROMPT "\\n", "-n", "8", "-s", "5", "--ignore-eos", "-q",
                   "--no-display-prompt");
    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.out, text);
    ck_assert_str_eq(r.err, "");
    program_free(&r);
    json_decref(object);
}
END_TEST

START_TEST(test_lengths)
{
    json_t *object = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "0"), 0);

    ck_assert_str_eq(string(object, "text"), "");
    ck_assert_str_eq(string(object, "finish_reason"), "length");
    ck_assert_int_eq(integer(json_object_get(object, "stats"), "emitted"), 0);
    ck_assert_int_eq(integer(json_object_get(object, "stats"), "blocks"), 0);
    json_decref(object);
    object = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "1", "--ignore-eos"), 0);
    ck_assert_int_eq(integer(json_object_get(object, "stats"), "emitted"), 1);
    ck_assert_int_eq(integer(json_object_get(object, "stats"), "blocks"), 0);
    json_decref(object);
    /* No end but the context's: 24 places, filled to the last. */
    object = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-c", "24", "--ignore-eos"), 0);
    ck_assert_str_eq(string(object, "finish_reason"), "context");
    ck_assert_int_le(integer(json_object_get(object, "stats"), "prompt_tokens") +
                         integer(json_object_get(object, "stats"), "emitted"),
                     25);
    ck_assert_int_gt(integer(json_object_get(object, "stats"), "emitted"), 8);
    json_decref(object);
}
END_TEST

/* A stop string anywhere in the text cuts it there, within a block as well as at its end. */
START_TEST(test_stop)
{
    json_t *object = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "16", "-s", "11",
                                      "--temp", "0", "--ignore-eos"),
                           0);
    const char *text = string(object, "text");
    size_t n = strlen(text);

    ck_assert_uint_gt(n, 12);
    for (size_t at = 3; at + 4 < n; at += n / 4) {
        char stop[5] = "", *wanted = strdup(text);
        json_t *cut;

        /* Whole characters only: the models write English, so ASCII is nearly everywhere. */
        memcpy(stop, text + at, 4);
        for (size_t i = 0; i < 4; i++)
            ck_assert_int_lt((unsigned char)stop[i], 0x80);
        *strstr(wanted, stop) = '\0';
        cut = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "16", "-s", "11", "--temp", "0",
                               "--ignore-eos", "--no-escape", "--stop", "never written", "--stop",
                               stop),
                    0);
        ck_assert_str_eq(string(cut, "finish_reason"), "stop");
        ck_assert_str_eq(string(cut, "text"), wanted);
        json_decref(cut);
        free(wanted);
    }
    json_decref(object);
}
END_TEST

START_TEST(test_prompt_sources)
{
    json_t *option = parse(
        RUN_MODELS("--json", "-q", "-p", "a\\nb\\n", "-n", "4", "-s", "1", "--ignore-eos"), 0);
    char path[] = "/tmp/outrider-test-XXXXXX";
    int fd = mkstemp(path);
    const char *const sources[] = {NULL, "-", path}; /* NULL: standard input, unnamed */

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "a\nb\n\n", 5), 5);
    close(fd);
    /* One newline at the end of a file is the file's, not the prompt's. */
    for (size_t i = 0; i < 3; i++) {
        json_t *same = parse(
            program_run(&(struct program_call){
                .arguments = (const char *const[]){"run", "-m", target, "-md", draft, "--json",
                                                   "-q", "-n", "4", "-s", "1", "--ignore-eos",
                                                   sources[i] ? "-f" : NULL, sources[i], NULL},
                .input = "a\nb\n\n",
            }),
            0);

        ck_assert(json_equal(json_object_get(same, "tokens"), json_object_get(option, "tokens")));
        json_decref(same);
    }
    unlink(path);
    json_decref(option);
}
END_TEST

/* A random seed is told, and gives the same text again. */
START_TEST(test_random_seed)
{
    json_t *first = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "8", "--temp", "1.3",
                                     "--ignore-eos", "-s", "-1"),
                          0);
    json_t *other, *again;
    char seed[32];

    snprintf(seed, sizeof(seed), "%lld", (long long)integer(first, "seed"));
    again = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "8", "--temp", "1.3",
                             "--ignore-eos", "-s", seed),
                  0);
    ck_assert(json_equal(json_object_get(first, "tokens"), json_object_get(again, "tokens")));
    other = parse(RUN_MODELS("--json", "-q", "-p", PROMPT, "-n", "0"), 0);
    ck_assert_int_ne(integer(other, "seed"), integer(first, "seed"));
    json_decref(other);
    json_decref(again);
    json_decref(first);
}
END_TEST

/* Ctrl-C while the text streams: the text so far, the statistics, and 130. */
START_TEST(test_interrupt)
{
    struct program_result r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"run", "-m", target, "-md", draft, "-p", PROMPT, "-s",
                                           "1", "--ignore-eos", NULL},
        .signal = SIGINT,
    });

    ck_assert_msg(r.code == 130, "exit code %d: %s", r.code, r.err);
    ck_assert_int_eq(strncmp(r.out, PROMPT, strlen(PROMPT)), 0);
    ck_assert_ptr_nonnull(strstr(r.err, "finish      cancelled, seed 1"));
    ck_assert_ptr_nonnull(strstr(r.err, "tokens/s"));
    program_free(&r);
}
END_TEST

/* At any moment the JSON form gives a whole object or nothing. */
START_TEST(test_interrupt_json)
{
    static const double moments[] = {0.01, 0.2, 0.6, 1.2};

    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        struct program_result r = program_run(&(struct program_call){
            .arguments = (const char *const[]){"run", "-m", target, "-md", draft, "--json", "-q",
                                               "-p", PROMPT, "--ignore-eos", NULL},
            .signal = SIGTERM,
            .signal_after_s = moments[i],
        });

        /* The first moment may come before the program listens. */
        if (r.code == 1000 + SIGTERM && moments[i] < 0.1) {
            program_free(&r);
            continue;
        }
        if (r.code != 0)
            ck_assert_msg(r.code == 128 + SIGTERM, "exit code %d: %s", r.code, r.err);
        ck_assert_str_eq(r.err, "");
        if (r.n_out) {
            const char *finish = r.code ? "cancelled" : "context";
            json_t *object = parse(r, r.code);

            ck_assert_str_eq(string(object, "finish_reason"), finish);
            json_decref(object);
        } else {
            program_free(&r);
        }
    }
}
END_TEST

START_TEST(test_output_goes_away)
{
    const char *const arguments[] = {"run",  "-m", target, "-md",          draft, "-p",
                                     PROMPT, "-n", "64",   "--ignore-eos", NULL};
    struct program_result r = program_run(
        &(struct program_call){.arguments = arguments, .reader_leaves = true});

    ck_assert_msg(r.code == 141, "exit code %d: %s", r.code, r.err);
    ck_assert_str_eq(r.err, "");
    program_free(&r);
    EXPECT_REFUSED(
        program_run(&(struct program_call){.arguments = arguments, .output_path = "/dev/full"}), 1,
        "standard output", "No space left");
    EXPECT_REFUSED(
        program_run(&(struct program_call){.arguments = arguments, .closed_output = true}), 1,
        "standard output");
}
END_TEST

START_TEST(test_refused)
{
    char *long_prompt = malloc(20001);

    EXPECT_REFUSED(RUN("run", "-m", "/nonexistent.gguf", "-p", "x"), 3, "/nonexistent.gguf");
    EXPECT_REFUSED(RUN("run", "-m", target, "-md", "/nonexistent.gguf", "-p", "x"), 3,
                   "/nonexistent.gguf");
    EXPECT_REFUSED(RUN("run", "-m", "/dev/null", "-p", "x"), 3, "/dev/null");
    EXPECT_REFUSED(RUN("run", "-m", "/", "-p", "x"), 3, "/");
    EXPECT_REFUSED(RUN("run", "-m", __FILE__, "-p", "x"), 3, "GGUF");
    EXPECT_REFUSED(RUN("run", "-m", TEST_DATA "/formats/fix-TQ1_0.gguf", "-p", "x"), 3, "TQ1_0");
    EXPECT_REFUSED(RUN("run", "-m", TEST_DATA "/formats/weights-Q5_0.gguf", "-p", "x"), 3,
                   "missing");
    /* Vocabularies of 512 and of 4096 tokens. */
    EXPECT_REFUSED(RUN("run", "-m", STORIES, "-md", DEMO_DRAFT, "-p", "x"), 3, "vocabular");
    EXPECT_REFUSED(RUN("run", "-m", target, "--device", "no such GPU", "-p", "x"), 4,
                   "no such GPU");
    EXPECT_REFUSED(RUN_MODELS("--draft-device", "no such GPU", "-p", "x"), 4, "no such GPU");
    EXPECT_REFUSED(RUN("run", "-m", target, "--draft-device", "0", "-p", "x"), 2, "--draft-device",
                   "-md");
    EXPECT_REFUSED(RUN("run", "-m", target, "--drafter", "both", "-p", "x"), 2, "--drafter", "-md");
    EXPECT_REFUSED(RUN("run", "-m", target, "--draft-queue", "own", "-p", "x"), 2, "--draft-queue",
                   "-md");
    EXPECT_REFUSED(RUN_MODELS("--draft-queue", "shared", "--draft-device", "0", "-p", "x"), 2,
                   "--draft-queue", "--draft-device");
    EXPECT_REFUSED(RUN_MODELS("--drafter", "moodel", "-p", "x"), 2, "model|ngram|both", "moodel");
    EXPECT_REFUSED(RUN_MODELS("--schedule", "", "-p", "x"), 2, "auto|serial|pipelined");
    ck_assert_ptr_nonnull(long_prompt);
    memset(long_prompt, 'x', 20000);
    for (size_t i = 7; i < 20000; i += 8)
        long_prompt[i] = ' ';
    long_prompt[20000] = '\0';
    EXPECT_REFUSED(RUN("run", "-m", target, "-c", "32", "-p", long_prompt), 3, "context", "32");
    free(long_prompt);
}
END_TEST

/* A cache that can't be written is told in one line and costs nothing else. */
START_TEST(test_cache_not_writable)
{
    struct program_result r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"run", "-m", STORIES, "-p", "One", "-n", "2", "--json",
                                           "--ignore-eos", NULL},
        .environment = (const char *const[]){"OUTRIDER_CACHE_DIR=/dev/null/cache", NULL},
    });
    json_t *object = program_json(&r, 0);

    ck_assert_uint_eq(json_array_size(json_object_get(object, "tokens")), 2);
    ck_assert_ptr_nonnull(strstr(r.err, "outrider: warning: "));
    ck_assert_ptr_nonnull(strstr(r.err, "/dev/null/cache"));
    json_decref(object);
    program_free(&r);
}
END_TEST

/* A full disk under the cache: the text is whole, the message names the file, the exit code says
 * that something failed, and no part of a cache file is left. */
START_TEST(test_cache_disk_full)
{
    char folder[] = "/tmp/outrider-full-XXXXXX", setting[64], filler_path[64];
    FILE *filler;
    struct program_result r;
    json_t *object;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    if (mount("tmpfs", folder, "tmpfs", 0, "size=4k") != 0) {
        printf("a full disk needs the right to mount: not tested (%s)\n", strerror(errno));
        rmdir(folder);
        return;
    }
    snprintf(filler_path, sizeof filler_path, "%s/.filler", folder);
    filler = fopen(filler_path, "w");
    ck_assert_ptr_nonnull(filler);
    while (fputc('x', filler) != EOF && fflush(filler) == 0)
        continue;
    fclose(filler);
    snprintf(setting, sizeof setting, "OUTRIDER_CACHE_DIR=%s", folder);
    r = program_run(&(struct program_call){
        .arguments = (const char *const[]){"run", "-m", STORIES, "-p", "One", "-n", "2", "--json",
                                           "--ignore-eos", NULL},
        .environment = (const char *const[]){setting, NULL},
    });
    /* Which takes long, and once is enough: with the demo pair. */
    const bool is_demo = strcmp(target, STORIES) != 0;
    struct program_result checked = {0};
    if (is_demo)
        checked = program_run(&(struct program_call){
            .arguments = (const char *const[]){"selftest", "-q", NULL},
            .environment = (const char *const[]){setting, NULL},
        });
    size_t n_files = folder_count(folder);
    umount(folder);
    rmdir(folder);
    object = program_json(&r, 1);
    ck_assert_ptr_nonnull(strstr(r.err, folder));
    ck_assert_ptr_nonnull(strstr(r.err, "No space left"));
    if (is_demo) {
        ck_assert_int_eq(checked.code, 1);
        ck_assert_ptr_nonnull(strstr(checked.err, "No space left"));
        program_free(&checked);
    }
    ck_assert_uint_eq(n_files, 0);
    ck_assert_uint_eq(json_array_size(json_object_get(object, "tokens")), 2);
    json_decref(object);
    program_free(&r);
}
END_TEST

/* Under the validation layers the program does the same, and they have nothing to say. */
START_TEST(test_validation)
{
    struct program_result r = RUN_MODELS("--json", "--validate", "-p", PROMPT, "-n", "6",
                                         "--ignore-eos", "-s", "2");

    ck_assert_ptr_null(strstr(r.err, "validation: "));
    json_decref(parse(r, 0));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_json,
        test_same_text,
        test_text_form,
        test_rules_of_verification,
        test_trace,
        test_trace_replaces_no_input,
        test_lengths,
        test_stop,
        test_prompt_sources,
        test_random_seed,
        test_interrupt,
        test_interrupt_json,
        test_output_goes_away,
        test_refused,
        test_cache_not_writable,
        test_validation,
        NULL,
    };
    const TTest *const long_tests[] = {test_same_text_of_schedules, test_cache_disk_full, NULL};

    target = getenv("TEST_TARGET");
    draft = getenv("TEST_DRAFT");
    if (!target || !draft) {
        fprintf(stderr, "TEST_TARGET and TEST_DRAFT name no models\n");
        return EXIT_FAILURE;
    }
    return program_test_long("run", tests, long_tests, 300);
}

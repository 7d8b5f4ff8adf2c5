/* The outrider program: chooses the subcommand. The subcommands are in the files of their names. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include <outrider/outrider.h>

#include "commands.h"
#include "interrupt.h"
#include "message.h"
#include "options.h"
#include "output.h"

typedef struct command {
    const char *name;
    int (*call)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"run", command_run, "write text with a target model, and a draft that runs ahead"},
    {"eval", command_eval, "perplexity of a text, or the logits of given tokens"},
    {"bench", command_bench, "measure passes and generations; compare two results"},
    {"measure", command_measure,
     "does speculation pay on your own prompts? the answer, and reports"},
    {"compare", command_compare, "results of measure or bench side by side"},
    {"simulate", command_simulate, "speculation without models: what K and schedule would earn"},
    {"tune", command_tune, "measure which workgroup shapes are best on a device"},
    {"devices", command_devices, "list the Vulkan devices, and which one is used"},
    {"inspect", command_inspect, "show what is in a GGUF file (needs no Vulkan)"},
    {"selftest", command_selftest, "check every kernel on a device against the CPU"},
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int print_help(void)
{
    output_printf(
        "Usage: outrider COMMAND [options]\n\n"
        "Runs language models from GGUF files in Vulkan compute shaders; a small draft\n"
        "model runs ahead of the target, which gives exactly the text that it alone would\n"
        "have given.\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        output_printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    output_printf(
        "\n'outrider COMMAND --help' explains a command. '--version' prints the version.\n"
        "\n%s\n"
        "Environment:\n"
        "  OUTRIDER_MODELS         folder of the demo models\n"
        "  OUTRIDER_CACHE_DIR      folder of the pipeline cache, tuning and measured\n"
        "                          overlaps (default:\n"
        "                          $XDG_CACHE_HOME/outrider or ~/.cache/outrider)\n"
        "  OUTRIDER_DEBUG          list of validation, timestamps, statistics,\n"
        "                          tier0, gpu, independent, dot8\n"
        "  OUTRIDER_VULKAN_LOADER  path of the Vulkan loader\n",
        exit_codes_help);
    return output_finish(EXIT_CODE_OK);
}

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int fail_unknown(const char *typed)
{
    const char *names[N_COMMANDS];
    const char *nearest;

    if (typed[0] == '-')
        return fail(EXIT_CODE_USAGE,
                    "the command comes first, as in 'outrider run %s ...'; see 'outrider --help'",
                    typed);
    for (size_t i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    nearest = nearest_name(typed, names, N_COMMANDS);
    if (nearest)
        return fail(EXIT_CODE_USAGE, "unknown command '%s'; did you mean '%s'?", typed, nearest);
    return fail(EXIT_CODE_USAGE, "unknown command '%s'; 'outrider --help' lists them", typed);
}

/* A standard stream that the caller closed must not become the number of a model file. /dev/null
 * opened the wrong way round makes its use an error, as it should be. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    }
}

int main(int argc, char **argv)
{
    const command *chosen;

    hold_standard_streams();
    interrupt_install();
    if (argc < 2)
        return fail(EXIT_CODE_USAGE, "no command given; 'outrider --help' lists them");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0) {
        output_printf("outrider %s\n", otr_version());
        return output_finish(EXIT_CODE_OK);
    }
    /* `help COMMAND` as well, since people type it. */
    if (strcmp(argv[1], "help") == 0) {
        static char help[] = "--help";
        char *arguments[] = {help};

        if (argc == 2)
            return print_help();
        chosen = find_command(argv[2]);
        return chosen ? chosen->call(1, arguments) : fail_unknown(argv[2]);
    }
    chosen = find_command(argv[1]);
    return chosen ? chosen->call(argc - 2, argv + 2) : fail_unknown(argv[1]);
}

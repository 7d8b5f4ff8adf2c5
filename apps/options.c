/* The option parser of all subcommands: see options.h. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <outrider/outrider.h>

#include "message.h"
#include "output.h"

#define HELP_COLUMN 26
#define MAX_COMPARED 32 /* letters of a name that spelling is compared in */

/* Levenshtein distance with swaps of neighbours counted once; long words are cut. */
static size_t spelling_distance(const char *a, const char *b)
{
    size_t n_a = strnlen(a, MAX_COMPARED), n_b = strnlen(b, MAX_COMPARED);
    size_t d[MAX_COMPARED + 1][MAX_COMPARED + 1];

    for (size_t i = 0; i <= n_a; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= n_b; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n_a][n_b];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    const char *nearest = NULL;
    size_t least = strlen(typed) / 2 + 1;

    for (size_t i = 0; i < n; i++) {
        size_t distance = spelling_distance(typed, names[i]);

        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static void print_option(const option *o)
{
    const char *help = o->help;
    int column = output_printf("  ") ? 2 : 0;

    for (size_t i = 0; i < OPTION_MAX_NAMES && o->names[i]; i++) {
        output_printf("%s%s", i ? ", " : "", o->names[i]);
        column += (int)strlen(o->names[i]) + (i ? 2 : 0);
    }
    if (o->value) {
        output_printf(" %s", o->value);
        column += (int)strlen(o->value) + 1;
    }
    if (column > HELP_COLUMN - 2) {
        output_printf("\n");
        column = 0;
    }
    while (*help) {
        size_t length = strcspn(help, "\n");

        output_printf("%*s%.*s\n", HELP_COLUMN - column, "", (int)length, help);
        help += length + (help[length] == '\n');
        column = 0;
    }
}

static int print_help(const command_line *line)
{
    static const option common[] = {
        {.names = {"-h", "--help"}, .kind = OPTION_SET, .help = "print this text"},
        {.names = {"--version"}, .kind = OPTION_SET, .help = "print the version"},
    };

    output_printf("Usage: outrider %s %s\n\n%s\nOptions:\n", line->name, line->usage, line->about);
    for (size_t i = 0; i < line->n_options; i++)
        print_option(&line->options[i]);
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
        print_option(&common[i]);
    if (line->notes)
        output_printf("\n%s", line->notes);
    output_printf("\n%s", exit_codes_help);
    return output_finish(EXIT_CODE_OK);
}

/* `length` bytes of `typed` are the name; a value may follow after '='. */
static const option *find_option(const command_line *line, const char *typed, size_t length)
{
    for (size_t i = 0; i < line->n_options; i++) {
        for (size_t k = 0; k < OPTION_MAX_NAMES && line->options[i].names[k]; k++) {
            const char *name = line->options[i].names[k];

            if (strlen(name) == length && memcmp(name, typed, length) == 0)
                return &line->options[i];
        }
    }
    return NULL;
}

static int fail_unknown(const command_line *line, const char *typed, size_t length)
{
    const char *names[128] = {"--help", "--version"};
    size_t n = 2;
    char name[MAX_COMPARED * 2];
    const char *nearest;

    for (size_t i = 0; i < line->n_options; i++) {
        for (size_t k = 0; k < OPTION_MAX_NAMES && line->options[i].names[k]; k++) {
            if (n < sizeof(names) / sizeof(names[0]))
                names[n++] = line->options[i].names[k];
        }
    }
    snprintf(name, sizeof(name), "%.*s", (int)length, typed);
    nearest = nearest_name(name, names, n);
    if (nearest)
        return fail(EXIT_CODE_USAGE, "unknown option '%s' for '%s'; did you mean '%s'?", name,
                    line->name, nearest);
    return fail(EXIT_CODE_USAGE, "unknown option '%s'; 'outrider %s --help' lists them", name,
                line->name);
}

static int store_integer(const option *o, const char *name, const char *value, int64_t *out)
{
    char *end;
    long long parsed;

    errno = 0;
    parsed = strtoll(value, &end, 10);
    if (end == value || *end)
        return fail(EXIT_CODE_USAGE, "%s needs a whole number, not '%s'", name, value);
    /* least and most are exact, and so is their comparison in whole numbers. */
    if (errno == ERANGE || parsed < (long long)o->least || parsed > (long long)o->most)
        return fail(EXIT_CODE_USAGE, "%s must be between %.0f and %.0f, not %s", name, o->least,
                    o->most, value);
    *out = parsed;
    return EXIT_CODE_OK;
}

static int store_number(const option *o, const char *name, const char *value, double *out)
{
    char *end;
    double parsed = strtod(value, &end);

    if (end == value || *end || !isfinite(parsed))
        return fail(EXIT_CODE_USAGE, "%s needs a number, not '%s'", name, value);
    if (parsed < o->least || parsed > o->most)
        return fail(EXIT_CODE_USAGE, "%s must be between %g and %g, not %s", name, o->least,
                    o->most, value);
    *out = parsed;
    return EXIT_CODE_OK;
}

static int store_context(const option *o, const char *name, const char *value, int64_t *out)
{
    int code = store_integer(o, name, value, out);

    if (!code && *out == 1)
        return fail(EXIT_CODE_USAGE, "%s must be 0 (the default) or 2 to %.0f, not 1", name,
                    o->most);
    return code;
}

static const char *const cache_names[] = {
    [OTR_CACHE_F16] = "f16",
    [OTR_CACHE_Q8_0] = "q8_0",
};

const char *cache_type_name(otr_cache_type type)
{
    return cache_names[type];
}

static int store_cache(const char *name, const char *value, otr_cache_type *out)
{
    for (size_t i = 0; i < sizeof(cache_names) / sizeof(cache_names[0]); i++)
        if (strcmp(value, cache_names[i]) == 0) {
            *out = (otr_cache_type)i;
            return EXIT_CODE_OK;
        }
    return fail(EXIT_CODE_USAGE, "%s must be %s or %s, not '%s'", name, cache_names[OTR_CACHE_F16],
                cache_names[OTR_CACHE_Q8_0], value);
}

static int store_choice(const option *o, const char *name, const char *value, int64_t *out)
{
    const char *at = o->value;

    for (int64_t place = 1; *at; place++) {
        size_t length = strcspn(at, "|");

        if (strlen(value) == length && memcmp(at, value, length) == 0) {
            *out = place;
            return EXIT_CODE_OK;
        }
        at += length + (at[length] == '|');
    }
    return fail(EXIT_CODE_USAGE, "%s must be one of %s, not '%s'", name, o->value, value);
}

static int store_item(option_list *list, const char *value)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof(*items));

    if (!items)
        return fail_memory();
    items[list->n++] = value;
    list->items = items;
    return EXIT_CODE_OK;
}

static int store(const option *o, const char *name, const char *value, void *settings)
{
    char *slot = (char *)settings + o->offset;

    switch (o->kind) {
    case OPTION_SET:
    case OPTION_CLEAR:
        *(bool *)slot = o->kind == OPTION_SET;
        break;
    case OPTION_TEXT:
        *(const char **)slot = value;
        break;
    case OPTION_LIST:
        return store_item((option_list *)slot, value);
    case OPTION_INTEGER:
        return store_integer(o, name, value, (int64_t *)slot);
    case OPTION_NUMBER:
        return store_number(o, name, value, (double *)slot);
    case OPTION_CONTEXT:
        return store_context(o, name, value, (int64_t *)slot);
    case OPTION_CACHE:
        return store_cache(name, value, (otr_cache_type *)slot);
    case OPTION_CHOICE:
        return store_choice(o, name, value, (int64_t *)slot);
    }
    return EXIT_CODE_OK;
}

/* --help and --version win over any mistake elsewhere, but not over being another option's value.
 */
static bool wants(const command_line *line, int argc, char **argv, const char *a, const char *b)
{
    for (int i = 0; i < argc; i++) {
        const option *o = find_option(line, argv[i], strlen(argv[i]));

        if (o && o->value)
            i++;
        else if (strcmp(argv[i], a) == 0 || strcmp(argv[i], b) == 0)
            return true;
    }
    return false;
}

bool options_parse(const command_line *line, int argc, char **argv, void *settings, int *code)
{
    const char **argument = (const char **)((char *)settings + line->argument_offset);

    if (wants(line, argc, argv, "--help", "-h")) {
        *code = print_help(line);
        return false;
    }
    if (wants(line, argc, argv, "--version", "--version")) {
        output_printf("outrider %s\n", otr_version());
        *code = output_finish(EXIT_CODE_OK);
        return false;
    }
    *code = EXIT_CODE_OK;
    for (int i = 0; i < argc && *code == EXIT_CODE_OK; i++) {
        const char *typed = argv[i], *value = NULL;
        size_t length = strlen(typed);
        const option *o = find_option(line, typed, length);

        if (typed[0] != '-' || !typed[1]) {
            if (line->takes_arguments)
                *code = store_item((option_list *)argument, typed);
            else if (!line->takes_argument || *argument)
                *code = fail(EXIT_CODE_USAGE,
                             "unexpected argument '%s'; 'outrider %s --help' "
                             "shows the usage",
                             typed, line->name);
            else
                *argument = typed;
            continue;
        }
        if (!o && strncmp(typed, "--", 2) == 0 && strchr(typed, '=')) {
            length = strcspn(typed, "=");
            o = find_option(line, typed, length);
            value = typed + length + 1;
        }
        if (!o) {
            *code = fail_unknown(line, typed, length);
        } else if (!o->value && value) {
            *code = fail(EXIT_CODE_USAGE, "%.*s takes no value", (int)length, typed);
        } else if (o->value && !value && i + 1 == argc) {
            *code = fail(EXIT_CODE_USAGE, "%s needs a value: %s %s", typed, typed, o->value);
        } else {
            char name[MAX_COMPARED * 2];

            snprintf(name, sizeof(name), "%.*s", (int)length, typed);
            if (o->value && !value)
                value = argv[++i];
            *code = store(o, name, value, settings);
        }
    }
    return *code == EXIT_CODE_OK;
}

/* The option parser of all subcommands: one const table row per option.
 *
 * A subcommand declares a settings struct with its defaults, a table that says where each option
 * goes, and gets a filled struct, or has nothing left to do (--help, --version, a usage error that
 * was reported). Single-dash options may have several letters (-md), as llama.cpp's do; a value is
 * the next argument whatever it begins with (-n -1), or follows `=` after a long name. */
#ifndef OUTRIDER_APPS_OPTIONS_H
#define OUTRIDER_APPS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outrider/outrider.h>

enum option_kind {
    OPTION_SET,     /* bool, becomes true */
    OPTION_CLEAR,   /* bool, becomes false */
    OPTION_TEXT,    /* const char * */
    OPTION_LIST,    /* option_list: may be given several times */
    OPTION_INTEGER, /* int64_t, least..most */
    OPTION_NUMBER,  /* double, least..most, finite */
    OPTION_CONTEXT, /* int64_t: as OPTION_INTEGER, without 1, which holds no prompt and text */
    OPTION_CACHE,   /* otr_cache_type, by name */
    OPTION_CHOICE,  /* int64_t: place among the names of `value`, from 1; such as "on|off" */
};

typedef struct option_list {
    const char **items; /* malloc'ed; the strings are argv's */
    size_t n;
} option_list;

#define OPTION_MAX_NAMES 4

typedef struct option {
    const char *names[OPTION_MAX_NAMES]; /* with their dashes */
    enum option_kind kind;
    size_t offset;      /* of the value in the settings struct */
    const char *value;  /* placeholder in the help, such as "FILE"; NULL for flags */
    double least, most; /* of numbers, both allowed; exact for integers up to 2^53 */
    const char *help;   /* may hold newlines */
} option;

typedef struct command_line {
    const char *name;  /* of the subcommand */
    const char *usage; /* what follows the name in the usage line */
    const char *about; /* paragraphs before the options */
    const option *options;
    size_t n_options;
    const char *notes;   /* after the options; NULL: none */
    bool takes_argument; /* one argument that is no option, a const char * */
    size_t argument_offset;
    bool takes_arguments; /* any number of them, an option_list at argument_offset */
} command_line;

/* Rows of the options that say which tokens may be sampled; at: offset of a field of the settings, which
 * has int64_t top_k and double top_p, min_p. */
/* clang-format off */
#define OPTIONS_OF_KEPT_TOKENS(at) \
    {{"--top-k"}, OPTION_INTEGER, at(top_k), "N", -1, INT32_MAX, \
     "sample from the N likeliest; 0: off (default 40)"}, \
    {{"--top-p"}, OPTION_NUMBER, at(top_p), "P", 0, 1, \
     "the likeliest that add up to P; 1: off (default 0.95)"}, \
    {{"--min-p"}, OPTION_NUMBER, at(min_p), "P", 0, 1, \
     "those of P times the likeliest's probability or more;\n" \
     "0: off (default 0.05)"}
/* clang-format on */

/* True: go on. False: leave with *code. */
bool options_parse(const command_line *line, int argc, char **argv, void *settings, int *code);
/* The name that OPTION_CACHE takes. */
const char *cache_type_name(otr_cache_type type);
/* The one of n names that is spelt most like `typed`, or NULL when none is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif

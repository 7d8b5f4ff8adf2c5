/* The prompts of `outrider measure`: JSON lines, or plain text cut into pieces.
 *
 * The files are the user's own and untrusted: every line is checked, and a message names the file and
 * the line. */
#ifndef OUTRIDER_APPS_MEASURE_DATA_H
#define OUTRIDER_APPS_MEASURE_DATA_H

#include <stdint.h>

#include "options.h"

typedef struct measure_prompt {
    char *task;
    char *source; /* "FILE: line 3", or "FILE: byte 1200", for messages */
    char *text;
    size_t n_bytes;
    int64_t max_tokens; /* 0: the command's */
    double temperature; /* negative: the command's */
} measure_prompt;

typedef struct measure_data {
    measure_prompt *prompts; /* the tasks take turns, so that a budget meets all of them alike */
    size_t n_prompts;
    char **tasks; /* in the order of their first prompts */
    size_t n_tasks;
    char **files; /* what was read: each file of a folder by its path; /dev/stdin for "-" */
    size_t n_files;
} measure_data;

typedef struct measure_data_params {
    option_list files; /* --data: JSON lines, a text file or a folder of them */
    option_list tasks; /* --task: NAME=PATH of text */
    int64_t prompts;   /* of a task of plain text, at most */
    int64_t bytes;     /* of a prompt cut from plain text, at most */
} measure_data_params;

/* Returns an exit code; unless it is EXIT_CODE_OK a message was printed. measure_data_free in any
 * case. */
int measure_data_read(measure_data *data, const measure_data_params *params);
/* FNV-1a of tasks, prompts and what they ask for, in their order. */
uint64_t measure_data_hash(const measure_data *data);
void measure_data_free(measure_data *data);

#endif

/* `outrider compare`: results of measure or bench side by side. compare.c reads them and says which can
 * be compared, compare_table.c makes the rows. */
#ifndef OUTRIDER_APPS_COMPARE_H
#define OUTRIDER_APPS_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "text.h"

#define COMPARE_MAX 16

typedef struct compare_result {
    const char *path;
    json_t *root;
    char letter;
    text refused; /* why it isn't compared with the first; empty: it is */
} compare_result;

/* Appends to b->refused what makes comparing it with a meaningless. */
void compare_check(const compare_result *a, compare_result *b);

typedef struct compare_row {
    text label;
    bool is_heading; /* a task's name, no cells */
    text cells[COMPARE_MAX];
} compare_row;

typedef struct compare_table {
    compare_row *rows;
    size_t n_rows, capacity, n_columns;
    bool failed; /* out of memory */
} compare_table;

/* Rows of the results that aren't refused; the first never is. */
void compare_make_table(compare_table *table, const compare_result *results, size_t n);
void compare_free_table(compare_table *table);

#endif

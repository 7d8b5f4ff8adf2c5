/* `outrider bench`: what it measures (bench.c) and how that is shown, kept as JSON and compared
 * (bench_report.c). */
#ifndef OUTRIDER_APPS_BENCH_H
#define OUTRIDER_APPS_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* The value of "schema" in the JSON; another meaning gets another name. */
#define BENCH_SCHEMA "outrider-bench-1"

enum bench_test {
    BENCH_DECODE,    /* one row of the target, its logits and sampling */
    BENCH_VERIFY,    /* rows of the target, their logits and sampling */
    BENCH_PREFILL,   /* rows of the target, no logits */
    BENCH_DRAFT,     /* one row of the draft, its logits and sampling */
    BENCH_SPECULATE, /* a generation with blocks of K = rows drafted tokens; 0: without a draft */
};
const char *bench_test_name(enum bench_test test);

typedef struct bench_result {
    enum bench_test test;
    uint32_t rows;   /* of a pass; K of a generation */
    double *seconds; /* [n], sorted before it is reported */
    size_t n;
    uint64_t tokens; /* that a run of these seconds made: rows, or what was generated */
    /* Of a pass; 0 for a generation, where they are not counted. */
    uint64_t weight_bytes;
    uint32_t dispatches;
    double host_seconds; /* outside waits, the least */
    double acceptance;   /* of a generation with a draft; -1: none */
} bench_result;

typedef struct bench_report {
    const engine *e;
    const bench_result *results;
    size_t n_results;
    double copy_bytes_per_second;
    int64_t depth; /* tokens in the cache before each pass */
    otr_cache_type cache_type;
    otr_verify verify; /* of the generations */
} bench_report;

/* Prints a table, or one JSON object; false when writing or memory failed. */
bool bench_print(const bench_report *report);
/* NULL when memory runs out, or a model file can't be read again for its hash. */
json_t *bench_json(const bench_report *report);
/* Reads two files that --json made and prints their results side by side; an exit code. */
int bench_compare(const char *first, const char *second);

#endif

/* Stored tunings (tuning_file.h). */
#include "tuning_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_file.h"
#include "cache_head.h"
#include "kernel.h"

#define TUNING_MAGIC "OTRTUNE"
#define TUNING_VERSION 2
#define N_WORDS 13 /* of all settings */

typedef struct tuning_file {
    cache_head head;
    char device_class[16];
    int32_t tier;
    uint32_t n_words;
    uint32_t words[N_WORDS]; /* of each setting in turn */
    uint64_t checksum;       /* cache_seal */
} tuning_file;

/* Path of the device's file, to be freed; NULL when out of memory. */
static char *file_path(const gpu *g)
{
    char end[48];

    snprintf(end, sizeof end, "-%s-t%d.tuning", tuning_of_gpu(g)->device_class, (int)g->tier);
    return cache_file_path(g->context->cache_dir, g->info, end);
}

static tuning_file make_file(const gpu *g, const tuning *t)
{
    tuning_file file;
    tuning copy = *t;
    uint32_t n = 0;

    memset(&file, 0, sizeof file); /* padding too: it is in the checksum */
    file.head = cache_head_make(TUNING_MAGIC, TUNING_VERSION, g->info);
    snprintf(file.device_class, sizeof file.device_class, "%s", t->device_class);
    file.tier = g->tier;
    for (size_t i = 0; i < N_TUNING_SETTINGS; i++) {
        memcpy(file.words + n, tuning_words(&copy, &tuning_settings[i]),
               tuning_settings[i].n_words * sizeof(uint32_t));
        n += tuning_settings[i].n_words;
    }
    file.n_words = n;
    cache_seal(&file, sizeof file);
    return file;
}

/* Why the file can't be used, or NULL when *t has what is in it. */
static const char *read_tuning(const gpu *g, const uint8_t *bytes, size_t n_bytes, tuning *t)
{
    const tuning own = *tuning_of_gpu(g);
    const tuning_file expected = make_file(g, &own);
    const char *problem = cache_head_problem(bytes, n_bytes, &expected.head, sizeof expected);
    tuning_file file;
    uint32_t n = 0;

    if (problem)
        return problem;
    memcpy(&file, bytes, sizeof file);
    if (file.n_words != expected.n_words)
        return "it is of another version";
    if (file.tier != expected.tier ||
        memcmp(file.device_class, expected.device_class, sizeof file.device_class))
        return "it is of another device";
    *t = own;
    for (size_t i = 0; i < N_TUNING_SETTINGS; i++) {
        memcpy(tuning_words(t, &tuning_settings[i]), file.words + n,
               tuning_settings[i].n_words * sizeof(uint32_t));
        n += tuning_settings[i].n_words;
    }
    return tuning_allows(g, t) ? NULL : "its choices are not possible here";
}

/* Whether *t is a stored tuning; otherwise it is the class's. *path is the file's, to be freed, or NULL;
 * *problem says why a file is not used, or is NULL. */
static bool find_stored(const gpu *g, tuning *t, char **path, const char **problem)
{
    uint8_t *bytes = NULL;
    size_t n_bytes = 0;
    bool found;

    *t = *tuning_of_gpu(g);
    *problem = NULL;
    *path = g->context->cache_dir ? file_path(g) : NULL;
    if (*path)
        bytes = cache_file_read(*path, 1u << 16, &n_bytes, problem);
    if (bytes)
        *problem = read_tuning(g, bytes, n_bytes, t);
    if (*problem)
        *t = *tuning_of_gpu(g);
    found = bytes && !*problem;
    free(bytes);
    return found;
}

tuning tuning_file_load(gpu *g)
{
    tuning t;
    char *path;
    const char *problem;

    if (find_stored(g, &t, &path, &problem))
        context_log(g->context, OTR_LOG_DEBUG, "tuning %s", path);
    else if (problem)
        context_log(g->context, OTR_LOG_WARNING,
                    "the tuning in %s is ignored: %s; 'outrider tune' makes a new one, 'outrider "
                    "tune --reset' removes it",
                    path, problem);
    free(path);
    return t;
}

otr_result otr_device_tuning(otr_context *context, uint32_t index, otr_tuning_info *info)
{
    otr_tuning_info own = {0};
    otr_result result;
    tuning t;
    char *path;
    const char *problem;
    size_t size;
    gpu g;

    if (!context)
        return OTR_ERROR_INVALID_ARGUMENT;
    if (!info || info->size < sizeof info->size)
        return context_fail(context, OTR_ERROR_INVALID_ARGUMENT,
                            "otr_device_tuning: info->size is not set");
    result = gpu_check_usable(context, index);
    if (result != OTR_OK)
        return result;
    gpu_describe(context, index, context->devices[index].tier, &g);
    own.is_tuned = find_stored(&g, &t, &path, &problem);
    snprintf(own.device_class, sizeof own.device_class, "%s", t.device_class);
    snprintf(own.problem, sizeof own.problem, "%s", problem ? problem : "");
    free(path);
    size = info->size < sizeof own ? info->size : sizeof own;
    own.size = size;
    memcpy(info, &own, size);
    return OTR_OK;
}

/* The path where a file is wanted: without one the call fails. */
static otr_result need_path(gpu *g, char **path)
{
    if (!g->context->cache_dir)
        return context_fail(g->context, OTR_ERROR_IO,
                            "there is no folder for the tuning: OUTRIDER_CACHE_DIR names one");
    *path = file_path(g);
    return *path ? OTR_OK
                 : context_fail(g->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for a path");
}

otr_result tuning_file_store(gpu *g, const tuning *t, bool try)
{
    const tuning_file file = make_file(g, t);
    char *path = NULL;
    otr_result result = need_path(g, &path);

    if (result != OTR_OK)
        return result;
    if (!(try ? cache_file_try : cache_file_replace)(path, &file, sizeof file, NULL, 0))
        result = context_fail(g->context, OTR_ERROR_IO,
                              "the tuning can't be written (%s: %s). %sOUTRIDER_CACHE_DIR names "
                              "another folder",
                              path, strerror(errno),
                              cache_disk_is_full(errno) ? "Free some space; " : "");
    free(path);
    return result;
}

otr_result tuning_file_remove(gpu *g, bool *existed)
{
    char *path = NULL;
    otr_result result = need_path(g, &path);

    *existed = false;
    if (result != OTR_OK)
        return result;
    *existed = unlink(path) == 0;
    if (!*existed && errno != ENOENT && errno != ENOTDIR)
        result = context_fail(g->context, OTR_ERROR_IO, "%s can't be removed: %s", path,
                              strerror(errno));
    free(path);
    return result;
}

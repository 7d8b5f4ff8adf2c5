/* Limits of a device's tier, on disk (tier_limit.h). */
#include "tier_limit.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_file.h"
#include "cache_head.h"
#include "device.h"

#define LIMIT_MAGIC "OTRTIER"
#define LIMIT_VERSION 1
#define LIMIT_END ".selftest"

typedef struct limit_file {
    cache_head head;
    tier_limit limit;
    uint64_t checksum; /* cache_seal */
} limit_file;

static limit_file make_file(const otr_device_info *info, const tier_limit *limit)
{
    limit_file file;

    memset(&file, 0, sizeof file); /* padding too: it is in the checksum */
    file.head = cache_head_make(LIMIT_MAGIC, LIMIT_VERSION, info);
    file.limit = *limit;
    cache_seal(&file, sizeof file);
    return file;
}

/* Why the file can't be used, or NULL when *limit has what is in it. */
static const char *read_limit(const otr_device_info *info, const uint8_t *bytes, size_t n_bytes,
                              tier_limit *limit)
{
    const cache_head expected = cache_head_make(LIMIT_MAGIC, LIMIT_VERSION, info);
    const char *problem = cache_head_problem(bytes, n_bytes, &expected, sizeof(limit_file));
    limit_file file;

    if (problem)
        return problem;
    memcpy(&file, bytes, sizeof file);
    if (file.limit.tier < -1 || file.limit.tier >= file.limit.failed_tier ||
        !file.limit.kernel[0] || !memchr(file.limit.kernel, '\0', sizeof file.limit.kernel))
        return "what it says is not possible";
    *limit = file.limit;
    return NULL;
}

tier_limit tier_limit_load(otr_context *context, const otr_device_info *info)
{
    tier_limit limit = {0};
    char *path = context->cache_dir ? cache_file_path(context->cache_dir, info, LIMIT_END) : NULL;
    const char *problem = NULL;
    size_t n_bytes = 0;
    uint8_t *bytes = path ? cache_file_read(path, 1u << 12, &n_bytes, &problem) : NULL;

    if (bytes)
        problem = read_limit(info, bytes, n_bytes, &limit);
    if (problem)
        context_log(context, OTR_LOG_WARNING,
                    "what a failed self-test left in %s is ignored: %s; 'outrider selftest' tests "
                    "anew",
                    path, problem);
    free(bytes);
    free(path);
    return limit;
}

bool tier_limit_store(otr_context *context, const otr_device_info *info, const tier_limit *limit)
{
    const limit_file file = make_file(info, limit);
    char *path = context->cache_dir ? cache_file_path(context->cache_dir, info, LIMIT_END) : NULL;
    bool ok = path && cache_file_replace(path, &file, sizeof file, NULL, 0);

    if (!context->cache_dir)
        context_log(context, OTR_LOG_WARNING,
                    "the self-test's result can't be kept: there is no folder for it, "
                    "OUTRIDER_CACHE_DIR names one");
    else if (!ok)
        context_log(context, OTR_LOG_WARNING, "the self-test's result can't be kept (%s: %s)",
                    path ? path : "its path", path ? strerror(errno) : "out of memory");
    free(path);
    return ok;
}

void tier_limit_remove(otr_context *context, const otr_device_info *info)
{
    char *path = context->cache_dir ? cache_file_path(context->cache_dir, info, LIMIT_END) : NULL;

    if (path && unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
        context_log(context, OTR_LOG_WARNING, "%s can't be removed: %s", path, strerror(errno));
    free(path);
}

/* ------------------------------------------------------------------------- on listed devices */

static void add_note(otr_device_info *info, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_note(otr_device_info *info, const char *format, ...)
{
    size_t n = strlen(info->note);
    va_list arguments;

    if (n)
        n += (size_t)snprintf(info->note + n, sizeof info->note - n, "; ");
    if (n >= sizeof info->note)
        return;
    va_start(arguments, format);
    vsnprintf(info->note + n, sizeof info->note - n, format, arguments);
    va_end(arguments);
}

void tier_limit_apply(otr_context *context, uint32_t index)
{
    otr_device_info *info = &context->devices[index];
    device_facts *facts = &context->facts[index];
    const tier_limit *limit = &facts->limit;

    facts->limit = tier_limit_load(context, info);
    if (!limit->kernel[0])
        return;
    while (info->tier > (limit->tier < 0 ? 0 : limit->tier))
        info->tier = device_lower_tier(context, facts, info->tier);
    if (limit->tier < 0)
        add_note(info,
                 "its results can't be trusted: a self-test failed at every tier, at tier %d "
                 "first in '%s'; 'outrider selftest' tests anew",
                 (int)limit->failed_tier, limit->kernel);
    else if (info->tier < facts->full_tier)
        add_note(info,
                 "used at tier %d, not %d: '%s' failed in a self-test at tier %d; 'outrider "
                 "selftest' tests anew",
                 (int)info->tier, (int)facts->full_tier, limit->kernel, (int)limit->failed_tier);
}

bool tier_limit_applies(const otr_context *context, uint32_t index)
{
    const device_facts *facts = &context->facts[index];

    return facts->limit.kernel[0] &&
           (facts->limit.tier < 0 || context->devices[index].tier < facts->full_tier);
}

/* Stored overlaps (overlap_file.h). Called by overlap.c. */
#include "overlap_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cache_file.h"
#include "kernel.h"

#define OVERLAP_MAGIC "OTROVLP"
#define OVERLAP_VERSION 1
#define MOST_SECONDS (24 * 60 * 60)

/* What the time of a model's pass depends on. */
typedef struct model_key {
    uint8_t uuid[16]; /* of the device */
    uint64_t driver;  /* hash of its name */
    uint32_t driver_version;
    int32_t tier;
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, n_vocab;
    uint64_t weight_bytes;
} model_key;

/* In the byte order of this machine, as the pipeline cache. */
typedef struct overlap_file {
    char magic[8];
    uint64_t version;
    uint64_t shaders; /* shaders_hash */
    model_key target, draft;
    uint32_t lanes_are_apart, is_joined, cache_type;
    uint32_t debug;  /* what makes everything slower, or other kernels */
    uint64_t tuning; /* hash of both lanes' settings */
    uint64_t n_rounds;
    double seconds[OVERLAP_MAX_ROUNDS][OVERLAP_CASES];
    uint64_t checksum; /* cache_seal */
} overlap_file;

static model_key key_of(const otr_model *m)
{
    model_key key;

    memset(&key, 0, sizeof key); /* padding too: it is compared */
    memcpy(key.uuid, m->gpu->info->uuid, sizeof key.uuid);
    key.driver = cache_hash(CACHE_HASH_START, m->gpu->info->driver_name,
                            strlen(m->gpu->info->driver_name));
    key.driver_version = m->gpu->info->driver_version;
    key.tier = m->gpu->tier;
    key.n_layers = m->h.n_layers;
    key.n_embd = m->h.n_embd;
    key.n_ff = m->h.n_ff;
    key.n_heads = m->h.n_heads;
    key.n_kv_heads = m->h.n_kv_heads;
    key.n_vocab = m->h.n_vocab;
    key.weight_bytes = m->weight_bytes;
    return key;
}

static uint64_t hash_tuning(uint64_t hash, const tuning *t)
{
    tuning copy = *t;

    for (size_t i = 0; i < N_TUNING_SETTINGS; i++)
        hash = cache_hash(hash, tuning_words(&copy, &tuning_settings[i]),
                          tuning_settings[i].n_words * sizeof(uint32_t));
    return cache_hash(hash, t->device_class, strlen(t->device_class));
}

/* All but what was measured. */
static overlap_file make_file(const otr_session *s)
{
    overlap_file file;

    memset(&file, 0, sizeof file);
    memcpy(file.magic, OVERLAP_MAGIC, sizeof file.magic);
    file.version = OVERLAP_VERSION;
    file.shaders = shaders_hash;
    file.target = key_of(s->target_model);
    file.draft = key_of(s->draft_model);
    file.lanes_are_apart = session_lanes_are_apart(s);
    file.is_joined = s->joined;
    file.cache_type = (uint32_t)s->target->cache_type;
    file.debug = (uint32_t)s->context->validation | (uint32_t)s->context->statistics << 1 |
                 (uint32_t)s->context->as_gpu << 2 | (uint32_t)s->context->dot8 << 3;
    file.tuning = hash_tuning(hash_tuning(CACHE_HASH_START, &s->target->tuning), &s->draft->tuning);
    return file;
}

/* To be freed; NULL when out of memory. */
static char *file_path(const otr_session *s, const overlap_file *file)
{
    char end[32];

    snprintf(
        end, sizeof end, "-%016llx.overlap",
        (unsigned long long)cache_hash(CACHE_HASH_START, file, offsetof(overlap_file, n_rounds)));
    return cache_file_path(s->context->cache_dir, s->gpu->info, end);
}

static bool is_recent(const char *path)
{
    struct stat about;
    time_t now = time(NULL);

    return stat(path, &about) == 0 && about.st_mtime <= now && now - about.st_mtime < MOST_SECONDS;
}

/* Nothing that a measurement could not have given. */
static bool is_plausible(const overlap_file *file)
{
    if (file->n_rounds < 1 || file->n_rounds > OVERLAP_MAX_ROUNDS)
        return false;
    for (uint64_t i = 0; i < file->n_rounds; i++)
        for (int which = 0; which < OVERLAP_CASES; which++)
            if (!(file->seconds[i][which] > 0 && isfinite(file->seconds[i][which])))
                return false;
    return true;
}

bool overlap_file_load(const otr_session *s, overlap_rounds *out)
{
    const overlap_file expected = make_file(s);
    overlap_file file;
    char *path = s->context->cache_dir ? file_path(s, &expected) : NULL;
    const char *problem = NULL;
    size_t n_bytes = 0;
    uint8_t *bytes = path && is_recent(path)
                         ? cache_file_read(path, sizeof file, &n_bytes, &problem)
                         : NULL;
    bool found = bytes && n_bytes == sizeof file;

    if (found)
        memcpy(&file, bytes, sizeof file);
    found = found && memcmp(&file, &expected, offsetof(overlap_file, n_rounds)) == 0 &&
            cache_is_sealed(&file, sizeof file) && is_plausible(&file);
    if (found) {
        out->n = (uint32_t)file.n_rounds;
        memcpy(out->seconds, file.seconds, sizeof out->seconds);
    }
    free(bytes);
    free(path);
    return found;
}

void overlap_file_store(const otr_session *s, const overlap_rounds *rounds)
{
    overlap_file file = make_file(s);
    char *path = s->context->cache_dir ? file_path(s, &file) : NULL;

    file.n_rounds = rounds->n;
    memcpy(file.seconds, rounds->seconds, rounds->n * sizeof rounds->seconds[0]);
    cache_seal(&file, sizeof file);
    if (path && !cache_file_replace(path, &file, sizeof file, NULL, 0))
        /* It costs the next session some milliseconds, no more. */
        context_log(s->context, OTR_LOG_INFO, "the measured overlap can't be kept (%s: %s)", path,
                    strerror(errno));
    free(path);
}

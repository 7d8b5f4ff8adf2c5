/* Files in the cache folder: read whole, replaced whole or not at all. What is in them is checked
 * by those who use them: pipeline_cache.c, overlap_file.c, and with cache_head.h tuning_file.c and
 * tier_limit.c. */
#ifndef OUTRIDER_CACHE_FILE_H
#define OUTRIDER_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outrider/outrider.h"

/* FNV-1a: finds accidents, not attacks; who can write the folder can do worse. */
#define CACHE_HASH_START 0xcbf29ce484222325u
uint64_t cache_hash(uint64_t hash, const void *data, size_t n_bytes);
/* The checksum in the last eight bytes of a file: of all before it, padding too. */
void cache_seal(void *file, size_t n_bytes);
bool cache_is_sealed(const void *file, size_t n_bytes);

/* Path of a file of the device under its driver, to be freed; NULL when out of memory. Versions and
 * build are in the file, not in its name, so that an old one is noticed. */
char *cache_file_path(const char *folder, const otr_device_info *info, const char *end);

/* The file's bytes, to be freed, or NULL with the reason in *problem (NULL there: no such file). */
uint8_t *cache_file_read(const char *path, size_t most_bytes, size_t *n_bytes,
                         const char **problem);
/* Puts a file of two parts in place through a temporary file and rename, whole or not at all; makes
 * missing folders. False with errno set. The path is as it was afterwards. */
bool cache_file_replace(char *path, const void *head, size_t head_bytes, const void *data,
                        size_t n_bytes);
/* Whether cache_file_replace could write such a file now: the same without the last step. */
bool cache_file_try(char *path, const void *head, size_t head_bytes, const void *data,
                    size_t n_bytes);
/* Of an errno. */
bool cache_disk_is_full(int error);

#endif

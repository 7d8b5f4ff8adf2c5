/* Files in the cache folder (cache_file.h). */
#include "cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t cache_hash(uint64_t hash, const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t checksum_of(const void *file, size_t n_bytes)
{
    return cache_hash(CACHE_HASH_START, file, n_bytes - sizeof(uint64_t));
}

void cache_seal(void *file, size_t n_bytes)
{
    uint64_t checksum = checksum_of(file, n_bytes);
    memcpy((uint8_t *)file + n_bytes - sizeof checksum, &checksum, sizeof checksum);
}

bool cache_is_sealed(const void *file, size_t n_bytes)
{
    uint64_t checksum = checksum_of(file, n_bytes);
    return !memcmp((const uint8_t *)file + n_bytes - sizeof checksum, &checksum, sizeof checksum);
}

char *cache_file_path(const char *folder, const otr_device_info *info, const char *end)
{
    char uuid[2 * sizeof info->uuid + 1], *path;
    uint64_t driver = cache_hash(CACHE_HASH_START, info->driver_name, strlen(info->driver_name));

    for (size_t i = 0; i < sizeof info->uuid; i++)
        snprintf(uuid + 2 * i, 3, "%02x", info->uuid[i]);
    if (asprintf(&path, "%s/%x-%x-%s-%08x%s", folder, info->vendor_id, info->device_id, uuid,
                 (uint32_t)driver, end) < 0)
        return NULL;
    return path;
}

uint8_t *cache_file_read(const char *path, size_t most_bytes, size_t *n_bytes, const char **problem)
{
    uint8_t *bytes = NULL;
    size_t done = 0;
    struct stat status;
    /* Not blocking, should somebody have put a pipe there. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    *problem = NULL;
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            *problem = strerror(errno);
        goto end;
    }
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) ||
        (uint64_t)status.st_size > most_bytes) {
        *problem = "it is no regular file, or too large";
        goto end;
    }
    bytes = malloc((size_t)status.st_size + 1);
    if (!bytes) {
        *problem = "out of memory";
        goto end;
    }
    while (done < (size_t)status.st_size) {
        ssize_t n = read(fd, bytes + done, (size_t)status.st_size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            *problem = strerror(errno);
            free(bytes);
            bytes = NULL;
        }
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    *n_bytes = done;
end:
    if (fd >= 0)
        close(fd);
    return bytes;
}

/* mkdir -p of the path's folder; private, as the base directory specification has it. */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        bool ok;
        *slash = '\0';
        ok = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!ok)
            return false;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;

    while (n_bytes > 0) {
        ssize_t n = write(fd, bytes, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

/* Writes the temporary file; then it takes the path's place, or not even that. */
static bool write_file(char *path, const void *head, size_t head_bytes, const void *data,
                       size_t n_bytes, bool keep)
{
    char *temporary = NULL;
    bool ok = false;
    int fd = -1, error;

    if (!make_folders(path))
        return false;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        errno = ENOMEM;
        return false;
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        goto end;
    ok = write_all(fd, head, head_bytes) && write_all(fd, data, n_bytes) && fsync(fd) == 0;
    error = errno;
    /* Some file systems tell of a full disk only here. */
    if (close(fd) < 0 && ok) {
        ok = false;
        error = errno;
    }
    errno = error;
    if (keep)
        ok = ok && rename(temporary, path) == 0;
    if (!ok || !keep) {
        error = errno;
        unlink(temporary);
        errno = error;
    }
end:
    error = errno;
    free(temporary);
    errno = error;
    return ok;
}

bool cache_file_replace(char *path, const void *head, size_t head_bytes, const void *data,
                        size_t n_bytes)
{
    return write_file(path, head, head_bytes, data, n_bytes, true);
}

bool cache_file_try(char *path, const void *head, size_t head_bytes, const void *data,
                    size_t n_bytes)
{
    return write_file(path, head, head_bytes, data, n_bytes, false);
}

bool cache_disk_is_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* Inside of the container reader: one file on disk (a shard; most models have just one), its keys
 * and its tensor table. Not for use outside gguf/.
 *
 * Reading order: shard_open checks the file and its header, keys_parse and tensors_parse walk the
 * metadata with a cursor, then the names are indexed and the tensors placed in the data.
 *
 * Ownership: a shard owns its descriptor, path, metadata bytes, keys, tensors and mapping;
 * shard_close releases whatever of them exists, also after a shard_open that failed. */
#ifndef OUTRIDER_GGUF_SHARD_H
#define OUTRIDER_GGUF_SHARD_H

#include "gguf.h"
#include "name_index.h"

/* What a file may ask for. Real files stay far below; a hostile one is stopped before it costs. */
#define GGUF_MAX_METADATA_BYTES (UINT64_C(512) << 20) /* so that offsets in it fit 32 bits */
#define GGUF_MAX_STRING_BYTES (UINT64_C(16) << 20)
#define GGUF_MAX_ARRAY_ELEMENTS (UINT64_C(16) << 20)
#define GGUF_MAX_KEY_BYTES 65535
#define GGUF_MAX_TENSOR_NAME_BYTES 63
#define GGUF_MAX_KEYS (UINT64_C(1) << 20)
#define GGUF_MAX_TENSORS (UINT64_C(1) << 20)
#define GGUF_MAX_SHARDS 1024
#define GGUF_MIN_ALIGNMENT 8
#define GGUF_MAX_ALIGNMENT 65536
#define GGUF_DEFAULT_ALIGNMENT 32

struct key {
    gguf_key key; /* first: a const gguf_key * that the user holds is a const struct key * */
    uint32_t name_at, value_at; /* offsets in the metadata */
    uint32_t *strings;          /* of a string array: offset of each element's length field */
};

struct shard {
    char *path;
    int fd; /* -1: not open */
    uint64_t size_bytes;
    const uint8_t *mapping; /* whole file, or NULL when the system would not map it */
    uint8_t *metadata;      /* the file's bytes from 0 on, as far as they have been read */
    uint64_t metadata_bytes, metadata_capacity;
    uint32_t version;
    uint64_t alignment, data_start;
    uint64_t n_keys, n_tensors;
    struct key *keys;
    struct name_index key_names;
    gguf_tensor *tensors;
    uint32_t *tensor_names_at; /* offsets in the metadata; tensors_bind makes them addresses */
};

/* Opens and checks one file. On failure the shard still needs shard_close. */
bool shard_open(struct shard *shard, const char *path, gguf_error *error);
void shard_close(struct shard *shard);
/* A shard that shard_close may be called on. */
void shard_init(struct shard *shard);
/* Reads exactly n_bytes at `offset` of the file; too few is an error (is_io). */
bool shard_read(const struct shard *shard, uint64_t offset, void *dst, uint64_t n_bytes,
                gguf_error *error);
/* Fails with "PATH: " before the message. The path is shortened to its end when it is long. */
bool shard_fail(const struct shard *shard, gguf_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define SHARD_PATH_TEXT 160
const char *shard_path_text(const char *path, char buffer[SHARD_PATH_TEXT]);

/* NULL when absent. */
const struct key *shard_find_key(const struct shard *shard, const char *name);
bool key_u64(const struct shard *shard, const struct key *key, uint64_t i, uint64_t *out);

/* The shard that has the metadata of the whole model. */
const struct shard *gguf_first_shard(const gguf_file *file);

/* -- metadata walk */

struct cursor;
bool keys_parse(struct cursor *cursor, uint64_t n_keys);
/* After the last byte has been read: names get their addresses, and are indexed. */
bool keys_bind(struct shard *shard, gguf_error *error);
void keys_free(struct shard *shard);

bool tensors_parse(struct cursor *cursor, uint64_t n_tensors);
void tensors_bind(struct shard *shard);
/* Checks alignment, bounds and overlaps, and makes offsets absolute. Needs data_start. */
bool tensors_place(struct shard *shard, gguf_error *error);

/* -- split files */

/* True when `path` ends in "-%05u-of-%05u.gguf" for that part (from 0) of count. *prefix is the
 * length of what comes before. */
bool split_name_matches(const char *path, uint64_t part, uint64_t count, size_t *prefix);
/* The path of a part, to be freed; NULL when out of memory. */
char *split_name(const char *path, size_t prefix, uint64_t part, uint64_t count);
/* Part number and count as the keys of a shard state them; *count is 0 when it is not split. */
bool split_keys(const struct shard *shard, uint64_t *part, uint64_t *count, gguf_error *error);
/* split.tensors.count of a shard, where it is there, must be the number of tensors found. */
bool split_check_total(const struct shard *shard, uint64_t n_tensors, gguf_error *error);

#endif

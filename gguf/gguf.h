/* GGUF container reader: metadata, tensor table, split files.
 *
 * Used by runtime/ (model loading) and by `outrider inspect`. Knows nothing of Vulkan. The file is
 * untrusted: every count, offset and size is checked before it is used, and an error names the key,
 * tensor or offset at fault. tests/gguf/test_hostile.c has a case for each attack.
 *
 * Ownership: everything that a getter returns belongs to the gguf_file and lives until gguf_close.
 * Threads: a gguf_file is immutable after gguf_open; any number of threads may read it.
 */
#ifndef OUTRIDER_GGUF_GGUF_H
#define OUTRIDER_GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

/* One line, no newline, says what is wrong and where. Filled by the function that returns false. */
typedef struct gguf_error {
    char text[512];
    bool is_io;            /* the file could not be opened or read, errno text is in `text` */
    bool is_unsupported;   /* valid file, but something in it that this reader refuses by name */
    bool is_out_of_memory; /* an allocation failed */
} gguf_error;

/* Writes a formatted message, truncating it. Always returns false, so `return gguf_fail(...)`. */
bool gguf_fail(gguf_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a refusal (is_unsupported) and for a failed allocation of `what`. */
bool gguf_refuse(gguf_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool gguf_no_memory(gguf_error *error, const char *what);
/* Copies untrusted text (a key's or a tensor's name, a token) into a message: printable UTF-8
 * stays; control characters, direction marks, quotes, backslashes and broken bytes become \xHH.
 * Always NUL-terminated; text that does not fit ends in "...". Returns buffer. size must be at
 * least 8. */
const char *gguf_quote(char *buffer, size_t size, const char *text, size_t length);

enum gguf_type {
    GGUF_TYPE_U8 = 0,
    GGUF_TYPE_I8 = 1,
    GGUF_TYPE_U16 = 2,
    GGUF_TYPE_I16 = 3,
    GGUF_TYPE_U32 = 4,
    GGUF_TYPE_I32 = 5,
    GGUF_TYPE_F32 = 6,
    GGUF_TYPE_BOOL = 7,
    GGUF_TYPE_STRING = 8,
    GGUF_TYPE_ARRAY = 9,
    GGUF_TYPE_U64 = 10,
    GGUF_TYPE_I64 = 11,
    GGUF_TYPE_F64 = 12,
};
const char *gguf_type_name(enum gguf_type type);

typedef struct gguf_string {
    const char *data; /* not NUL-terminated; may hold any bytes */
    size_t length;
} gguf_string;

typedef struct gguf_key {
    gguf_string name;
    enum gguf_type type;         /* GGUF_TYPE_ARRAY for arrays */
    enum gguf_type element_type; /* of an array; equal to type otherwise */
    uint64_t count;              /* elements of an array; 1 otherwise */
} gguf_key;

typedef struct gguf_tensor {
    const char *name; /* NUL-terminated */
    enum tensor_format format;
    uint32_t n_dims;     /* 1..4 */
    uint64_t dims[4];    /* dims[0] is contiguous (the row length); unused ones are 1 */
    uint64_t n_elements; /* product of dims */
    uint64_t size_bytes; /* of the tensor's data in its file */
    uint64_t offset;     /* absolute, in the file of its shard */
    uint32_t shard;      /* 0 for files that are not split */
} gguf_tensor;

typedef struct gguf_file gguf_file;

/* Opens and checks a file. For `name-00001-of-000NN.gguf` all NN shards are opened (any shard's
 * path may be given). On failure *out is NULL and `error` says why. */
bool gguf_open(const char *path, gguf_file **out, gguf_error *error);
/* Frees the file and sets *file to NULL. NULL and pointers to NULL are allowed. */
void gguf_close(gguf_file **file);

const char *gguf_path(const gguf_file *file);
uint32_t gguf_version(const gguf_file *file);
uint64_t gguf_alignment(const gguf_file *file);
uint32_t gguf_n_shards(const gguf_file *file);
uint64_t gguf_size_bytes(const gguf_file *file); /* all shards together */

/* Keys in file order (of the first shard), and by name (NULL when absent). */
uint64_t gguf_n_keys(const gguf_file *file);
const gguf_key *gguf_key_at(const gguf_file *file, uint64_t index);
const gguf_key *gguf_find(const gguf_file *file, const char *name);

/* Element `i` of a key (0 for scalars). Integer getters take any integer type (and bool as 0/1) and
 * fail on a value out of range; float getters take F32, F64 and integers; strings only strings.
 * On failure false, *out untouched. */
bool gguf_element_u64(const gguf_file *file, const gguf_key *key, uint64_t i, uint64_t *out);
bool gguf_element_i64(const gguf_file *file, const gguf_key *key, uint64_t i, int64_t *out);
bool gguf_element_f64(const gguf_file *file, const gguf_key *key, uint64_t i, double *out);
bool gguf_element_bool(const gguf_file *file, const gguf_key *key, uint64_t i, bool *out);
bool gguf_element_string(const gguf_file *file, const gguf_key *key, uint64_t i, gguf_string *out);

/* Scalar by name. Absent: *out = fallback, true. Present with a type or value that does not fit:
 * false and an error that names the key. */
bool gguf_get_u32(const gguf_file *file, const char *name, uint32_t fallback, uint32_t *out,
                  gguf_error *error);
bool gguf_get_f32(const gguf_file *file, const char *name, float fallback, float *out,
                  gguf_error *error);
bool gguf_get_bool(const gguf_file *file, const char *name, bool fallback, bool *out,
                   gguf_error *error);
bool gguf_get_string(const gguf_file *file, const char *name, gguf_string *out, bool *present,
                     gguf_error *error);

/* Tensors in file order (shard by shard), and by name (NULL when absent). */
uint64_t gguf_n_tensors(const gguf_file *file);
const gguf_tensor *gguf_tensor_at(const gguf_file *file, uint64_t index);
const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name);

/* Copies n_bytes of the tensor's data, from byte `offset` in it, to dst. Reads through the file
 * descriptor, so that a file cut short while in use is an error and not SIGBUS. */
bool gguf_tensor_read(const gguf_file *file, const gguf_tensor *tensor, uint64_t offset, void *dst,
                      uint64_t n_bytes, gguf_error *error);
/* The memory-mapped data of a tensor, for readers that accept SIGBUS when the file is cut short.
 * NULL when the system would not map the file; gguf_tensor_read works then, too. */
const uint8_t *gguf_tensor_data(const gguf_file *file, const gguf_tensor *tensor);

#endif

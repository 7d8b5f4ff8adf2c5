/* Builds GGUF files byte by byte, right and wrong ones, and puts them in a scratch folder.
 *
 * Used by the tests of the container reader. Nothing here checks anything: a test that wants a
 * wrong count writes a wrong count. Allocation failures abort. */
#ifndef OUTRIDER_TESTS_BUILD_GGUF_H
#define OUTRIDER_TESTS_BUILD_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "gguf.h"

struct builder {
    uint8_t *bytes;
    size_t n, capacity;
};

void put_bytes(struct builder *b, const void *bytes, size_t n);
void put_u8(struct builder *b, uint8_t value);
void put_u16(struct builder *b, uint16_t value);
void put_u32(struct builder *b, uint32_t value);
void put_u64(struct builder *b, uint64_t value);
void put_f32(struct builder *b, float value);
void put_f64(struct builder *b, double value);
void put_string(struct builder *b, const char *text);
/* Magic, version and counts; whatever was in the builder is dropped. */
void begin_file(struct builder *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys);
/* Name and type of a key; the value is put next. */
void put_key(struct builder *b, const char *name, uint32_t type);
void put_key_u32(struct builder *b, const char *name, uint32_t value);
void put_key_string(struct builder *b, const char *name, const char *value);
/* Type, element type and count of an array; the elements are put next. */
void put_key_array(struct builder *b, const char *name, uint32_t element_type, uint64_t count);
/* A whole entry of the tensor table; dims ends at the first 0. */
void put_tensor(struct builder *b, const char *name, const uint64_t dims[4], uint32_t format,
                uint64_t offset);
/* Zeros up to a multiple of alignment. */
void put_padding(struct builder *b, size_t alignment);
/* n bytes of data, each the low byte of `first` + its number. */
void put_data(struct builder *b, uint8_t first, size_t n);
void free_builder(struct builder *b);

/* A valid file of every value type, arrays of them, strings with odd bytes, an alignment of 64, and
 * tensors of four formats. */
void build_everything(struct builder *b, uint32_t version);
#define EVERYTHING_N_KEYS 28
#define EVERYTHING_N_TENSORS 4

/* The scratch folder, for the files of one test program. */
void scratch_create(void);
void scratch_remove(void);
/* Path of a name in it; the buffer is overwritten by the eighth call after. */
const char *scratch_path(const char *name);
/* Writes the file and gives its path. */
const char *scratch_write(const struct builder *b, const char *name);

/* Opens the file and, where that succeeds, uses every function of gguf.h on everything in it;
 * aborts on a contradiction. True when it was opened. */
bool use_everything(const char *path, gguf_error *error);

#endif

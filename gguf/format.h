/* Tensor formats: ids, block layouts and the reference dequantiser in double precision.
 *
 * One const table row per format. The dequantiser is the specification that the GPU kernels and the
 * repacking code are tested against; it is not meant to be fast. */
#ifndef OUTRIDER_GGUF_FORMAT_H
#define OUTRIDER_GGUF_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids as stored in GGUF files. Only formats listed here can be read. */
enum tensor_format {
    FORMAT_F32 = 0,
    FORMAT_F16 = 1,
    FORMAT_Q4_0 = 2,
    FORMAT_Q4_1 = 3,
    FORMAT_Q5_0 = 6,
    FORMAT_Q5_1 = 7,
    FORMAT_Q8_0 = 8,
    FORMAT_Q2_K = 10,
    FORMAT_Q3_K = 11,
    FORMAT_Q4_K = 12,
    FORMAT_Q5_K = 13,
    FORMAT_Q6_K = 14,
    FORMAT_IQ4_NL = 20,
    FORMAT_IQ4_XS = 23,
    FORMAT_BF16 = 30,
    FORMAT_MXFP4 = 39,
};

typedef struct format_info {
    enum tensor_format id;
    const char *name;     /* "Q4_K" */
    uint32_t block_size;  /* weights in a block; a row is a multiple of it */
    uint32_t block_bytes; /* bytes of a block */
    /* Writes block_size values. NULL never. */
    void (*dequantize)(const uint8_t *block, double *out);
} format_info;

/* NULL when the id can't be read. */
const format_info *format_find(uint32_t id);
/* Name of any id that ggml has or had, for messages ("TQ1_0"); "unknown" otherwise. */
const char *format_name(uint32_t id);
/* Dequantises n weights (a multiple of the block size). */
void format_dequantize(const format_info *format, const uint8_t *data, uint64_t n, double *out);
/* No weight is larger in size: found from scales alone, so it may be some times too large. */
double format_largest(const format_info *format, const uint8_t *data, uint64_t n);

/* IEEE half and bfloat16 to float, exact, subnormals included; and float to half, nearest even. */
float half_to_float(uint16_t bits);
float bfloat16_to_float(uint16_t bits);
uint16_t half_from_float(float value);

#endif

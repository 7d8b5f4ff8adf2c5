/* Tensor formats: sizes, 16-bit floats, and each dequantiser against blocks that an encoder here
 * packs bit by bit from chosen quants and scales, and against checksums of another implementation.
 *
 * Usage: test_format DATA_FOLDER (tests/data of the source tree) */
#include <check.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encode_block.h"
#include "format.h"
#include "gguf.h"

static const char *data_folder;

/* ------------------------------------------------------------------------------------- table */

START_TEST(test_sizes)
{
    static const struct {
        uint32_t id;
        const char *name;
        uint32_t block_size, block_bytes;
    } expected[] = {
        {0, "F32", 1, 4},       {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
        {3, "Q4_1", 32, 20},    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
        {8, "Q8_0", 32, 34},    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},
        {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176},   {14, "Q6_K", 256, 210},
        {20, "IQ4_NL", 32, 18}, {23, "IQ4_XS", 256, 136}, {30, "BF16", 1, 2},
        {39, "MXFP4", 32, 17},
    };
    const size_t n = sizeof(expected) / sizeof(expected[0]);
    size_t n_found = 0;
    for (uint32_t id = 0; id < 256; id++)
        n_found += format_find(id) != NULL;
    ck_assert_uint_eq(n_found, n);
    for (size_t i = 0; i < n; i++) {
        const format_info *format = format_find(expected[i].id);
        ck_assert_ptr_nonnull(format);
        ck_assert_uint_eq(format->id, expected[i].id);
        ck_assert_str_eq(format->name, expected[i].name);
        ck_assert_str_eq(format_name(expected[i].id), expected[i].name);
        ck_assert_uint_eq(format->block_size, expected[i].block_size);
        ck_assert_uint_eq(format->block_bytes, expected[i].block_bytes);
    }
}
END_TEST

START_TEST(test_names_of_unreadable)
{
    static const struct {
        uint32_t id;
        const char *name;
    } expected[] = {
        {4, "Q4_2"},        {5, "Q4_3"},
        {9, "Q8_1"},        {15, "Q8_K"},
        {16, "IQ2_XXS"},    {17, "IQ2_XS"},
        {18, "IQ3_XXS"},    {19, "IQ1_S"},
        {21, "IQ3_S"},      {22, "IQ2_S"},
        {24, "I8"},         {28, "F64"},
        {29, "IQ1_M"},      {31, "Q4_0_4_4"},
        {34, "TQ1_0"},      {35, "TQ2_0"},
        {38, "IQ4_NL_8_8"}, {40, "NVFP4"},
        {41, "Q1_0"},       {42, "Q2_0"},
        {43, "unknown"},    {UINT32_MAX, "unknown"},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        ck_assert_ptr_null(format_find(expected[i].id));
        ck_assert_str_eq(format_name(expected[i].id), expected[i].name);
    }
}
END_TEST

/* -------------------------------------------------------------------------------- 16-bit floats */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

START_TEST(test_half_to_float_of_all)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float value = half_to_float((uint16_t)h);
        const double expected = half_value((uint16_t)h);
        ck_assert_msg(isnan(expected) ? isnan(value) : (double)value == expected, "half %04x", h);
        ck_assert_msg(bits_of(value) >> 31 == h >> 15, "sign of half %04x", h);
    }
}
END_TEST

START_TEST(test_half_round_trip_of_all)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const uint16_t back = half_from_float(half_to_float((uint16_t)h));
        const bool is_nan = (h & 0x7fff) > 0x7c00;
        ck_assert_msg(back == (is_nan ? (h | 0x200) : h), "half %04x became %04x", h, back);
    }
}
END_TEST

START_TEST(test_half_rounds_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        const float low = half_to_float((uint16_t)h), high = half_to_float((uint16_t)(h + 1));
        const float middle = (float)(((double)low + (double)high) / 2);
        const uint16_t even = (uint16_t)(h + (h & 1));
        ck_assert_msg(half_from_float(middle) == even, "tie above %04x", h);
        ck_assert_msg(half_from_float(-middle) == (even | 0x8000), "tie below -%04x", h);
        ck_assert_msg(half_from_float(nextafterf(middle, 0.0f)) == h, "under the tie of %04x", h);
        ck_assert_msg(half_from_float(nextafterf(middle, INFINITY)) == h + 1,
                      "over the tie of %04x", h);
    }
}
END_TEST

START_TEST(test_half_ends_of_range)
{
    ck_assert_uint_eq(half_from_float(65504.0f), 0x7bff);
    ck_assert_uint_eq(half_from_float(nextafterf(65520.0f, 0.0f)), 0x7bff);
    ck_assert_uint_eq(half_from_float(65520.0f), 0x7c00);
    ck_assert_uint_eq(half_from_float(-65520.0f), 0xfc00);
    ck_assert_uint_eq(half_from_float(FLT_MAX), 0x7c00);
    ck_assert_uint_eq(half_from_float(-INFINITY), 0xfc00);
    ck_assert_uint_eq(half_from_float(0x1p-25f), 0);
    ck_assert_uint_eq(half_from_float(nextafterf(0x1p-25f, 1.0f)), 1);
    ck_assert_uint_eq(half_from_float(-FLT_TRUE_MIN), 0x8000);
    ck_assert_uint_eq(half_from_float(-0.0f), 0x8000);
    ck_assert_uint_eq(half_from_float(NAN) & 0x7fff, 0x7e00);
}
END_TEST

START_TEST(test_bfloat16)
{
    ck_assert_float_eq(bfloat16_to_float(0x3f80), 1.0f);
    ck_assert_float_eq(bfloat16_to_float(0xc049), -3.140625f);
    ck_assert_float_eq(bfloat16_to_float(0x0001), 0x1p-133f);
    ck_assert_float_eq(bfloat16_to_float(0xff80), -INFINITY);
    ck_assert(isnan(bfloat16_to_float(0x7fc0)));
    ck_assert_uint_eq(bits_of(bfloat16_to_float(0x8000)), 0x80000000u);
}
END_TEST

/* ---------------------------------------------------------------------- blocks packed bit by bit
 */

/* No weight is above format_largest, which is at most `slack` times the largest of them. */
static void check_largest(const format_info *format, const uint8_t *data, uint64_t n,
                          const double *values, double slack)
{
    double bound = format_largest(format, data, n), largest = 0;

    for (uint64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(values[i]));
    ck_assert_msg(largest <= bound && bound <= slack * largest, "%s: %g, largest weight %g",
                  format->name, bound, largest);
}

START_TEST(test_packed_blocks)
{
    enum { N_BLOCKS = 3 };
    const format_info *format = format_find(block_encoders[_i].id);
    const size_t n = N_BLOCKS * format->block_size;
    uint8_t *blocks = malloc(N_BLOCKS * format->block_bytes); /* exact, for the address sanitizer */
    double *want = malloc(n * sizeof(want[0])), *got = malloc(n * sizeof(got[0]));
    block_random_state = 0x9e3779b97f4a7c15u;
    for (int round = 0; round < 200; round++) {
        memset(blocks, 0, N_BLOCKS * format->block_bytes);
        for (int b = 0; b < N_BLOCKS; b++)
            block_encoders[_i].encode(blocks + b * format->block_bytes,
                                      want + b * format->block_size);
        format_dequantize(format, blocks, n, got);
        for (size_t i = 0; i < n; i++)
            ck_assert_msg(got[i] == want[i], "%s round %d weight %zu: %.17g, expected %.17g",
                          format->name, round, i, got[i], want[i]);
        check_largest(format, blocks, n, got, INFINITY);
    }
    free(blocks);
    free(want);
    free(got);
}
END_TEST

START_TEST(test_mxfp4_exponents)
{
    static const struct {
        uint8_t exponent;
        double one; /* what the code for 1.0 becomes */
    } cases[] = {{0, 0x1p-127}, {1, 0x1p-126}, {127, 1.0}, {254, 0x1p127}, {255, 0x1p128}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t block[17] = {cases[i].exponent, 0x2a};
        double out[32];
        format_dequantize(format_find(FORMAT_MXFP4), block, 32, out);
        ck_assert_double_eq(out[0], -cases[i].one);
        ck_assert_double_eq(out[16], cases[i].one);
        ck_assert_double_eq(out[1], 0.0);
    }
}
END_TEST

/* --------------------------------------------------------------------------------- real files */

static void check_tensor(const gguf_file *file, const char *name, const char *format_wanted,
                         uint64_t n_wanted, uint64_t sum_wanted)
{
    gguf_error error;
    const gguf_tensor *tensor = gguf_find_tensor(file, name);
    ck_assert_msg(tensor != NULL, "%s: no tensor %s", gguf_path(file), name);
    const format_info *format = format_find(tensor->format);
    ck_assert_str_eq(format->name, format_wanted);
    ck_assert_uint_eq(tensor->n_elements, n_wanted);
    uint8_t *data = malloc(tensor->size_bytes);
    double *values = malloc(tensor->n_elements * sizeof(values[0]));
    ck_assert_msg(gguf_tensor_read(file, tensor, 0, data, tensor->size_bytes, &error), "%s",
                  error.text);
    format_dequantize(format, data, tensor->n_elements, values);
    check_largest(format, data, tensor->n_elements, values, 8);
    uint64_t sum = 0;
    for (uint64_t k = 0; k < tensor->n_elements; k++) {
        /* Exact in double; rounded once, it is the float that the format defines. */
        sum += bits_of((float)values[k]) * (k * 0x9e3779b97f4a7c15u + 1);
    }
    ck_assert_msg(sum == sum_wanted, "%s: %s (%s): %016" PRIx64 ", expected %016" PRIx64,
                  gguf_path(file), name, format->name, sum, sum_wanted);
    free(data);
    free(values);
}

/* checksums.txt lists the tensors of a file one after the other. */
START_TEST(test_files_against_checksums)
{
    char path[4096], name[128], file_name[128], open_name[128] = "", format[32];
    uint64_t n, sum;
    unsigned n_lines = 0;
    bool seen[64] = {false};
    gguf_file *file = NULL;
    gguf_error error;
    snprintf(path, sizeof(path), "%s/formats/checksums.txt", data_folder);
    FILE *list = fopen(path, "r");
    ck_assert_msg(list != NULL, "can't open %s", path);
    while (fscanf(list, "%127s %127s %31s %" SCNu64 " %" SCNx64, file_name, name, format, &n,
                  &sum) == 5) {
        if (strcmp(file_name, open_name) != 0) {
            gguf_close(&file);
            snprintf(path, sizeof(path), "%s/formats/%s", data_folder, file_name);
            ck_assert_msg(gguf_open(path, &file, &error), "%s", error.text);
            memcpy(open_name, file_name, sizeof(open_name));
        }
        check_tensor(file, name, format, n, sum);
        seen[gguf_find_tensor(file, name)->format] = true;
        n_lines++;
    }
    ck_assert(feof(list));
    fclose(list);
    gguf_close(&file);
    ck_assert_uint_gt(n_lines, 0);
    for (int e = 0; e < N_BLOCK_ENCODERS; e++)
        ck_assert_msg(seen[block_encoders[e].id], "no file has %s",
                      format_name(block_encoders[e].id));
}
END_TEST

START_TEST(test_unreadable_file_is_refused_by_name)
{
    char path[4096];
    gguf_file *file;
    gguf_error error;
    snprintf(path, sizeof(path), "%s/formats/fix-TQ1_0.gguf", data_folder);
    ck_assert(!gguf_open(path, &file, &error));
    ck_assert_ptr_null(file);
    ck_assert(error.is_unsupported);
    ck_assert_ptr_nonnull(strstr(error.text, "TQ1_0"));
    ck_assert_ptr_nonnull(strstr(error.text, "tensor 'token_embd.weight'"));
}
END_TEST

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DATA_FOLDER\n", argv[0]);
        return 2;
    }
    data_folder = argv[1];
    Suite *suite = suite_create("format");
    TCase *table = tcase_create("table");
    tcase_add_test(table, test_sizes);
    tcase_add_test(table, test_names_of_unreadable);
    suite_add_tcase(suite, table);
    TCase *half = tcase_create("16-bit floats");
    tcase_add_test(half, test_half_to_float_of_all);
    tcase_add_test(half, test_half_round_trip_of_all);
    tcase_add_test(half, test_half_rounds_to_nearest_even);
    tcase_add_test(half, test_half_ends_of_range);
    tcase_add_test(half, test_bfloat16);
    suite_add_tcase(suite, half);
    TCase *blocks = tcase_create("blocks");
    tcase_add_loop_test(blocks, test_packed_blocks, 0, N_BLOCK_ENCODERS);
    tcase_add_test(blocks, test_mxfp4_exponents);
    suite_add_tcase(suite, blocks);
    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 120);
    tcase_add_test(files, test_files_against_checksums);
    tcase_add_test(files, test_unreadable_file_is_refused_by_name);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}

/* Container reader on hostile files: each attack by itself with the message that it must give, a
 * valid file cut at every byte, and thousands of mutations. Run under the sanitizers in CI. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_gguf.h"

static struct builder b;
static gguf_error error;

/* The file must be refused with a message that has all parts, "" for no part. */
static void expect_error(const char *first, const char *second)
{
    const char *path = scratch_write(&b, "hostile.gguf");
    ck_assert_msg(!use_everything(path, &error), "was opened instead of: %s", first);
    ck_assert_msg(strstr(error.text, first) && strstr(error.text, second),
                  "'%s' or '%s' is not in: %s", first, second, error.text);
    ck_assert_ptr_nonnull(strstr(error.text, "hostile.gguf: "));
    ck_assert(!error.is_io && !error.is_out_of_memory);
}

/* The same for a file that goes on with zeros, a hole on the disk, up to size. */
static void expect_error_with_hole(uint64_t size, const char *first, const char *second)
{
    const char *path = scratch_write(&b, "hole.gguf");
    ck_assert_int_eq(truncate(path, (off_t)size), 0);
    ck_assert_msg(!use_everything(path, &error), "was opened instead of: %s", first);
    ck_assert_msg(strstr(error.text, first) && strstr(error.text, second),
                  "'%s' or '%s' is not in: %s", first, second, error.text);
}

/* ---------------------------------------------------------------------------------- header */

START_TEST(test_versions)
{
    static const struct {
        uint32_t version;
        bool is_refused;
        const char *message;
    } cases[] = {
        {0, false, "version 0 does not exist"},     {1, true, "GGUF version 1 can't be read"},
        {4, true, "GGUF version 4 can't"},          {0x02000000, true, "big-endian GGUF file"},
        {0x03000000, true, "big-endian GGUF file"}, {UINT32_MAX, true, "version 4294967295 can't"},
    };
    begin_file(&b, cases[_i].version, 0, 0);
    expect_error("header at offset 4: ", cases[_i].message);
    ck_assert(error.is_unsupported == cases[_i].is_refused);
}
END_TEST

START_TEST(test_counts)
{
    static const uint64_t counts[] = {1,
                                      100,
                                      UINT32_MAX,
                                      UINT64_C(1) << 32,
                                      INT64_MAX,
                                      UINT64_C(1) << 63,
                                      UINT64_MAX / 14,
                                      UINT64_MAX};
    char message[64];
    begin_file(&b, 3, 0, counts[_i]);
    snprintf(message, sizeof(message), "%llu keys, but only 0 bytes follow",
             (unsigned long long)counts[_i]);
    expect_error("header at offset 24: ", message);
    begin_file(&b, 3, counts[_i], 0);
    snprintf(message, sizeof(message), "%llu tensors, but only 0 bytes follow",
             (unsigned long long)counts[_i]);
    expect_error("header at offset 24: ", message);
}
END_TEST

/* A large file, which costs its maker nothing, is no licence for large tables. */
START_TEST(test_counts_with_a_hole)
{
    begin_file(&b, 3, 0, (1 << 20) + 1);
    expect_error_with_hole(64 << 20, "1048577 keys, more than 1048576", "");
    begin_file(&b, 3, 0, 1 << 20);
    expect_error_with_hole(64 << 20, "key number 0 at offset 32", "a name of 0 bytes");
    begin_file(&b, 3, (1 << 20) + 1, 0);
    expect_error_with_hole(64 << 20, "1048577 tensors, more than 1048576", "");
    begin_file(&b, 3, 1 << 20, 0);
    expect_error_with_hole(64 << 20, "tensor number 0 at offset 32", "a name of 0 bytes");
}
END_TEST

/* ------------------------------------------------------------------------------------ keys */

START_TEST(test_key_names)
{
    char name[65537];
    begin_file(&b, 3, 0, 1);
    put_string(&b, "");
    put_data(&b, 0, 16);
    expect_error("key number 0 at offset 32", "a name of 0 bytes; 1 to 65535 are allowed");
    static const uint64_t lengths[] = {65536, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        begin_file(&b, 3, 0, 1);
        put_u64(&b, lengths[i]);
        put_data(&b, 'a', 16);
        expect_error("key number 0 at offset 32", "1 to 65535 are allowed");
    }
    begin_file(&b, 3, 0, 1);
    put_u64(&b, 100);
    put_data(&b, 'a', 16);
    expect_error("key number 0 at offset 32",
                 "the file ends at byte 48, inside its name (100 bytes)");
    begin_file(&b, 3, 0, 1);
    put_u64(&b, 3);
    put_bytes(&b, "a\0b", 3);
    put_u32(&b, GGUF_TYPE_U32);
    put_u32(&b, 0);
    expect_error("key number 0", "zero byte");
    /* The longest name is fine. */
    memset(name, 'n', sizeof(name));
    name[65535] = '\0';
    begin_file(&b, 3, 0, 1);
    put_key_u32(&b, name, 5);
    ck_assert_msg(use_everything(scratch_write(&b, "long.gguf"), &error), "%s", error.text);
}
END_TEST

START_TEST(test_key_twice)
{
    begin_file(&b, 3, 0, 4);
    put_key_u32(&b, "one", 1);
    put_key_u32(&b, "two", 2);
    put_key_u32(&b, "three", 3);
    put_key_string(&b, "two", "again");
    expect_error("key 'two' is there twice", "as number 1 and number 3");
}
END_TEST

/* Quick even for many names that are alike (a fixed hash could be made to collide). */
START_TEST(test_many_keys)
{
    char name[256];
    const uint64_t n = 20000;
    begin_file(&b, 3, 0, n + 1);
    memset(name, 'x', 200);
    for (uint64_t i = 0; i < n; i++) {
        snprintf(name + 200, sizeof(name) - 200, "%llu", (unsigned long long)i);
        put_key_u32(&b, name, (uint32_t)i);
    }
    put_key_u32(&b, name, 0);
    expect_error("is there twice, as number 19999 and number 20000", "");
}
END_TEST

START_TEST(test_names_in_messages_are_harmless)
{
    begin_file(&b, 3, 0, 1);
    put_key(&b, "a\x1b[31m\n\xff'", 99);
    put_u32(&b, 0);
    expect_error("key 'a\\x1b[31m\\x0a\\xff\\x27' at offset", "unknown value type 99");
}
END_TEST

START_TEST(test_value_types)
{
    static const uint32_t types[] = {13, 14, 255, 0x01000000, UINT32_MAX};
    begin_file(&b, 3, 0, 1);
    put_key(&b, "k", types[_i]);
    put_data(&b, 0, 64);
    expect_error("key 'k' at offset 37", "unknown value type");
    begin_file(&b, 3, 0, 1);
    put_key_array(&b, "k", types[_i], 1);
    put_data(&b, 0, 64);
    expect_error("key 'k' at offset 41", "unknown element type");
}
END_TEST

START_TEST(test_values_cut_short)
{
    static const struct {
        uint32_t type, bytes;
    } types[] = {
        {GGUF_TYPE_U8, 1},    {GGUF_TYPE_I8, 1},  {GGUF_TYPE_U16, 2}, {GGUF_TYPE_I16, 2},
        {GGUF_TYPE_U32, 4},   {GGUF_TYPE_I32, 4}, {GGUF_TYPE_F32, 4}, {GGUF_TYPE_BOOL, 1},
        {GGUF_TYPE_U64, 8},   {GGUF_TYPE_I64, 8}, {GGUF_TYPE_F64, 8}, {GGUF_TYPE_STRING, 8},
        {GGUF_TYPE_ARRAY, 4},
    };
    for (uint32_t n = 0; n < types[_i].bytes; n++) {
        begin_file(&b, 3, 0, 1);
        put_key(&b, "key", types[_i].type);
        put_data(&b, 0, n);
        expect_error(n == 0 && types[_i].bytes == 1 ? "key 'key' at offset 39" : "key 'key'",
                     "the file ends at byte");
    }
}
END_TEST

START_TEST(test_string_lengths)
{
    static const uint64_t lengths[] = {(16 << 20) + 1, UINT32_MAX,     UINT64_C(1) << 32,
                                       INT64_MAX,      UINT64_MAX - 7, UINT64_MAX};
    begin_file(&b, 3, 0, 1);
    put_key(&b, "k", GGUF_TYPE_STRING);
    put_u64(&b, lengths[_i]);
    put_data(&b, 0, 32);
    expect_error("key 'k' at offset 45", "more than 16 MiB");
    begin_file(&b, 3, 0, 1);
    put_key_array(&b, "k", GGUF_TYPE_STRING, 2);
    put_string(&b, "fine");
    put_u64(&b, lengths[_i]);
    put_data(&b, 0, 32);
    expect_error("key 'k' at offset 69", "an element has");
    begin_file(&b, 3, 0, 1);
    put_key(&b, "k", GGUF_TYPE_STRING);
    put_u64(&b, 33);
    put_data(&b, 0, 32);
    expect_error("key 'k' at offset 45", "the file ends at byte 77, inside its value (33 bytes)");
}
END_TEST

START_TEST(test_array_counts)
{
    static const struct {
        uint32_t type;
        uint64_t count;
        const char *message;
    } cases[] = {
        {GGUF_TYPE_U8, 33, "33 elements of type u8, but only 32 bytes follow"},
        {GGUF_TYPE_F32, 9, "9 elements of type f32, but only 32"},
        {GGUF_TYPE_F64, 5, "5 elements of type f64, but only 32"},
        {GGUF_TYPE_STRING, 5, "5 elements of type string, but only 32"},
        {GGUF_TYPE_U8, (16 << 20) + 1, "16777217 elements, more than 16777216"},
        {GGUF_TYPE_F64, UINT64_C(1) << 61, "elements, more than 16777216"}, /* times 8 is 0 */
        {GGUF_TYPE_STRING, UINT64_C(1) << 63, "elements, more than 16777216"},
        {GGUF_TYPE_U32, UINT64_MAX, "elements, more than 16777216"},
    };
    begin_file(&b, 3, 0, 1);
    put_key_array(&b, "k", cases[_i].type, cases[_i].count);
    put_data(&b, 0, 32);
    expect_error("key 'k' at offset 49", cases[_i].message);
}
END_TEST

START_TEST(test_nested_arrays)
{
    begin_file(&b, 3, 0, 1);
    put_key(&b, "k", GGUF_TYPE_ARRAY);
    for (int depth = 0; depth < 100000; depth++) {
        put_u32(&b, GGUF_TYPE_ARRAY);
        put_u64(&b, 1);
    }
    expect_error("key 'k' at offset 41", "array of arrays");
}
END_TEST

START_TEST(test_bools)
{
    begin_file(&b, 3, 0, 1);
    put_key(&b, "k", GGUF_TYPE_BOOL);
    put_u8(&b, 2);
    expect_error("key 'k'", "a bool with the value 2");
    begin_file(&b, 3, 0, 1);
    put_key_array(&b, "k", GGUF_TYPE_BOOL, 3);
    put_u8(&b, 1);
    put_u8(&b, 0);
    put_u8(&b, 255);
    expect_error("key 'k'", "a bool with the value 255");
}
END_TEST

START_TEST(test_alignment_values)
{
    static const uint32_t values[] = {0, 1, 2, 4, 7, 24, 33, 65537, 131072, 1u << 31, UINT32_MAX};
    begin_file(&b, 3, 0, 1);
    put_key_u32(&b, "general.alignment", values[_i]);
    expect_error("key 'general.alignment' is", "it must be a power of two from 8 to 65536");
}
END_TEST

START_TEST(test_alignment_types)
{
    begin_file(&b, 3, 0, 1);
    put_key_string(&b, "general.alignment", "32");
    expect_error("key 'general.alignment' is of type string", "");
    begin_file(&b, 3, 0, 1);
    put_key_array(&b, "general.alignment", GGUF_TYPE_U32, 1);
    put_u32(&b, 32);
    expect_error("key 'general.alignment' is of type array", "");
    begin_file(&b, 3, 0, 1);
    put_key(&b, "general.alignment", GGUF_TYPE_I32);
    put_u32(&b, (uint32_t)-32);
    expect_error("key 'general.alignment' is of type i32", "");
}
END_TEST

/* --------------------------------------------------------------------------------- tensors */

START_TEST(test_tensor_names)
{
    char name[65];
    memset(name, 't', sizeof(name));
    name[64] = '\0';
    begin_file(&b, 3, 1, 0);
    put_tensor(&b, name, (const uint64_t[4]){1}, FORMAT_F32, 0);
    put_data(&b, 0, 64);
    expect_error("tensor number 0", "a name of 64 bytes; 1 to 63 are allowed");
    begin_file(&b, 3, 1, 0);
    put_tensor(&b, "", (const uint64_t[4]){1}, FORMAT_F32, 0);
    put_data(&b, 0, 64);
    expect_error("tensor number 0", "a name of 0 bytes");
    begin_file(&b, 3, 1, 0);
    put_u64(&b, 2);
    put_bytes(&b, "a\0", 2);
    put_data(&b, 0, 64);
    expect_error("tensor number 0", "zero byte");
    begin_file(&b, 3, 2, 0);
    put_tensor(&b, "same", (const uint64_t[4]){1}, FORMAT_F32, 0);
    put_tensor(&b, "same", (const uint64_t[4]){1}, FORMAT_F32, 32);
    put_padding(&b, 32);
    put_data(&b, 0, 64);
    expect_error("tensor 'same' is there twice, as number 0 and number 1", "");
}
END_TEST

START_TEST(test_dimension_counts)
{
    static const uint32_t counts[] = {0, 5, 8, 255, UINT32_MAX};
    begin_file(&b, 3, 1, 0);
    put_string(&b, "t");
    put_u32(&b, counts[_i]);
    for (int d = 0; d < 8; d++)
        put_u64(&b, 1);
    put_data(&b, 0, 64);
    expect_error("tensor 't' at offset 37", "dimensions; 1 to 4 are allowed");
}
END_TEST

START_TEST(test_dimensions)
{
    static const struct {
        uint32_t n_dims;
        uint64_t dims[4];
        uint32_t format;
        const char *message;
    } cases[] = {
        {1, {0}, FORMAT_F32, "dimension 0 is 0"},
        {3, {32, 4, 0}, FORMAT_F32, "dimension 2 is 0"},
        {2, {UINT64_C(1) << 32, UINT64_C(1) << 32}, FORMAT_F32, "more elements than 64 bits"},
        {4, {1u << 16, 1u << 16, 1u << 16, 1u << 16}, FORMAT_Q8_0, "more elements than 64 bits"},
        {2, {UINT64_MAX, 2}, FORMAT_F32, "more elements than 64 bits"},
        {1, {UINT64_C(1) << 63}, FORMAT_Q4_0, "more elements than 64 bits"},
        {1, {UINT64_C(1) << 62}, FORMAT_F32, "more bytes than 64 bits"}, /* times 4 is 0 */
        {1, {(UINT64_C(1) << 62) + 8}, FORMAT_F32, "more bytes than 64 bits"},
        {1, {INT64_MAX - 31}, FORMAT_Q8_0, "its data would end at byte"},
        {1, {31}, FORMAT_Q8_0, "rows of 31 elements, not a multiple of the 32 of a Q8_0 block"},
        {2, {128, 2}, FORMAT_Q4_K, "rows of 128 elements, not a multiple of the 256 of a Q4_K"},
    };
    begin_file(&b, 3, 1, 0);
    put_string(&b, "t");
    put_u32(&b, cases[_i].n_dims);
    for (uint32_t d = 0; d < cases[_i].n_dims; d++)
        put_u64(&b, cases[_i].dims[d]);
    put_u32(&b, cases[_i].format);
    put_u64(&b, 0);
    put_padding(&b, 32);
    put_data(&b, 0, 64);
    expect_error("tensor 't'", cases[_i].message);
    ck_assert(!error.is_unsupported);
}
END_TEST

START_TEST(test_formats)
{
    static const struct {
        uint32_t id;
        const char *message;
    } cases[] = {
        {4, "its format Q4_2 (id 4) can't be read"},
        {9, "Q8_1 (id 9)"},
        {34, "TQ1_0 (id 34)"},
        {40, "NVFP4 (id 40)"},
        {43, "unknown (id 43)"},
        {UINT32_MAX, "unknown (id 4294967295)"},
    };
    begin_file(&b, 3, 1, 0);
    put_tensor(&b, "t", (const uint64_t[4]){256}, cases[_i].id, 0);
    put_padding(&b, 32);
    put_data(&b, 0, 255);
    expect_error("tensor 't'", cases[_i].message);
    ck_assert(error.is_unsupported);
}
END_TEST

START_TEST(test_offsets)
{
    static const struct {
        uint64_t offset;
        const char *message;
    } cases[] = {
        {1, "its offset 1 is not a multiple of the alignment 32"},
        {48, "its offset 48 is not a multiple"},
        {64, "its data would end at byte 164, but the file ends at byte 160"},
        {UINT64_C(1) << 40, "its data would end at byte"},
        {INT64_MAX - 31, "its data would end at byte"},
        {UINT64_MAX - 31, "its data ends beyond 64 bits"},
        {UINT64_MAX - 127, "its data would end at byte 184467440737095515"},
    };
    begin_file(&b, 3, 2, 0);
    put_tensor(&b, "a", (const uint64_t[4]){8}, FORMAT_F32, 0);
    put_tensor(&b, "t", (const uint64_t[4]){1}, FORMAT_F32, cases[_i].offset);
    put_padding(&b, 32);
    put_data(&b, 0, 64);
    ck_assert_uint_eq(b.n, 160);
    expect_error("tensor 't': ", cases[_i].message);
}
END_TEST

/* The data ends beyond the file by one byte, by its last row, by all of it. */
START_TEST(test_data_cut_short)
{
    for (size_t missing = 1; missing <= 80; missing++) {
        begin_file(&b, 3, 1, 0);
        put_tensor(&b, "t", (const uint64_t[4]){10, 2}, FORMAT_F32, 0);
        put_padding(&b, 32);
        put_data(&b, 0, 80 - missing);
        expect_error("tensor 't': its data would end at byte", "is it cut short?");
    }
}
END_TEST

START_TEST(test_overlaps)
{
    static const struct {
        uint64_t offset; /* of 64 bytes; the other's 128 bytes are at 64 */
        bool is_apart;
    } cases[] = {{0, true}, {32, false}, {64, false}, {96, false}, {160, false}, {192, true}};
    begin_file(&b, 3, 2, 0);
    put_tensor(&b, "small", (const uint64_t[4]){16}, FORMAT_F32, cases[_i].offset);
    put_tensor(&b, "large", (const uint64_t[4]){32}, FORMAT_F32, 64);
    put_padding(&b, 32);
    put_data(&b, 0, 256);
    if (cases[_i].is_apart)
        ck_assert_msg(use_everything(scratch_write(&b, "apart.gguf"), &error), "%s", error.text);
    else
        expect_error("overlaps that of tensor",
                     cases[_i].offset < 64 ? "tensor 'large': its data" : "its data at byte");
}
END_TEST

START_TEST(test_overlap_of_one_byte)
{
    begin_file(&b, 3, 2, 1);
    put_key_u32(&b, "general.alignment", 8);
    put_tensor(&b, "a", (const uint64_t[4]){32}, FORMAT_MXFP4, 0); /* 17 bytes */
    put_tensor(&b, "b", (const uint64_t[4]){1}, FORMAT_F32, 16);
    put_padding(&b, 8);
    put_data(&b, 0, 20);
    expect_error("tensor 'b': its data at byte", "overlaps that of tensor 'a'");
}
END_TEST

/* -------------------------------------------------------------------------- cuts and mutations */

START_TEST(test_cut_at_every_byte)
{
    build_everything(&b, 3);
    const size_t whole = b.n;
    for (size_t n = 0; n < whole; n++) {
        b.n = n;
        ck_assert_msg(!use_everything(scratch_write(&b, "cut.gguf"), &error), "opened at %zu", n);
    }
    b.n = whole;
    ck_assert_msg(use_everything(scratch_write(&b, "cut.gguf"), &error), "%s", error.text);
}
END_TEST

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % n;
}

static void mutate(void)
{
    static const uint64_t odd_values[] = {0,
                                          1,
                                          13,
                                          63,
                                          64,
                                          255,
                                          65535,
                                          65536,
                                          INT32_MAX,
                                          UINT32_MAX,
                                          UINT64_C(1) << 32,
                                          UINT64_C(1) << 61,
                                          INT64_MAX,
                                          UINT64_C(1) << 63,
                                          UINT64_MAX};
    const size_t at = random_below(b.n);
    const size_t room = b.n - at;
    switch (random_below(6)) {
    case 0: /* a byte */
        b.bytes[at] = (uint8_t)random_below(256);
        break;
    case 1: /* a bit */
        b.bytes[at] ^= (uint8_t)(1 << random_below(8));
        break;
    case 2: { /* a length, count or type: 4 or 8 bytes */
        const uint64_t value = odd_values[random_below(sizeof(odd_values) / sizeof(odd_values[0]))];
        const size_t n = random_below(2) ? 4 : 8;
        memcpy(b.bytes + at, &value, n < room ? n : room);
        break;
    }
    case 3: /* the end is cut off */
        if (random_below(4) == 0)
            b.n = at + 1;
        break;
    case 4: { /* bytes go missing */
        const size_t n = 1 + random_below(16);
        if (n < room) {
            memmove(b.bytes + at, b.bytes + at + n, room - n);
            b.n -= n;
        }
        break;
    }
    default: { /* bytes are copied from elsewhere */
        const size_t from = random_below(b.n), n = 1 + random_below(40);
        if (n < room && n < b.n - from)
            memmove(b.bytes + at, b.bytes + from, n);
        break;
    }
    }
}

START_TEST(test_mutations)
{
    unsigned n_opened = 0, n_refused = 0;
    random_state = 0x2545f4914f6cdd1du + (uint64_t)_i;
    for (int m = 0; m < 1500; m++) {
        build_everything(&b, m % 2 ? 2 : 3);
        for (uint64_t n = 1 + random_below(4); n > 0; n--)
            mutate();
        if (use_everything(scratch_write(&b, "mutation.gguf"), &error))
            n_opened++;
        else
            n_refused++;
    }
    /* The mutations are neither harmless nor all fatal. */
    ck_assert_uint_gt(n_opened, 100);
    ck_assert_uint_gt(n_refused, 500);
}
END_TEST

int main(void)
{
    scratch_create();
    Suite *suite = suite_create("hostile");
    TCase *attacks = tcase_create("attacks");
    tcase_add_loop_test(attacks, test_versions, 0, 6);
    tcase_add_loop_test(attacks, test_counts, 0, 8);
    tcase_add_test(attacks, test_counts_with_a_hole);
    tcase_add_test(attacks, test_key_names);
    tcase_add_test(attacks, test_key_twice);
    tcase_add_test(attacks, test_many_keys);
    tcase_add_test(attacks, test_names_in_messages_are_harmless);
    tcase_add_loop_test(attacks, test_value_types, 0, 5);
    tcase_add_loop_test(attacks, test_values_cut_short, 0, 13);
    tcase_add_loop_test(attacks, test_string_lengths, 0, 6);
    tcase_add_loop_test(attacks, test_array_counts, 0, 8);
    tcase_add_test(attacks, test_nested_arrays);
    tcase_add_test(attacks, test_bools);
    tcase_add_loop_test(attacks, test_alignment_values, 0, 11);
    tcase_add_test(attacks, test_alignment_types);
    tcase_add_test(attacks, test_tensor_names);
    tcase_add_loop_test(attacks, test_dimension_counts, 0, 5);
    tcase_add_loop_test(attacks, test_dimensions, 0, 11);
    tcase_add_loop_test(attacks, test_formats, 0, 6);
    tcase_add_loop_test(attacks, test_offsets, 0, 7);
    tcase_add_test(attacks, test_data_cut_short);
    tcase_add_loop_test(attacks, test_overlaps, 0, 6);
    tcase_add_test(attacks, test_overlap_of_one_byte);
    tcase_set_timeout(attacks, 20);
    suite_add_tcase(suite, attacks);
    TCase *mutations = tcase_create("mutations");
    tcase_add_test(mutations, test_cut_at_every_byte);
    tcase_add_loop_test(mutations, test_mutations, 0, 4);
    tcase_set_timeout(mutations, 120);
    suite_add_tcase(suite, mutations);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    free_builder(&b);
    scratch_remove();
    return n_failed == 0 ? 0 : 1;
}

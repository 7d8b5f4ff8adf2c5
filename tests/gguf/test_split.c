/* Models split over several files: opening by any part, and every way in which the parts may fail
 * to belong together. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "build_gguf.h"

static struct builder b;
static gguf_file *file;
static gguf_error error;

static const char *const part_names[3] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                          "m-00003-of-00003.gguf"};

struct part {
    uint32_t number, count, total; /* the three split keys */
    const char *tensor;
};

/* The parts of a right model; tests change one thing each. Every number has another width. */
static const struct part right_parts[3] = {{0, 3, 3, "a"}, {1, 3, 3, "b"}, {2, 3, 3, "c"}};

static void write_part(const struct part *part, const char *name, bool is_first)
{
    begin_file(&b, 3, 1, 3 + is_first);
    if (is_first)
        put_key_string(&b, "only.first", "yes");
    put_key(&b, "split.no", is_first ? GGUF_TYPE_U16 : GGUF_TYPE_U64);
    if (is_first)
        put_u16(&b, (uint16_t)part->number);
    else
        put_u64(&b, part->number);
    put_key(&b, "split.count", is_first ? GGUF_TYPE_I32 : GGUF_TYPE_U8);
    if (is_first)
        put_u32(&b, part->count);
    else
        put_u8(&b, (uint8_t)part->count);
    put_key(&b, "split.tensors.count", GGUF_TYPE_I32);
    put_u32(&b, part->total);
    put_tensor(&b, part->tensor, (const uint64_t[4]){4}, FORMAT_F32, 0);
    put_padding(&b, 32);
    put_data(&b, (uint8_t)part->tensor[0], 16);
    scratch_write(&b, name);
}

static void write_parts(const struct part parts[3])
{
    for (int p = 0; p < 3; p++)
        write_part(&parts[p], part_names[p], p == 0);
}

static void expect_error(const char *name, const char *part)
{
    ck_assert_msg(!gguf_open(scratch_path(name), &file, &error), "%s was opened", name);
    ck_assert_ptr_null(file);
    ck_assert_msg(strstr(error.text, part) != NULL, "'%s' is not in: %s", part, error.text);
}

START_TEST(test_any_part_opens_all)
{
    write_parts(right_parts);
    const char *path = scratch_path(part_names[_i]);
    ck_assert_msg(gguf_open(path, &file, &error), "%s", error.text);
    ck_assert_str_eq(gguf_path(file), path);
    ck_assert_uint_eq(gguf_n_shards(file), 3);
    ck_assert_uint_eq(gguf_n_tensors(file), 3);
    ck_assert_ptr_nonnull(gguf_find(file, "only.first"));
    for (uint32_t t = 0; t < 3; t++) {
        uint8_t data[16];
        const gguf_tensor *tensor = gguf_tensor_at(file, t);
        ck_assert_str_eq(tensor->name, right_parts[t].tensor);
        ck_assert_uint_eq(tensor->shard, t);
        ck_assert(gguf_tensor_read(file, tensor, 0, data, sizeof(data), &error));
        ck_assert_uint_eq(data[0], (uint8_t)tensor->name[0]);
        ck_assert(memcmp(data, gguf_tensor_data(file, tensor), sizeof(data)) == 0);
        ck_assert_ptr_eq(gguf_find_tensor(file, tensor->name), tensor);
    }
    gguf_close(&file);
}
END_TEST

START_TEST(test_size_is_that_of_all)
{
    write_parts(right_parts);
    const size_t last = b.n; /* the second part is as long as the third */
    write_part(&right_parts[0], part_names[0], true);
    ck_assert(gguf_open(scratch_path(part_names[0]), &file, &error));
    ck_assert_uint_eq(gguf_size_bytes(file), b.n + 2 * last);
    gguf_close(&file);
}
END_TEST

START_TEST(test_a_part_is_missing)
{
    write_parts(right_parts);
    unlink(scratch_path(part_names[1]));
    expect_error(part_names[2], "m-00002-of-00003.gguf: No such file");
    ck_assert(error.is_io);
}
END_TEST

START_TEST(test_a_part_is_broken)
{
    write_parts(right_parts);
    b.n -= 1;
    scratch_write(&b, part_names[2]);
    expect_error(part_names[0], "m-00003-of-00003.gguf: tensor 'c'");
}
END_TEST

START_TEST(test_a_part_was_renamed)
{
    write_parts(right_parts);
    ck_assert_int_eq(rename(scratch_path(part_names[1]), scratch_path("other.gguf")), 0);
    expect_error("other.gguf", "part 2 of 3 of a split model, so its name must end in "
                               "-00002-of-00003.gguf");
}
END_TEST

START_TEST(test_parts_that_contradict)
{
    static const struct {
        int part;
        struct part wrong;
        const char *message;
    } cases[] = {
        {1,
         {2, 3, 3, "b"},
         "m-00002-of-00003.gguf: the keys 'split.no' and 'split.count' are 2 and 3"},
        {1,
         {1, 4, 3, "b"},
         "m-00002-of-00003.gguf: the keys 'split.no' and 'split.count' are 1 and 4"},
        {1,
         {1, 0, 3, "b"},
         "m-00002-of-00003.gguf: the keys 'split.no' and 'split.count' are 1 and 0"},
        {0, {3, 3, 3, "a"}, "'split.no' is 3, but 'split.count' is 3"},
        {2,
         {2, 3, 4, "c"},
         "m-00003-of-00003.gguf: key 'split.tensors.count' is 4, but the parts "
         "have 3 tensors"},
        {0,
         {0, 3, (uint32_t)-1, "a"},
         "key 'split.tensors.count' must be an integer, not negative"},
        {2, {2, 3, 3, "a"}, "m-00003-of-00003.gguf: tensor 'a' is there twice"},
        {0, {0, 2000, 3, "a"}, "key 'split.count' is 2000, more than 1024"},
    };
    write_parts(right_parts);
    write_part(&cases[_i].wrong, part_names[cases[_i].part], cases[_i].part == 0);
    expect_error(part_names[0], cases[_i].message);
}
END_TEST

START_TEST(test_split_key_of_a_wrong_type)
{
    begin_file(&b, 3, 0, 1);
    put_key_string(&b, _i == 0 ? "split.count" : "split.no", "3");
    scratch_write(&b, "type.gguf");
    expect_error("type.gguf", _i == 0 ? "key 'split.count' must be" : "key 'split.no' must be");
}
END_TEST

/* Merging tools leave the keys behind, with a count of 0; one part alone is a model of its own. */
START_TEST(test_whole_models_with_split_keys)
{
    const struct part merged = {2, 0, 3, "a"}, alone = {0, 1, 1, "a"}, wrong = {0, 1, 2, "a"};
    write_part(&merged, "whole.gguf", true);
    ck_assert_msg(gguf_open(scratch_path("whole.gguf"), &file, &error), "%s", error.text);
    ck_assert_uint_eq(gguf_n_shards(file), 1);
    gguf_close(&file);
    write_part(&alone, "whole.gguf", true);
    ck_assert_msg(gguf_open(scratch_path("whole.gguf"), &file, &error), "%s", error.text);
    gguf_close(&file);
    write_part(&wrong, "whole.gguf", true);
    expect_error("whole.gguf", "key 'split.tensors.count' is 2, but the parts have 1 tensors");
}
END_TEST

int main(void)
{
    scratch_create();
    Suite *suite = suite_create("split");
    TCase *tests = tcase_create("split models");
    tcase_add_loop_test(tests, test_any_part_opens_all, 0, 3);
    tcase_add_test(tests, test_size_is_that_of_all);
    tcase_add_test(tests, test_a_part_is_missing);
    tcase_add_test(tests, test_a_part_is_broken);
    tcase_add_test(tests, test_a_part_was_renamed);
    tcase_add_loop_test(tests, test_parts_that_contradict, 0, 8);
    tcase_add_loop_test(tests, test_split_key_of_a_wrong_type, 0, 2);
    tcase_add_test(tests, test_whole_models_with_split_keys);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    free_builder(&b);
    scratch_remove();
    return n_failed == 0 ? 0 : 1;
}

/* `outrider compare` with results of measure and bench: what is shown, and what can't be compared and why. */
#include <stdlib.h>
#include <string.h>

#include "measure_folder.h"

static void put(json_t *root, const char *object, const char *key, const char *value)
{
    json_object_set_new(json_object_get(root, object), key, json_string(value));
}

START_TEST(test_compare)
{
    struct program_result r;
    char *other = NULL, *page;
    json_t *root;

    begin();
    other = in_folder("other.json");
    write_prompts(2);
    r = MEASURE("--json", json, "-q");
    ck_assert_msg(r.code == 0, "%s", r.err);
    program_free(&r);
    root = load(json);
    put(root, "device", "name", "GPU <i>");
    put(root, "overall", "verdict", "dont");
    put(root, "overall", "setting", "K=<5>");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    r = RUN("compare", json, other, "--html", html);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "plain tokens/s"));
    ck_assert_ptr_nonnull(strstr(r.out, "(1.00x)"));
    ck_assert_ptr_nonnull(strstr(r.out, "GPU <i>"));
    page = read_file(html);
    ck_assert_ptr_nonnull(strstr(page, "GPU &lt;i&gt;"));
    ck_assert_ptr_null(strstr(page, "<i>"));
    ck_assert_ptr_nonnull(strstr(r.out, "don't, best K=<5>"));
    ck_assert_ptr_nonnull(strstr(page, "<td><span>don&#39;t, best K=&lt;5&gt;</span></td>"));
    ck_assert_ptr_nonnull(strstr(page, "</span> <span>(1.00x)</span></td>"));
    free(page);
    program_free(&r);

    put(root, "draft", "fnv1a64", "0123456789abcdef");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "another file of the draft's name");
    put(root, "draft", "name", "another");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "both its models and its device");
    put(root, "data", "fnv1a64", "0123456789abcdef");
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "other prompts", "0123456789abcdef");
    json_object_set_new(root, "schema", json_string("outrider-measure-9"));
    ck_assert_int_eq(json_dump_file(root, other, 0), 0);
    EXPECT_REFUSED(RUN("compare", json, other), 3, other, "another schema", "outrider-measure-9");
    EXPECT_REFUSED(RUN("compare", other, json), 3, other, "outrider-measure-9");
    EXPECT_REFUSED(RUN("compare", json), 2, "2 to 16");
    EXPECT_REFUSED(RUN("compare", json, data), 3, data);
    EXPECT_REFUSED(RUN("compare", json, "/nonexistent"), 3, "/nonexistent");
    json_decref(root);

    r = RUN("bench", "-m", target, "--json", "-r", "1", "-n", "4", "--rows", "2", "-p", "4");
    ck_assert_int_eq(r.code, 0);
    write_file(other, r.out);
    program_free(&r);
    r = RUN("compare", other, other);
    ck_assert_msg(r.code == 0, "%s", r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "decode 1"));
    program_free(&r);
    EXPECT_REFUSED(RUN("compare", json, other), 3, "another schema");
    root = load(other);
    json_object_set_new(root, "verify", json_string("block"));
    ck_assert_int_eq(json_dump_file(root, json, 0), 0);
    EXPECT_REFUSED(RUN("compare", other, json), 3, json, "another rule of verification", "block",
                   "coupled");
    json_decref(root);
    free(other);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_compare, NULL};

    return measure_test("compare", tests);
}

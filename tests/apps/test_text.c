/* Escapes of prompts, and untrusted bytes on their way to a terminal. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static void expect(text *t, const char *wanted, size_t n)
{
    ck_assert(!t->failed);
    ck_assert_uint_eq(t->n, n);
    ck_assert_mem_eq(text_string(t), wanted, n + 1);
    text_free(t);
}

START_TEST(test_unescape)
{
    static const struct {
        const char *typed, *meant;
    } cases[] = {
        {"plain", "plain"},
        {"a\\nb\\tc\\r", "a\nb\tc\r"},
        {"\\\"\\'\\\\", "\"'\\"},
        {"\\x41\\x7a", "Az"},
        {"\\x4", "\\x4"},
        {"\\xzz", "\\xzz"},
        {"\\q\\", "\\q\\"},
        {"\\\\n", "\\n"},
        {"", ""},
        {"\\xc3\\xa9", "\xc3\xa9"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text t = {0};

        text_append_unescaped(&t, cases[i].typed, strlen(cases[i].typed));
        expect(&t, cases[i].meant, strlen(cases[i].meant));
    }
}
END_TEST

START_TEST(test_unescape_nul)
{
    text t = {0};

    text_append_unescaped(&t, "a\\x00b", 6);
    expect(&t, "a\0b", 3);
}
END_TEST

START_TEST(test_printable)
{
    static const struct {
        const char *raw;
        unsigned flags;
        const char *shown;
    } cases[] = {
        {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", 0,
         "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\x1b]0;x\x07", 0, "\\x1b]0;x\\x07"},
        {"a\nb\tc\r", 0, "a\\nb\\tc\\r"},
        {"a\nb\tc\r", PRINTABLE_KEEP_LINES, "a\nb\tc\\r"},
        {"\"\\", 0, "\"\\"},
        {"\"\\", PRINTABLE_QUOTED, "\\\"\\\\"},
        {"\x7f\xc2\x9b", 0, "\\x7f\\u{009b}"},
        {"\xe2\x80\xae"
         "abc",
         0, "\\u{202e}abc"},
        {"\xff\xc0\xaf", 0, "\\xff\\xc0\\xaf"},
        {"\xe2\x82", 0, "\\xe2\\x82"},
        {"\xed\xa0\x80", 0, "\\xed\\xa0\\x80"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text t = {0};

        text_append_printable(&t, cases[i].raw, strlen(cases[i].raw), cases[i].flags);
        expect(&t, cases[i].shown, strlen(cases[i].shown));
    }
}
END_TEST

START_TEST(test_replace_invalid)
{
    text t = {0};

    text_append_utf8(&t,
                     "a\xff"
                     "b\xe2\x82",
                     5);
    expect(&t,
           "a\xef\xbf\xbd"
           "b\xef\xbf\xbd\xef\xbf\xbd",
           11);
    text_append_utf8(&t, "", 0);
    ck_assert_str_eq(text_string(&t), "");
    text_free(&t);
}
END_TEST

START_TEST(test_growth)
{
    text t = {0};

    for (int i = 0; i < 10000; i++)
        text_printf(&t, "%04d,", i);
    ck_assert(!t.failed);
    ck_assert_uint_eq(t.n, 50000);
    ck_assert_str_eq(t.data + 49995, "9999,");
    text_free(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tcase = tcase_create("text");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tcase, test_unescape);
    tcase_add_test(tcase, test_unescape_nul);
    tcase_add_test(tcase, test_printable);
    tcase_add_test(tcase, test_replace_invalid);
    tcase_add_test(tcase, test_growth);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

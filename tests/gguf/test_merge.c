/* Merging and special-token search against the plainest form of the same rules. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite.h"
#include "merge.h"
#include "random_text.h"
#include "special.h"

/* Rules of random merges over few symbols: result and priority of each pair, with equals. */
enum { N_SYMBOLS = 9, MOST = 60 };
typedef struct rule_table {
    uint32_t priority[N_SYMBOLS][N_SYMBOLS], result[N_SYMBOLS][N_SYMBOLS];
} rule_table;

static uint32_t table_priority(const void *context, const merge_node *left, const merge_node *right,
                               uint32_t *result)
{
    const rule_table *table = context;
    *result = table->result[left->symbol][right->symbol];
    return table->priority[left->symbol][right->symbol];
}

/* Merges the pair of least priority, the leftmost of equals, until there is none. */
static size_t merge_plainly(const rule_table *table, uint32_t *symbols, size_t n)
{
    for (;;) {
        size_t best = n;
        uint32_t least = MERGE_NONE;
        for (size_t i = 0; i + 1 < n; i++) {
            if (table->priority[symbols[i]][symbols[i + 1]] < least) {
                least = table->priority[symbols[i]][symbols[i + 1]];
                best = i;
            }
        }
        if (best == n)
            return n;
        symbols[best] = table->result[symbols[best]][symbols[best + 1]];
        memmove(symbols + best + 1, symbols + best + 2, (n - best - 2) * sizeof(symbols[0]));
        n--;
    }
}

START_TEST(merging_equals_its_plain_form)
{
    uint64_t seed = 7;
    merge_list list = {0};
    for (int round = 0; round < 3000; round++) {
        rule_table table;
        uint32_t n_priorities = 1 + random_below(&seed, 40);
        for (int a = 0; a < N_SYMBOLS; a++) {
            for (int b = 0; b < N_SYMBOLS; b++) {
                table.priority[a][b] = random_below(&seed, 3) == 0
                                           ? random_below(&seed, n_priorities)
                                           : MERGE_NONE;
                table.result[a][b] = random_below(&seed, N_SYMBOLS);
            }
        }
        uint32_t symbols[MOST];
        size_t n = random_below(&seed, MOST) + 1;
        merge_list_clear(&list);
        for (size_t i = 0; i < n; i++) {
            symbols[i] = random_below(&seed, N_SYMBOLS);
            ck_assert(merge_list_append(&list, symbols[i], (uint32_t)i, 1));
        }
        ck_assert(merge_list_run(&list, table_priority, &table));
        size_t wanted = merge_plainly(&table, symbols, n), got = 0, at = 0;
        for (uint32_t i = 0; i != MERGE_NONE; i = list.nodes[i].next) {
            if (got == wanted || list.nodes[i].symbol != symbols[got] || list.nodes[i].start != at)
                ck_abort_msg("round %d: symbol %zu differs", round, got);
            at += list.nodes[i].length;
            got++;
        }
        ck_assert_uint_eq(got, wanted);
        ck_assert_uint_eq(at, n);
    }
    merge_list_free(&list);
}
END_TEST

/* Longest token first, then leftmost place, on the bytes that are not taken yet. */
static void find_plainly(const gguf_string *tokens, size_t n_tokens, const char *text, size_t n,
                         int *taken)
{
    for (size_t length = n; length > 0; length--) {
        for (size_t at = 0; at + length <= n; at++) {
            size_t n_free = 0;
            while (n_free < length && taken[at + n_free] < 0)
                n_free++;
            if (n_free < length)
                continue;
            for (size_t t = n_tokens; t-- > 0;) {
                if (tokens[t].length == length && !memcmp(tokens[t].data, text + at, length)) {
                    for (size_t i = 0; i < length; i++)
                        taken[at + i] = (int)(at << 8 | t);
                    break;
                }
            }
        }
    }
}

START_TEST(special_search_equals_its_plain_form)
{
    enum { N_TOKENS = 12, LONGEST = 6, TEXT = 50 };
    uint64_t seed = 11;
    for (int round = 0; round < 3000; round++) {
        char bytes[N_TOKENS][LONGEST], text[TEXT];
        gguf_string strings[N_TOKENS];
        size_t n_tokens = random_below(&seed, N_TOKENS + 1), n = random_below(&seed, TEXT);
        uint32_t n_letters = 1 + random_below(&seed, 3);
        special_token *tokens = malloc((n_tokens + 1) * sizeof(tokens[0]));
        special_set set;
        special_hit *hits;
        size_t n_hits;
        int wanted[TEXT], got[TEXT];
        for (uint32_t t = 0; t < n_tokens; t++) {
            size_t length = 1 + random_below(&seed, LONGEST);
            for (size_t i = 0; i < length; i++)
                bytes[t][i] = "ab\xff"[random_below(&seed, n_letters)];
            strings[t] = (gguf_string){bytes[t], length};
            tokens[t] = (special_token){strings[t], t};
        }
        for (size_t i = 0; i < n; i++) {
            text[i] = "ab\xff"[random_below(&seed, n_letters)];
            wanted[i] = got[i] = -1;
        }
        find_plainly(strings, n_tokens, text, n, wanted);
        special_set_build(&set, tokens, (uint32_t)n_tokens);
        ck_assert(special_find(&set, text, n, &hits, &n_hits));
        for (size_t h = 0; h < n_hits; h++) {
            for (size_t i = 0; i < hits[h].length; i++)
                got[hits[h].start + i] = (int)(hits[h].start << 8 | hits[h].id);
        }
        for (size_t i = 0; i < n; i++) {
            if (got[i] != wanted[i])
                ck_abort_msg("round %d: byte %zu differs", round, i);
        }
        free(hits);
        special_set_free(&set);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("merge");
    TCase *tests = tcase_create("merge");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, merging_equals_its_plain_form);
    tcase_add_test(tests, special_search_equals_its_plain_form);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

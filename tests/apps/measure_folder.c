/* A folder for a test of `outrider measure` or `compare`: see measure_folder.h. */
#include "measure_folder.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *target, *draft;
char folder[64];
char *data, *json, *csv, *html;

char *in_folder(const char *name)
{
    char *path = NULL;

    ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
    return path;
}

void write_file(const char *path, const char *content)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(content, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *content = calloc(1, 1 << 22);

    ck_assert_msg(f != NULL, "no file %s", path);
    ck_assert_ptr_nonnull(content);
    ck_assert_uint_lt(fread(content, 1, (1 << 22) - 1, f), (1 << 22) - 1);
    fclose(f);
    return content;
}

void begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/outrider-measure-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    data = in_folder("prompts.jsonl");
    json = in_folder("result.json");
    csv = in_folder("result.csv");
    html = in_folder("result.html");
}

void end(void)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.') {
            /* Nothing half-written is left. */
            ck_assert_ptr_null(strstr(entry->d_name, ".part"));
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    closedir(dir);
    rmdir(folder);
    free(data);
    free(json);
    free(csv);
    free(html);
}

void write_prompts(int n_each)
{
    char content[32768];
    int n = 0;

    for (int i = 0; i < n_each; i++) {
        n += snprintf(
            content + n, sizeof(content) - (size_t)n,
            "{\"task\": \"" HOSTILE "\", \"prompt\": \"One day %d\", \"max_tokens\": 14}\n"
            "{\"task\": \"tales\", \"prompt\": \"Lily saw the %d\", \"temperature\": 0}\n",
            i, i);
        ck_assert_int_lt(n, (int)sizeof(content));
    }
    write_file(data, content);
}

json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    ck_assert_msg(root != NULL, "%s: %s", path, error.text);
    return root;
}

double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

int measure_test(const char *name, const TTest *const *tests)
{
    target = getenv("TEST_TARGET");
    draft = getenv("TEST_DRAFT");
    if (!target || !draft) {
        fprintf(stderr, "TEST_TARGET and TEST_DRAFT name no models\n");
        return EXIT_FAILURE;
    }
    return program_test(name, tests, 300);
}

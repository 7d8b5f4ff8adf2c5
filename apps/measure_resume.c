/* Goes on with an earlier result of `outrider measure` (measure.h), which is untrusted: it must be whole, of
 * the same measurement and of this version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "output.h"

/* The first field of an object that another lacks, or NULL. */
static const char *lacking(const json_t *like, const json_t *object)
{
    json_t *value;
    const char *key;

    json_object_foreach((json_t *)like, key, value)
    {
        if (!json_object_get(object, key))
            return key;
    }
    return NULL;
}

static const char *lacking_in_head(const json_t *head, const json_t *root)
{
    const char *key = lacking(head, root);

    if (!key)
        key = lacking(json_object_get(head, "options"), json_object_get(root, "options"));
    return key || json_object_get(root, "prompts") ? key : "prompts";
}

/* Likewise of a prompt's record or its runs; the empty string: none. */
static void find_lacking_in_prompt(const measure *m, const json_t *object, char key[32])
{
    measure_record empty = {0};
    const char *found;
    json_t *like, *run;
    size_t i;

    for (i = 0; i < m->n_settings; i++)
        empty.runs[i].origins = (char *)"";
    like = measure_record_json(m, &empty);
    found = lacking(like, object);
    json_array_foreach(json_object_get(object, "runs"), i, run)
    {
        if (!found)
            found = lacking(json_array_get(json_object_get(like, "runs"), 0), run);
    }
    snprintf(key, 32, "%s", found ? found : "");
    json_decref(like);
}

static int fail_version(const char *path, const char *key)
{
    return fail(EXIT_CODE_INPUT,
                "can't go on with %s: it was made by another version of outrider, without '%s'; "
                "start a new file",
                path, key);
}

static int check_head(const char *path, const json_t *root, const json_t *head)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const char *version = json_string_value(json_object_get(root, "version")), *key, *differs;

    if (!schema || strncmp(schema, MEASURE_SCHEMA, strlen(MEASURE_SCHEMA) - 1) != 0)
        return fail(EXIT_CODE_INPUT, "%s was not written by 'outrider measure --json'", path);
    if (strcmp(schema, MEASURE_SCHEMA) != 0 || !version || strcmp(version, otr_version()) != 0)
        return fail(EXIT_CODE_INPUT,
                    "can't go on with %s: it was made by another version of outrider (%s with the "
                    "schema %s; this is %s with %s); start a new file",
                    path, version ? version : "none", schema, otr_version(), MEASURE_SCHEMA);
    key = lacking_in_head(head, root);
    if (key)
        return fail_version(path, key);
    if (!json_is_array(json_object_get(root, "prompts")))
        return fail(EXIT_CODE_INPUT, "can't go on with %s: 'prompts' in it is no list", path);
    differs = measure_head_differs(head, root);
    return differs ? fail(EXIT_CODE_INPUT, "can't go on with %s: it is of %s", path, differs)
                   : EXIT_CODE_OK;
}

static int fail_prompt(const measure *m, const char *path, const json_t *object, size_t i)
{
    char key[32];

    find_lacking_in_prompt(m, object, key);
    if (key[0])
        return fail_version(path, key);
    return fail(EXIT_CODE_INPUT, "can't go on with %s: prompt %zu in it is damaged", path, i + 1);
}

int measure_resume(measure *m, const char *path, const json_t *head)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *item;
    bool *seen = calloc(m->data.n_prompts, sizeof(*seen));
    int code;
    size_t i;

    if (!seen)
        code = fail_memory();
    else if (!root)
        code = fail(EXIT_CODE_INPUT, "can't go on with %s: %s", path, error.text);
    else
        code = check_head(path, root, head);
    json_array_foreach(json_object_get(root, "prompts"), i, item)
    {
        measure_record record;

        if (code)
            break;
        if (!measure_record_read(m, item, &record)) {
            code = fail_prompt(m, path, item, i);
        } else if (seen[record.prompt]) {
            measure_record_free(&record);
            code = fail_prompt(m, path, item, i);
        } else {
            seen[record.prompt] = true;
            m->records[m->n_records++] = record;
        }
    }
    free(seen);
    json_decref(root);
    return code;
}

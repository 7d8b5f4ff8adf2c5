/* Reads prompts: see measure_data.h. */
#include "measure_data.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fnv.h"
#include "input.h"
#include "message.h"
#include "text.h"

#define MAX_TASK_BYTES 64
#define MAX_TASKS 64

static int add_task(measure_data *data, const char *name)
{
    for (size_t i = 0; i < data->n_tasks; i++)
        if (strcmp(data->tasks[i], name) == 0)
            return EXIT_CODE_OK;
    if (data->n_tasks == MAX_TASKS)
        return fail(EXIT_CODE_INPUT, "more than %d tasks", MAX_TASKS);
    if (!data->tasks)
        data->tasks = calloc(MAX_TASKS, sizeof(*data->tasks));
    if (!data->tasks || !(data->tasks[data->n_tasks] = strdup(name)))
        return fail_memory();
    data->n_tasks++;
    return EXIT_CODE_OK;
}

/* Remembers that the file is read. */
static int add_file(measure_data *data, const char *path)
{
    size_t n = data->n_files;
    char **grown = data->files;

    if ((n & (n - 1)) == 0)
        grown = realloc(data->files, (n ? 2 * n : 1) * sizeof(*grown));
    if (!grown)
        return fail_memory();
    data->files = grown;
    grown[n] = strdup(strcmp(path, "-") == 0 ? "/dev/stdin" : path);
    if (!grown[n])
        return fail_memory();
    data->n_files++;
    return EXIT_CODE_OK;
}

/* Copies what it is given. */
static int add_prompt(measure_data *data, const char *task, const char *source, const char *bytes,
                      size_t n_bytes, int64_t max_tokens, double temperature)
{
    size_t n = data->n_prompts;
    measure_prompt *grown = data->prompts;

    if ((n & (n - 1)) == 0)
        grown = realloc(data->prompts, (n ? 2 * n : 1) * sizeof(*grown));
    if (!grown)
        return fail_memory();
    data->prompts = grown;
    grown[n] = (measure_prompt){
        .task = strdup(task),
        .source = strdup(source),
        .text = malloc(n_bytes + 1),
        .n_bytes = n_bytes,
        .max_tokens = max_tokens,
        .temperature = temperature,
    };
    data->n_prompts++;
    if (!grown[n].task || !grown[n].source || !grown[n].text)
        return fail_memory();
    memcpy(grown[n].text, bytes, n_bytes);
    grown[n].text[n_bytes] = '\0';
    return add_task(data, task);
}

/* ---------------------------------------------------------------------------- JSON lines */

/* Returns what is wrong, or NULL. */
static const char *check_line(const json_t *line)
{
    const json_t *prompt = json_object_get(line, "prompt"), *task = json_object_get(line, "task");
    const json_t *max = json_object_get(line, "max_tokens");
    const json_t *temperature = json_object_get(line, "temperature");
    double t = json_number_value(temperature);

    if (!json_is_object(line))
        return "no JSON object";
    if (json_object_get(line, "messages"))
        return "\"messages\" need a chat template, which Outrider doesn't have; give the whole "
               "text as \"prompt\"";
    if (!json_is_string(prompt))
        return prompt ? "\"prompt\" is no string" : "no \"prompt\"";
    if (!json_string_length(prompt))
        return "\"prompt\" is empty";
    if (task && (!json_is_string(task) || !json_string_length(task) ||
                 json_string_length(task) > MAX_TASK_BYTES))
        return "\"task\" is no string of 1 to 64 bytes";
    if (max && (!json_is_integer(max) || json_integer_value(max) < 2 ||
                json_integer_value(max) > OTR_MAX_CONTEXT))
        return "\"max_tokens\" is no whole number from 2 on";
    if (temperature && (!json_is_number(temperature) || !(t >= 0 && t <= 100)))
        return "\"temperature\" is no number from 0 to 100";
    return NULL;
}

static int read_line(measure_data *data, const char *path, size_t number, const char *bytes,
                     size_t n_bytes, const char *task)
{
    json_error_t error;
    json_t *line = json_loadb(bytes, n_bytes, 0, &error), *own = json_object_get(line, "task");
    const json_t *prompt = json_object_get(line, "prompt");
    const json_t *temperature = json_object_get(line, "temperature");
    const char *wrong = line ? check_line(line) : error.text;
    text source = {0};
    int code;

    text_append_printable(&source, path, strlen(path), 0);
    text_printf(&source, ": line %zu", number);
    if (wrong)
        code = fail(EXIT_CODE_INPUT, "%s: %s", text_string(&source), wrong);
    else
        code = add_prompt(data, own ? json_string_value(own) : task, text_string(&source),
                          json_string_value(prompt), json_string_length(prompt),
                          json_integer_value(json_object_get(line, "max_tokens")),
                          temperature ? json_number_value(temperature) : -1);
    json_decref(line);
    text_free(&source);
    return code;
}

static int read_lines(measure_data *data, const char *path, const text *t, const char *task)
{
    size_t number = 0, before = data->n_prompts;
    int code = EXIT_CODE_OK;

    for (const char *at = text_string(t), *stop = at + t->n, *end; at < stop && !code;
         at = end + 1) {
        end = memchr(at, '\n', (size_t)(stop - at));
        end = end ? end : stop;
        number++;
        if (strspn(at, " \t\r") < (size_t)(end - at))
            code = read_line(data, path, number, at, (size_t)(end - at), task);
    }
    if (!code && data->n_prompts == before)
        code = fail(EXIT_CODE_INPUT, "%s has no prompts", path);
    return code;
}

/* ---------------------------------------------------------------------------- plain text */

static bool is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Up to n prompts, each from the beginning of one of n equal pieces, moved to the next line's start
 * where one is near; the rest of the piece is what a continuation could be. */
static int cut_text(measure_data *data, const char *path, const text *t, const char *task, size_t n,
                    size_t bytes)
{
    size_t piece = t->n / n;
    int code = EXIT_CODE_OK;

    if (piece < 2 * bytes) {
        n = t->n / (2 * bytes) ? t->n / (2 * bytes) : 1;
        piece = t->n / n;
    }
    bytes = bytes < piece / 2 ? bytes : (piece + 1) / 2;
    for (size_t i = 0; i < n && !code; i++) {
        size_t from = i * piece, to;
        text source = {0};
        const char *line = from ? memchr(t->data + from, '\n', piece / 2) : NULL;

        if (line)
            from = (size_t)(line - t->data) + 1;
        while (from < t->n && is_inside_character(t->data[from]))
            from++;
        for (to = from + bytes < t->n ? from + bytes : t->n;
             to > from && to < t->n && is_inside_character(t->data[to]); to--)
            continue;
        text_append_printable(&source, path, strlen(path), 0);
        text_printf(&source, ": byte %zu", from);
        if (to > from)
            code = add_prompt(data, task, text_string(&source), t->data + from, to - from, 0, -1);
        text_free(&source);
    }
    return code;
}

static int read_text(measure_data *data, const char *path, const char *task, size_t n, size_t bytes)
{
    text t = {0};
    int code = input_file(path, &t);

    if (!code && !t.n)
        code = fail(EXIT_CODE_INPUT, "%s is empty", path);
    if (!code)
        code = cut_text(data, path, &t, task, n, bytes);
    text_free(&t);
    return code;
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Its files by name, hidden ones and folders left out. */
static int read_folder(measure_data *data, const char *path, const char *task,
                       const measure_data_params *params)
{
    struct dirent **entries = NULL;
    int n_entries = scandir(path, &entries, is_shown, alphasort), code = EXIT_CODE_OK;
    size_t n_files = 0, wanted = (size_t)params->prompts, before = data->n_prompts;
    char **names;

    if (n_entries < 0)
        return fail(EXIT_CODE_INPUT, "can't read the folder '%s': %s", path, strerror(errno));
    names = calloc((size_t)n_entries + 1, sizeof(*names));
    for (int i = 0; i < n_entries; i++) {
        struct stat about;

        if (names && asprintf(&names[n_files], "%s/%s", path, entries[i]->d_name) >= 0) {
            if (stat(names[n_files], &about) == 0 && S_ISREG(about.st_mode) && about.st_size)
                n_files++;
            else
                free(names[n_files]);
        }
        free(entries[i]);
    }
    free(entries);
    if (!names)
        return fail_memory();
    /* Those that the wanted prompts don't reach, too: they belong to the same data. */
    for (size_t i = 0; i < n_files && !code; i++)
        code = add_file(data, names[i]);
    for (size_t i = 0; i < n_files && !code && data->n_prompts - before < wanted; i++)
        code = read_text(data, names[i], task, (wanted + n_files - 1) / n_files,
                         (size_t)params->bytes);
    for (size_t i = 0; i < n_files; i++)
        free(names[i]);
    free(names);
    if (!code && !n_files)
        code = fail(EXIT_CODE_INPUT, "the folder '%s' has no files with text", path);
    return code;
}

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);

    return n >= k && strcmp(path + n - k, end) == 0;
}

/* --data. A task of plain text has the file's name. */
static int read_data(measure_data *data, const char *path, const measure_data_params *params)
{
    const char *slash = strrchr(path, '/');
    char task[MAX_TASK_BYTES + 1];
    struct stat about;
    text t = {0};
    int code;

    snprintf(task, sizeof(task), "%s", slash && slash[1] ? slash + 1 : path);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return read_folder(data, path, task, params);
    code = add_file(data, path);
    if (!code)
        code = input_file(path, &t);
    if (!code && !t.n)
        code = fail(EXIT_CODE_INPUT, "%s is empty", path);
    if (!code && (ends_in(path, ".jsonl") || ends_in(path, ".json") ||
                  t.data[strspn(t.data, " \t\r\n")] == '{'))
        code = read_lines(data, path, &t, "all");
    else if (!code)
        code = cut_text(data, path, &t, task, (size_t)params->prompts, (size_t)params->bytes);
    text_free(&t);
    return code;
}

/* --task NAME=PATH */
static int read_task(measure_data *data, const char *item, const measure_data_params *params)
{
    size_t n = strcspn(item, "=");
    char task[MAX_TASK_BYTES + 1];
    struct stat about;
    int code;

    if (!n || n > MAX_TASK_BYTES || !item[n] || !item[n + 1])
        return fail(EXIT_CODE_USAGE, "--task needs NAME=PATH, not '%s'", item);
    snprintf(task, sizeof(task), "%.*s", (int)n, item);
    if (stat(item + n + 1, &about) == 0 && S_ISDIR(about.st_mode))
        return read_folder(data, item + n + 1, task, params);
    code = add_file(data, item + n + 1);
    return code ? code
                : read_text(data, item + n + 1, task, (size_t)params->prompts,
                            (size_t)params->bytes);
}

/* First prompts of all tasks, then second ones, and so on. */
static int take_turns(measure_data *data)
{
    measure_prompt *sorted = calloc(data->n_prompts, sizeof(*sorted));
    bool *taken = calloc(data->n_prompts, sizeof(*taken));
    size_t n = 0;

    if (!sorted || !taken) {
        free(sorted);
        free(taken);
        return fail_memory();
    }
    while (n < data->n_prompts)
        for (size_t k = 0; k < data->n_tasks; k++)
            for (size_t i = 0; i < data->n_prompts; i++)
                if (!taken[i] && strcmp(data->prompts[i].task, data->tasks[k]) == 0) {
                    sorted[n++] = data->prompts[i];
                    taken[i] = true;
                    break;
                }
    free(taken);
    free(data->prompts);
    data->prompts = sorted;
    return EXIT_CODE_OK;
}

int measure_data_read(measure_data *data, const measure_data_params *params)
{
    int code = EXIT_CODE_OK;

    if (!params->files.n && !params->tasks.n)
        return fail(EXIT_CODE_USAGE, "no prompts; give --data FILE or --task NAME=PATH");
    for (size_t i = 0; i < params->files.n && !code; i++)
        code = read_data(data, params->files.items[i], params);
    for (size_t i = 0; i < params->tasks.n && !code; i++)
        code = read_task(data, params->tasks.items[i], params);
    return code ? code : take_turns(data);
}

uint64_t measure_data_hash(const measure_data *data)
{
    uint64_t hash = FNV_START;

    for (size_t i = 0; i < data->n_prompts; i++) {
        const measure_prompt *p = &data->prompts[i];
        char wanted[64];
        int n = snprintf(wanted, sizeof(wanted), "%" PRId64 " %.9g", p->max_tokens, p->temperature);

        hash = fnv_hash(hash, p->task, strlen(p->task) + 1);
        hash = fnv_hash(hash, p->text, p->n_bytes + 1);
        hash = fnv_hash(hash, wanted, (size_t)n + 1);
    }
    return hash;
}

void measure_data_free(measure_data *data)
{
    for (size_t i = 0; i < data->n_prompts; i++) {
        free(data->prompts[i].task);
        free(data->prompts[i].source);
        free(data->prompts[i].text);
    }
    for (size_t i = 0; i < data->n_tasks; i++)
        free(data->tasks[i]);
    for (size_t i = 0; i < data->n_files; i++)
        free(data->files[i]);
    free(data->prompts);
    free(data->tasks);
    free(data->files);
    *data = (measure_data){0};
}

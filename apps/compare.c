/* `outrider compare`: results of measure or bench of several machines, drivers or models side by side.
 * What can't be compared is named with the reason, and left out. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "commands.h"
#include "compare.h"
#include "html.h"
#include "measure.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "report_file.h"

struct settings {
    option_list files;
    const char *html;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"--html"}, OPTION_TEXT, AT(html), "FILE", 0, 0,
     "a page for a browser, too"},
};
/* clang-format on */

static const command_line line = {
    .name = "compare",
    .usage = "A.json B.json... [--html FILE]",
    .about =
        "Shows results that 'outrider measure --json' or 'outrider bench --json' wrote side by\n"
        "side: machines, drivers, drafts or targets. What stands in brackets is the ratio to A.\n"
        "Two results can be compared when they are of the same prompts and options, and the\n"
        "models are the same or the device is: else no difference could be put down to either.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .takes_arguments = true,
    .argument_offset = AT(files),
};

static const char *string_of(const json_t *o, const char *object, const char *key)
{
    const json_t *from = object ? json_object_get(o, object) : o;
    const char *s = json_string_value(json_object_get(from, key));

    return s ? s : "-";
}

/* ------------------------------------------------------------------------- what may be compared */

/* What neither has is the same. */
static bool same(const json_t *a, const json_t *b, const char *object, const char *key)
{
    const json_t *x = json_object_get(a, object), *y = json_object_get(b, object);

    if (key) {
        x = json_object_get(x, key);
        y = json_object_get(y, key);
    }
    return (!x && !y) || json_equal(x, y);
}

/* A file of the same name with other contents: nobody can have meant that. */
static bool is_other_file(const json_t *a, const json_t *b, const char *model)
{
    return !same(a, b, model, "fnv1a64") && same(a, b, model, "name");
}

static void refuse(compare_result *b, const char *reason, const char *mine, const char *theirs)
{
    text_printf(&b->refused, "%s", reason);
    if (!mine)
        return;
    text_printf(&b->refused, " (");
    text_append_printable(&b->refused, theirs, strlen(theirs), 0);
    text_printf(&b->refused, ", not ");
    text_append_printable(&b->refused, mine, strlen(mine), 0);
    text_printf(&b->refused, ")");
}

void compare_check(const compare_result *a, compare_result *b)
{
    const json_t *x = a->root, *y = b->root;
    bool same_models = same(x, y, "model", "fnv1a64") && same(x, y, "draft", "fnv1a64");
    bool same_device = same(x, y, "device", "name") && same(x, y, "draft_device", "name") &&
                       same(x, y, "driver", "info") && same(x, y, "driver", "version");

    if (strcmp(string_of(x, NULL, "schema"), string_of(y, NULL, "schema")) != 0)
        refuse(b, "another schema", string_of(x, NULL, "schema"), string_of(y, NULL, "schema"));
    else if (!same(x, y, "data", "fnv1a64"))
        refuse(b, "other prompts", string_of(x, "data", "fnv1a64"),
               string_of(y, "data", "fnv1a64"));
    else if (!same(x, y, "options", NULL))
        refuse(b, "measured with " MEASURE_OTHER_OPTIONS, NULL, NULL);
    else if (!same(x, y, "depth", NULL) || !same(x, y, "cache_type", NULL))
        refuse(b, "measured with another depth or cache type", NULL, NULL);
    else if (!same(x, y, "verify", NULL))
        refuse(b, "measured with another rule of verification", string_of(x, NULL, "verify"),
               string_of(y, NULL, "verify"));
    else if (is_other_file(x, y, "model"))
        refuse(b, "another file of the target's name", string_of(x, "model", "fnv1a64"),
               string_of(y, "model", "fnv1a64"));
    else if (is_other_file(x, y, "draft"))
        refuse(b, "another file of the draft's name", string_of(x, "draft", "fnv1a64"),
               string_of(y, "draft", "fnv1a64"));
    else if (!same_models && !same_device)
        refuse(b, "both its models and its device or driver are others", NULL, NULL);
}

static int read_result(compare_result *r)
{
    json_error_t error;
    const char *schema;

    r->root = json_load_file(r->path, 0, &error);
    schema = string_of(r->root, NULL, "schema");
    if (!r->root)
        return fail(EXIT_CODE_INPUT, "%s is no JSON file: %s", r->path, error.text);
    if (strncmp(schema, "outrider-", 9) != 0)
        return fail(EXIT_CODE_INPUT,
                    "%s was written neither by 'outrider measure --json' nor by 'outrider bench "
                    "--json'",
                    r->path);
    if (r->letter == 'A' && strcmp(schema, BENCH_SCHEMA) != 0 &&
        strcmp(schema, MEASURE_SCHEMA) != 0)
        return fail(EXIT_CODE_INPUT, "%s has the schema '%s', which this version doesn't know",
                    r->path, schema);
    return EXIT_CODE_OK;
}

/* -------------------------------------------------------------------------------------- showing */

static void add_part(text *t, const char *s, bool as_html)
{
    if (as_html)
        html_escape(t, s);
    else
        text_append_printable(t, s, strlen(s), 0);
}

/* "A: path, target with draft, device, driver, outrider 0.1.0, 12 of 48 prompts" */
static void add_source(text *t, const compare_result *r, bool as_html)
{
    const json_t *measured = json_object_get(r->root, "measured");

    text_printf(t, "%c: ", r->letter);
    add_part(t, r->path, as_html);
    text_printf(t, ", ");
    add_part(t, string_of(r->root, "model", "name"), as_html);
    if (json_is_object(json_object_get(r->root, "draft"))) {
        text_printf(t, " with ");
        add_part(t, string_of(r->root, "draft", "name"), as_html);
    }
    text_printf(t, ", ");
    add_part(t, string_of(r->root, "device", "name"), as_html);
    text_printf(t, ", ");
    add_part(t, string_of(r->root, "driver", "info"), as_html);
    text_printf(t, ", outrider ");
    add_part(t, string_of(r->root, NULL, "version"), as_html);
    if (measured)
        text_printf(
            t, ", %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " prompts",
            json_integer_value(measured),
            json_integer_value(json_object_get(json_object_get(r->root, "data"), "prompts")));
    if (r->refused.n) {
        text_printf(t, ": not compared, ");
        add_part(t, text_string(&r->refused), as_html);
    }
}

static size_t shown_width(const text *t)
{
    size_t width = 0;

    for (size_t i = 0; i < t->n; i++)
        width += ((unsigned char)t->data[i] & 0xc0) != 0x80;
    return width;
}

static void add_text(text *t, const compare_table *table, const compare_result *results, size_t n)
{
    size_t widths[COMPARE_MAX + 1] = {0}, column;

    for (size_t i = 0; i < n; i++) {
        add_source(t, &results[i], false);
        text_printf(t, "\n");
    }
    for (size_t i = 0; i < table->n_rows; i++) {
        const compare_row *row = &table->rows[i];

        for (size_t k = 0; k < table->n_columns && !row->is_heading; k++) {
            size_t width = shown_width(&row->cells[k]);
            widths[k + 1] = width > widths[k + 1] ? width : widths[k + 1];
        }
        if (!row->is_heading && shown_width(&row->label) > widths[0])
            widths[0] = shown_width(&row->label);
    }
    text_printf(t, "%*s", (int)widths[0] + 2, "");
    column = 0;
    for (size_t i = 0; i < n; i++)
        if (!results[i].refused.n)
            text_printf(t, "  %*c", (int)widths[++column], results[i].letter);
    text_printf(t, "\n");
    for (size_t i = 0; i < table->n_rows; i++) {
        const compare_row *row = &table->rows[i];

        text_printf(t, row->is_heading ? "%s" : "  %s", text_string(&row->label));
        for (size_t k = 0; k < table->n_columns && !row->is_heading; k++) {
            size_t pad = widths[k + 1] - shown_width(&row->cells[k]) + 2;
            if (!k)
                pad += widths[0] - shown_width(&row->label);
            text_printf(t, "%*s%s", (int)pad, "", text_string(&row->cells[k]));
        }
        text_printf(t, "\n");
    }
}

/* On a narrow screen the line may break before a bracket only. */
static void add_cell(text *t, const char *content)
{
    const char *bracket = strstr(content, " (");
    char *before = strndup(content, bracket ? (size_t)(bracket - content) : strlen(content));

    t->failed |= !before;
    text_printf(t, "<span>");
    html_escape(t, before ? before : "");
    if (bracket) {
        text_printf(t, "</span> <span>");
        html_escape(t, bracket + 1);
    }
    text_printf(t, "</span>");
    free(before);
}

static void add_html(text *t, const compare_table *table, const compare_result *results, size_t n)
{
    html_begin(t, "Results side by side");
    for (size_t i = 0; i < n; i++) {
        text_printf(t, "<p%s>", results[i].refused.n ? " class=\"warn\"" : "");
        add_source(t, &results[i], true);
        text_printf(t, "</p>\n");
    }
    text_printf(t, "<div class=\"wide compare\"><table><thead><tr><th></th>");
    for (size_t i = 0; i < n; i++)
        if (!results[i].refused.n)
            text_printf(t, "<th>%c</th>", results[i].letter);
    text_printf(t, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < table->n_rows; i++) {
        const compare_row *row = &table->rows[i];

        text_printf(t, row->is_heading ? "<tr class=\"task\"><th scope=\"rowgroup\">" : "<tr><td>");
        html_escape(t, text_string(&row->label));
        text_printf(t, row->is_heading ? "</th>" : "</td>");
        for (size_t k = 0; k < table->n_columns; k++) {
            text_printf(t, "<td>");
            add_cell(t, text_string(&row->cells[k]));
            text_printf(t, "</td>");
        }
        text_printf(t, "</tr>\n");
    }
    text_printf(t, "</tbody></table></div>\n<p class=\"faint\">In brackets: the ratio to A, or a "
                   "95&nbsp;%% interval.</p>\n");
    html_end(t);
}

static int show(const compare_result *results, size_t n, const char *html)
{
    compare_table table = {0};
    text t = {0};
    int code = EXIT_CODE_OK;

    compare_make_table(&table, results, n);
    if (table.failed) {
        code = fail_memory();
    } else {
        if (html) {
            add_html(&t, &table, results, n);
            code = report_file_write(html, &t);
            text_free(&t);
        }
        if (!code && !(html && strcmp(html, "-") == 0)) {
            add_text(&t, &table, results, n);
            code = t.failed ? fail_memory() : EXIT_CODE_OK;
            output_write(text_string(&t), t.n);
        }
    }
    text_free(&t);
    compare_free_table(&table);
    return code;
}

int command_compare(int argc, char **argv)
{
    struct settings s = {0};
    compare_result results[COMPARE_MAX] = {{0}};
    size_t n = 0, n_refused = 0;
    int code;

    if (!options_parse(&line, argc, argv, &s, &code))
        goto done;
    if (s.files.n < 2 || s.files.n > COMPARE_MAX)
        code = fail(EXIT_CODE_USAGE, "compare needs 2 to %d files that --json wrote", COMPARE_MAX);
    if (!code)
        code = report_file_check_apart(s.html, s.files.items, s.files.n);
    if (!code)
        code = report_file_check(s.html);
    for (size_t i = 0; i < s.files.n && !code; i++) {
        compare_result *r = &results[n++];

        *r = (compare_result){.path = s.files.items[i], .letter = (char)('A' + i)};
        code = read_result(r);
        if (!code && i)
            compare_check(&results[0], r);
        n_refused += r->refused.n != 0;
    }
    if (code)
        goto done;
    if (n_refused + 1 < n)
        code = show(results, n, s.html);
    for (size_t i = 1; i < n; i++)
        if (results[i].refused.n)
            code = fail(EXIT_CODE_INPUT, "%s can't be compared with %s: %s", results[i].path,
                        results[0].path, text_string(&results[i].refused));
done:
    for (size_t i = 0; i < n; i++) {
        json_decref(results[i].root);
        text_free(&results[i].refused);
    }
    free(s.files.items);
    return output_finish(code);
}

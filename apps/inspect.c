/* `outrider inspect`: what is in a GGUF file, and whether it can run. Reads the file through gguf/
 * alone, so it works where there is no Vulkan. The file is untrusted: what it holds is escaped on
 * its way out, and long arrays are cut. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "report.h"
#include "text.h"

#include "gguf.h"
#include "vocab.h"

#define ARRAY_SHOWN 8    /* elements of an array that are shown */
#define STRING_SHOWN 160 /* bytes of a string in the text form */

struct settings {
    const char *model, *file;
    bool json, tensors;
};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const option options[] = {
    {{"-m", "--model"}, OPTION_TEXT, AT(model), "FILE", 0, 0, "the file, as an option"},
    {{"--tensors"}, OPTION_SET, AT(tensors), NULL, 0, 0, "list the tensors too"},
    {{"--json"}, OPTION_SET, AT(json), NULL, 0, 0, "print one JSON object, tensors included"},
};
/* clang-format on */

static const command_line line = {
    .name = "inspect",
    .usage = "FILE [--tensors] [--json]",
    .about =
        "Shows metadata, tensors and tensor formats of a GGUF file, and says whether it can run\n"
        "on a GPU. Of a split model any shard may be given. Needs no Vulkan.\n",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .notes = "Long arrays are cut to their first 8 elements.\n",
    .takes_argument = true,
    .argument_offset = AT(file),
};

/* What the runtime has beside every tensor format that the reader knows; tests/apps holds it against
 * what really loads. */
static const char *const gpu_architectures[] = {"llama"};

#define MAX_FORMATS 32

struct format_share {
    enum tensor_format format;
    uint64_t n_tensors, n_elements, n_bytes;
};

/* Everything that both output forms show. */
struct summary {
    gguf_string architecture, name;
    uint64_t n_parameters, n_tensor_bytes;
    struct format_share formats[MAX_FORMATS]; /* by bytes, largest first */
    size_t n_formats;
    char problem[600]; /* why it can't run, "" if it can */
    char tokenizer[96];
    uint32_t n_vocab;
};

static int by_bytes(const void *a, const void *b)
{
    const struct format_share *x = a, *y = b;

    return (x->n_bytes < y->n_bytes) - (x->n_bytes > y->n_bytes);
}

static void count_formats(const gguf_file *file, struct summary *s)
{
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        size_t k = 0;

        while (k < s->n_formats && s->formats[k].format != tensor->format)
            k++;
        if (k == MAX_FORMATS)
            continue;
        if (k == s->n_formats)
            s->formats[s->n_formats++].format = tensor->format;
        s->formats[k].n_tensors++;
        s->formats[k].n_elements += tensor->n_elements;
        s->formats[k].n_bytes += tensor->size_bytes;
        s->n_parameters += tensor->n_elements;
        s->n_tensor_bytes += tensor->size_bytes;
    }
    qsort(s->formats, s->n_formats, sizeof(s->formats[0]), by_bytes);
}

static bool architecture_runs(gguf_string name)
{
    for (size_t i = 0; i < sizeof(gpu_architectures) / sizeof(gpu_architectures[0]); i++) {
        if (strlen(gpu_architectures[i]) == name.length &&
            memcmp(gpu_architectures[i], name.data, name.length) == 0)
            return true;
    }
    return false;
}

/* Names what stands in the way, first thing first. */
static void find_problem(const gguf_file *file, struct summary *s)
{
    static const char *const needed[] = {"token_embd.weight", "output_norm.weight"};
    gguf_error error = {0};
    vocab *vocabulary = NULL;

    if (vocab_load(file, &vocabulary, &error)) {
        const char *pre = vocab_pre_name(vocabulary);

        s->n_vocab = vocab_size(vocabulary);
        if (vocab_model_kind(vocabulary) == VOCAB_SPM)
            snprintf(s->tokenizer, sizeof(s->tokenizer), "SPM");
        else
            snprintf(s->tokenizer, sizeof(s->tokenizer), "byte-level BPE, pre-split '%.64s'", pre);
    }
    vocab_free(&vocabulary);
    if (!architecture_runs(s->architecture)) {
        if (s->architecture.length)
            snprintf(s->problem, sizeof(s->problem), "the architecture '%.*s' isn't supported",
                     (int)(s->architecture.length < 64 ? s->architecture.length : 64),
                     s->architecture.data);
        else
            snprintf(s->problem, sizeof(s->problem), "it names no architecture");
        return;
    }
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (gguf_find_tensor(file, needed[i]))
            continue;
        snprintf(s->problem, sizeof(s->problem), "it has no tensor '%s'", needed[i]);
        return;
    }
    if (!s->n_vocab)
        snprintf(s->problem, sizeof(s->problem), "%s", error.text);
}

static void summarize(const gguf_file *file, struct summary *s)
{
    gguf_error error = {0};
    bool present;

    /* Keys of a wrong type are shown as they are below, and count as absent here. */
    if (!gguf_get_string(file, "general.architecture", &s->architecture, &present, &error) ||
        !present)
        s->architecture = (gguf_string){"", 0};
    if (!gguf_get_string(file, "general.name", &s->name, &present, &error) || !present)
        s->name = (gguf_string){"", 0};
    count_formats(file, s);
    find_problem(file, s);
}

/* --------------------------------------------------------------------------------- as text */

static void add_string(text *t, gguf_string s)
{
    size_t n = s.length < STRING_SHOWN ? s.length : STRING_SHOWN;

    /* Not in the middle of a character. */
    while (n < s.length && n > 0 && ((unsigned char)s.data[n] & 0xc0) == 0x80)
        n--;
    text_append(t, "\"", 1);
    text_append_printable(t, s.data, n, PRINTABLE_QUOTED);
    text_append(t, "\"", 1);
    if (n < s.length)
        text_printf(t, "... (%zu bytes)", s.length);
}

static void add_element(text *t, const gguf_file *file, const gguf_key *key, uint64_t i)
{
    gguf_string s;
    uint64_t u;
    int64_t v;
    double d;
    bool b;

    if (key->element_type == GGUF_TYPE_STRING && gguf_element_string(file, key, i, &s))
        add_string(t, s);
    else if (key->element_type == GGUF_TYPE_BOOL && gguf_element_bool(file, key, i, &b))
        text_printf(t, "%s", b ? "true" : "false");
    else if (key->element_type == GGUF_TYPE_F32 && gguf_element_f64(file, key, i, &d))
        text_printf(t, "%.9g", d);
    else if (key->element_type == GGUF_TYPE_F64 && gguf_element_f64(file, key, i, &d))
        text_printf(t, "%.17g", d);
    else if (gguf_element_i64(file, key, i, &v))
        text_printf(t, "%" PRId64, v);
    else if (gguf_element_u64(file, key, i, &u))
        text_printf(t, "%" PRIu64, u);
    else
        text_printf(t, "?");
}

static void add_key(text *t, const gguf_file *file, const gguf_key *key)
{
    uint64_t n = key->count < ARRAY_SHOWN ? key->count : ARRAY_SHOWN;

    text_printf(t, "  ");
    text_append_printable(t, key->name.data, key->name.length, 0);
    if (key->type != GGUF_TYPE_ARRAY) {
        text_printf(t, "  %s  ", gguf_type_name(key->type));
        add_element(t, file, key, 0);
    } else {
        text_printf(t, "  %s[%" PRIu64 "]  [", gguf_type_name(key->element_type), key->count);
        for (uint64_t i = 0; i < n; i++) {
            text_printf(t, "%s", i ? ", " : "");
            add_element(t, file, key, i);
        }
        text_printf(t, "%s]", n < key->count ? ", ..." : "");
    }
    text_printf(t, "\n");
}

static void add_tensor(text *t, const gguf_tensor *tensor)
{
    text_printf(t, "  ");
    text_append_printable(t, tensor->name, strlen(tensor->name), 0);
    text_printf(t, "  %s  ", format_name(tensor->format));
    for (uint32_t k = 0; k < tensor->n_dims; k++)
        text_printf(t, "%s%" PRIu64, k ? " x " : "", tensor->dims[k]);
    text_printf(t, "  %s\n", bytes_text(tensor->size_bytes).s);
}

static void add_head(text *t, const gguf_file *file, const struct summary *s)
{
    const char *path = gguf_path(file);

    text_printf(t, "file          ");
    text_append_printable(t, path, strlen(path), 0);
    text_printf(t,
                "\n              %s, GGUF version %" PRIu32 ", %" PRIu32 " file%s, alignment "
                "%" PRIu64 "\nname          ",
                bytes_text(gguf_size_bytes(file)).s, gguf_version(file), gguf_n_shards(file),
                gguf_n_shards(file) == 1 ? "" : "s", gguf_alignment(file));
    add_string(t, s->name);
    text_printf(t, "\narchitecture  ");
    add_string(t, s->architecture);
    text_printf(t, "\nparameters    %s in %" PRIu64 " tensors\nformats      ",
                count_text(s->n_parameters).s, gguf_n_tensors(file));
    for (size_t i = 0; i < s->n_formats; i++)
        text_printf(t, "%s %s %.1f %%", i ? "," : "", format_name(s->formats[i].format),
                    100.0 * (double)s->formats[i].n_bytes / (double)s->n_tensor_bytes);
    text_printf(t, "%s\ntokeniser     ", s->n_formats ? " (of the bytes)" : " none");
    if (s->n_vocab)
        text_printf(t, "%s, %" PRIu32 " tokens", s->tokenizer, s->n_vocab);
    else
        text_printf(t, "none that can be used");
    text_printf(t, "\nGPU           ");
    if (s->problem[0]) {
        text_printf(t, "can't run: ");
        text_append_printable(t, s->problem, strlen(s->problem), 0);
    } else {
        text_printf(t, "runs, with %s of weights", bytes_text(s->n_tensor_bytes).s);
    }
    text_printf(t, "\n");
}

static int print_text(const gguf_file *file, const struct summary *s, bool with_tensors)
{
    text t = {0};
    int code = EXIT_CODE_OK;

    add_head(&t, file, s);
    text_printf(&t, "metadata      %" PRIu64 " keys\n", gguf_n_keys(file));
    for (uint64_t i = 0; i < gguf_n_keys(file); i++)
        add_key(&t, file, gguf_key_at(file, i));
    if (with_tensors)
        text_printf(&t, "tensors       %" PRIu64 "\n", gguf_n_tensors(file));
    for (uint64_t i = 0; with_tensors && i < gguf_n_tensors(file); i++)
        add_tensor(&t, gguf_tensor_at(file, i));
    if (t.failed)
        code = fail_memory();
    else
        output_write(text_string(&t), t.n);
    text_free(&t);
    return output_finish(code);
}

/* --------------------------------------------------------------------------------- as JSON */

static json_t *element_value(const gguf_file *file, const gguf_key *key, uint64_t i)
{
    gguf_string s;
    uint64_t u;
    int64_t v;
    double d;
    bool b;
    char digits[24];

    switch (key->element_type) {
    case GGUF_TYPE_STRING:
        return gguf_element_string(file, key, i, &s) ? json_text(s.data, s.length) : json_null();
    case GGUF_TYPE_BOOL:
        return gguf_element_bool(file, key, i, &b) ? json_boolean(b) : json_null();
    case GGUF_TYPE_F32:
    case GGUF_TYPE_F64:
        return gguf_element_f64(file, key, i, &d) && isfinite(d) ? json_real(d) : json_null();
    default:
        if (gguf_element_i64(file, key, i, &v))
            return json_integer(v);
        if (!gguf_element_u64(file, key, i, &u))
            return json_null();
        /* Above what a JSON reader's integers hold. */
        snprintf(digits, sizeof(digits), "%" PRIu64, u);
        return json_string(digits);
    }
}

static json_t *key_object(const gguf_file *file, const gguf_key *key)
{
    json_t *object = json_object(), *values;
    int bad = 0;

    bad |= json_object_set_new(object, "key", json_text(key->name.data, key->name.length));
    bad |= json_object_set_new(object, "type", json_string(gguf_type_name(key->type)));
    if (key->type != GGUF_TYPE_ARRAY) {
        bad |= json_object_set_new(object, "value", element_value(file, key, 0));
    } else {
        values = json_array();
        for (uint64_t i = 0; i < key->count && i < ARRAY_SHOWN; i++)
            bad |= json_array_append_new(values, element_value(file, key, i));
        bad |= json_object_set_new(object, "element_type",
                                   json_string(gguf_type_name(key->element_type)));
        bad |= json_object_set_new(object, "count", json_integer((json_int_t)key->count));
        bad |= json_object_set_new(object, "first_values", values);
    }
    if (bad) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *tensor_object(const gguf_tensor *tensor)
{
    json_t *dims = json_array();

    for (uint32_t k = 0; k < tensor->n_dims; k++)
        json_array_append_new(dims, json_integer((json_int_t)tensor->dims[k]));
    return json_pack("{s:o,s:s,s:o,s:I,s:I,s:I}", "name",
                     json_text(tensor->name, strlen(tensor->name)), "format",
                     format_name(tensor->format), "dims", dims, "size_bytes",
                     (json_int_t)tensor->size_bytes, "offset", (json_int_t)tensor->offset, "shard",
                     (json_int_t)tensor->shard);
}

static json_t *format_object(const struct summary *s, const struct format_share *share)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:f}", "format", format_name(share->format), "tensors",
                     (json_int_t)share->n_tensors, "elements", (json_int_t)share->n_elements,
                     "bytes", (json_int_t)share->n_bytes, "share",
                     (double)share->n_bytes / (double)s->n_tensor_bytes);
}

static int print_json(const gguf_file *file, const struct summary *s)
{
    json_t *formats = json_array(), *keys = json_array(), *tensors = json_array(), *object;
    const char *path = gguf_path(file);
    int bad = 0;

    for (size_t i = 0; i < s->n_formats; i++)
        bad |= json_array_append_new(formats, format_object(s, &s->formats[i]));
    for (uint64_t i = 0; i < gguf_n_keys(file); i++)
        bad |= json_array_append_new(keys, key_object(file, gguf_key_at(file, i)));
    for (uint64_t i = 0; i < gguf_n_tensors(file); i++)
        bad |= json_array_append_new(tensors, tensor_object(gguf_tensor_at(file, i)));
    object = json_pack("{s:o,s:I,s:I,s:I,s:I,s:o,s:o,s:I,s:o,s:o,s:I,s:b,s:o,s:o,s:o}", "path",
                       json_text(path, strlen(path)), "version", (json_int_t)gguf_version(file),
                       "shards", (json_int_t)gguf_n_shards(file), "size_bytes",
                       (json_int_t)gguf_size_bytes(file), "alignment",
                       (json_int_t)gguf_alignment(file), "name",
                       json_text(s->name.data, s->name.length), "architecture",
                       json_text(s->architecture.data, s->architecture.length), "n_parameters",
                       (json_int_t)s->n_parameters, "formats", formats, "tokenizer",
                       s->n_vocab ? json_text(s->tokenizer, strlen(s->tokenizer)) : json_null(),
                       "n_vocab", (json_int_t)s->n_vocab, "runs", s->problem[0] == '\0', "problem",
                       s->problem[0] ? json_text(s->problem, strlen(s->problem)) : json_null(),
                       "metadata", keys, "tensors", tensors);
    if (bad && object) {
        json_decref(object);
        object = NULL;
    }
    return output_finish(output_json(object) ? EXIT_CODE_OK : EXIT_CODE_FAILED);
}

int command_inspect(int argc, char **argv)
{
    struct settings settings = {0};
    struct summary s = {0};
    gguf_error error = {0};
    gguf_file *file = NULL;
    int code;

    if (!options_parse(&line, argc, argv, &settings, &code))
        return code;
    if (!settings.file == !settings.model)
        return fail(EXIT_CODE_USAGE, "give one GGUF file, as in 'outrider inspect model.gguf'");
    if (!gguf_open(settings.file ? settings.file : settings.model, &file, &error))
        return fail(error.is_out_of_memory ? EXIT_CODE_FAILED : EXIT_CODE_INPUT, "%s", error.text);
    summarize(file, &s);
    code = settings.json ? print_json(file, &s) : print_text(file, &s, settings.tensors);
    gguf_close(&file);
    return code;
}

/* Stored tunings: written whole or not at all, used only when they are ours and possible; otr_tune
 * and its ends. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <check.h>

#include "../folder.h"
#include "../suite.h"
#include "cache_file.h"
#include "capture.h"
#include "models.h"
#include "session.h"
#include "tuning_file.h"

static char folder[64];
static char *path; /* of the tuning there, once a test has made it */
static capture log_of_test;
static otr_context *context;
static gpu *g;

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/tmp/outrider-tune-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    path = NULL;
}

static void tear_down(void)
{
    folder_remove(folder);
    free(path);
}

/* Files in the folder whose name has `part`; *path becomes the last one's. */
static int count_files(const char *part)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int n = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || !strstr(entry->d_name, part))
            continue;
        free(path);
        ck_assert_int_gt(asprintf(&path, "%s/%s", folder, entry->d_name), 0);
        n++;
    }
    closedir(dir);
    return n;
}

static void open_device(const char *where)
{
    uint32_t index;

    context = capture_context(&log_of_test, false, where);
    ck_assert_int_eq(otr_device_find(context, NULL, &index), OTR_OK);
    ck_assert_int_eq(gpu_open(context, index, false, &g), OTR_OK);
}

static void close_device(void)
{
    gpu_close(&g);
    otr_context_destroy(&context);
}

/* Another tuning than the class's, in every setting that has another choice. */
static tuning other_tuning(void)
{
    tuning t = *tuning_of_gpu(g), choices[TUNING_MAX_CHOICES];

    for (size_t i = 0; i < N_TUNING_SETTINGS; i++) {
        uint32_t n = tuning_choices(g, &t, &tuning_settings[i], choices);
        if (n)
            t = choices[n - 1];
    }
    return t;
}

static bool same(const tuning *a, const tuning *b)
{
    return !memcmp(a, b, offsetof(tuning, prefill_rows)) && a->prefill_rows == b->prefill_rows;
}

/* What the device has when it is opened anew. */
static tuning reopened(const char *where)
{
    open_device(where);
    tuning t = tuning_find(g);
    close_device();
    return t;
}

static void store_other(void)
{
    open_device(folder);
    tuning t = other_tuning();
    ck_assert_int_eq(tuning_file_store(g, &t, false), OTR_OK);
    close_device();
    ck_assert_int_eq(count_files(".tuning"), 1);
}

static void check_ignored(const char *problem)
{
    open_device(folder);
    tuning t = tuning_find(g);
    ck_assert(same(&t, tuning_of_gpu(g)));
    ck_assert_msg(capture_has(&log_of_test, "1 the tuning in "), "no warning:\n%s",
                  log_of_test.text);
    ck_assert_msg(capture_has(&log_of_test, problem), "no '%s' in:\n%s", problem, log_of_test.text);
    close_device();
}

START_TEST(stored_tuning_comes_back)
{
    struct stat status;

    open_device(folder);
    tuning want = other_tuning(), own = *tuning_of_gpu(g), got;
    ck_assert(!same(&want, &own));
    got = tuning_find(g);
    ck_assert(same(&got, &own));
    ck_assert_int_eq(tuning_file_store(g, &want, true), OTR_OK); /* only a try */
    ck_assert_int_eq(count_files(".tuning"), 0);
    ck_assert_int_eq(tuning_file_store(g, &want, false), OTR_OK);
    close_device();
    ck_assert_int_eq(count_files(".tuning"), 1);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 0777, 0600);
    got = reopened(folder);
    ck_assert(same(&got, &want));
    ck_assert(!capture_has(&log_of_test, "1 the tuning"));
    got = reopened("");
    ck_assert(same(&got, &own));
    setenv("OUTRIDER_DEBUG", "gpu", 1); /* other kernels: another file */
    got = reopened(folder);
    ck_assert_str_eq(got.device_class, "gpu");
    ck_assert(!capture_has(&log_of_test, "1 the tuning"));
}
END_TEST

START_TEST(reset_removes_it)
{
    bool existed;

    store_other();
    open_device(folder);
    ck_assert_int_eq(otr_tune_reset(context, g->index, &existed), OTR_OK);
    ck_assert(existed);
    tuning t = tuning_find(g);
    ck_assert(same(&t, tuning_of_gpu(g)));
    ck_assert_int_eq(count_files(".tuning"), 0);
    ck_assert_int_eq(otr_tune_reset(context, g->index, &existed), OTR_OK);
    ck_assert(!existed);
    ck_assert_int_eq(otr_tune_reset(context, g->index, NULL), OTR_OK);
    ck_assert_int_eq(otr_tune_reset(context, 99, NULL), OTR_ERROR_NO_DEVICE);
    ck_assert_int_eq(otr_tune_reset(NULL, 0, NULL), OTR_ERROR_INVALID_ARGUMENT);
    close_device();
}
END_TEST

#define FILE_BYTES 128
#define AT_WORDS 64 /* of the settings */
#define AFTER_WORDS 116
#define AT_CHECKSUM 120

static void read_whole(uint8_t bytes[FILE_BYTES])
{
    FILE *file = fopen(path, "rb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(bytes, 1, FILE_BYTES, file), FILE_BYTES);
    ck_assert_int_eq(fgetc(file), EOF);
    fclose(file);
}

static void write_whole(const uint8_t bytes[FILE_BYTES], size_t n)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static void seal(uint8_t bytes[FILE_BYTES])
{
    uint64_t checksum = cache_hash(CACHE_HASH_START, bytes, AT_CHECKSUM);
    memcpy(bytes + AT_CHECKSUM, &checksum, sizeof checksum);
}

START_TEST(damaged_files_are_ignored)
{
    uint8_t bytes[FILE_BYTES], changed[FILE_BYTES];

    store_other();
    read_whole(bytes);
    for (size_t i = 0; i < FILE_BYTES; i++) { /* any byte */
        memcpy(changed, bytes, sizeof changed);
        changed[i] ^= 0x5a;
        write_whole(changed, FILE_BYTES);
        check_ignored(i < 12 ? "of another version" : "it");
    }
    for (size_t n = 0; n < FILE_BYTES; n += 17) {
        write_whole(bytes, n);
        check_ignored("its length is wrong");
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* must not wait for a writer */
    check_ignored("it is no regular file");
    /* A new one takes its place. */
    store_other();
    open_device(folder);
    tuning t = tuning_find(g), want = other_tuning();
    ck_assert(same(&t, &want));
    close_device();
}
END_TEST

/* The checksum is right: what is in the file must be refused by itself. */
START_TEST(foreign_files_are_ignored)
{
    static const struct {
        size_t at;
        const char *problem;
    } cases[] = {
        {8, "of another version"},       {12, "another driver or build"},
        {16, "another driver or build"}, {24, "of another device"},
        {40, "of another device"},       {56, "of another device"},
        {60, "of another version"},
    };
    uint8_t bytes[FILE_BYTES], changed[FILE_BYTES];

    store_other();
    read_whole(bytes);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(changed, bytes, sizeof changed);
        changed[cases[i].at] ^= 1;
        seal(changed);
        write_whole(changed, FILE_BYTES);
        check_ignored(cases[i].problem);
    }
}
END_TEST

START_TEST(impossible_values_are_ignored)
{
    static const uint32_t values[] = {0, 3, 5, 7, 1000, 1u << 20, 0xffffffffu};
    uint8_t bytes[FILE_BYTES], changed[FILE_BYTES];

    store_other();
    read_whole(bytes);
    for (size_t at = AT_WORDS; at < AFTER_WORDS; at += 4)
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            memcpy(changed, bytes, sizeof changed);
            memcpy(changed + at, &values[i], 4);
            if (!memcmp(changed, bytes, sizeof changed))
                continue;
            seal(changed);
            write_whole(changed, FILE_BYTES);
            check_ignored("its choices are not possible here");
        }
}
END_TEST

static void check_error(otr_result result, const char *text)
{
    char line[64];

    ck_assert_int_eq(result, OTR_ERROR_IO);
    snprintf(line, sizeof line, "0 the tuning can't be written");
    ck_assert_msg(capture_has(&log_of_test, line), "%s", log_of_test.text);
    ck_assert_msg(capture_has(&log_of_test, text), "no '%s' in %s", text, log_of_test.text);
}

START_TEST(folders_that_cannot_be_written_are_an_error)
{
    const bool is_root = geteuid() == 0;
    otr_result result;

    open_device("/proc/outrider");
    check_error(tuning_file_store(g, tuning_of_gpu(g), false), "/proc/outrider/");
    close_device();
    open_device(folder);
    ck_assert_int_eq(chmod(folder, 0555), 0);
    if (is_root) { /* who may write everywhere: as somebody else then */
        ck_assert_int_eq(setegid(65534), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    }
    result = tuning_file_store(g, tuning_of_gpu(g), true);
    if (is_root) {
        ck_assert_int_eq(seteuid(0), 0);
        ck_assert_int_eq(setegid(0), 0);
        prctl(PR_SET_DUMPABLE, 1);
    }
    check_error(result, "Permission denied");
    close_device();
    open_device("");
    ck_assert_int_eq(tuning_file_store(g, tuning_of_gpu(g), true), OTR_ERROR_IO);
    ck_assert(capture_has(&log_of_test, "0 there is no folder for the tuning"));
    close_device();
    ck_assert_int_eq(count_files(""), 0);
}
END_TEST

static otr_result store_on_full_disk(const tuning *t, bool try)
{
    struct rlimit limit = {.rlim_cur = 50, .rlim_max = RLIM_INFINITY};
    otr_result result;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    result = tuning_file_store(g, t, try);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return result;
}

START_TEST(full_disk_is_an_error_and_changes_nothing)
{
    uint8_t before[FILE_BYTES], after[FILE_BYTES];

    open_device(folder);
    check_error(store_on_full_disk(tuning_of_gpu(g), true), "Free some space");
    ck_assert_int_eq(count_files(""), 0);
    check_error(store_on_full_disk(tuning_of_gpu(g), false), "File too large");
    ck_assert_int_eq(count_files(""), 0);
    close_device();
    store_other();
    read_whole(before);
    open_device(folder);
    check_error(store_on_full_disk(tuning_of_gpu(g), false), "File too large");
    close_device();
    ck_assert_int_eq(count_files(".tuning"), 1);
    read_whole(after);
    ck_assert_mem_eq(before, after, FILE_BYTES);
}
END_TEST

/* ---------------------------------------------------------------------------- otr_tune */

typedef struct seen {
    uint32_t n_settings, n_choices, n_chosen, n_calls;
    uint64_t stop_after; /* calls of the progress; 0: never */
    uint64_t done, total;
    char setting[64];
} seen;

static void on_result(const otr_tune_result *result, void *user)
{
    seen *s = user;
    bool is_first = strcmp(s->setting, result->setting) != 0;

    ck_assert_int_eq(result->is_default, is_first); /* comes first */
    snprintf(s->setting, sizeof s->setting, "%s", result->setting);
    s->n_settings += is_first;
    s->n_choices++;
    s->n_chosen += result->chosen;
    ck_assert_str_ne(result->choice, "");
    ck_assert_str_eq(result->detail, ""); /* all choices give the same bits */
    ck_assert_double_gt(result->ratio, 0);
    ck_assert_double_gt(result->decode_s + result->rows_s + result->prefill_s, 0);
    if (result->chosen && !is_first)
        ck_assert_double_lt(result->ratio, 1);
}

static bool on_progress(uint64_t done, uint64_t total, void *user)
{
    seen *s = user;

    ck_assert_uint_le(done, total);
    ck_assert_uint_ge(done, s->done);
    ck_assert(s->total == 0 || s->total == total);
    s->done = done;
    s->total = total;
    s->n_calls++;
    return !s->stop_after || s->n_calls < s->stop_after;
}

static otr_model *open_model(const char *where)
{
    context = capture_context(&log_of_test, true, where);
    return load_model(context, MODEL_STORIES);
}

static void close_model(otr_model **model)
{
    otr_model_destroy(model);
    ck_assert_uint_eq(otr_validation_message_count(context), 0);
    otr_context_destroy(&context);
}

START_TEST(tune_measures_and_stores)
{
    otr_tune_params params = otr_tune_params_default();
    otr_model *model = open_model(folder);
    seen s = {0};

    params.seconds = 0;
    params.on_progress = on_progress;
    params.progress_user = &s;
    ck_assert_int_eq(otr_tune(model, &params, on_result, &s), OTR_OK);
    ck_assert_uint_ge(s.n_settings, 5);
    ck_assert_uint_eq(s.n_chosen, s.n_settings);
    ck_assert_uint_eq(s.total, 10 * (s.n_choices - s.n_settings));
    ck_assert_uint_eq(s.done, s.total);
    const tuning now = tuning_find(model->gpu);
    otr_session *session = open_session(model, NULL, 64); /* it works */
    otr_session_destroy(&session);
    close_model(&model);
    ck_assert_int_eq(count_files(".tuning"), 1);
    const tuning later = reopened(folder);
    ck_assert(same(&now, &later));
}
END_TEST

/* A device that can't compile one of the choices of the setting. */
static PFN_vkCreateComputePipelines create_pipelines;
static uint32_t refused[2]; /* constants of rmsnorm */
static uint32_t n_refused;

static VkResult refuse(VkDevice device, VkPipelineCache cache, uint32_t n,
                       const VkComputePipelineCreateInfo *infos,
                       const VkAllocationCallbacks *allocator, VkPipeline *out)
{
    const VkSpecializationInfo *constants = infos->stage.pSpecializationInfo;

    if (constants->mapEntryCount == 2 && !memcmp(constants->pData, refused, sizeof refused)) {
        n_refused++;
        *out = VK_NULL_HANDLE;
        return VK_ERROR_UNKNOWN;
    }
    return create_pipelines(device, cache, n, infos, allocator, out);
}

typedef struct refusals {
    char choice[16];
    uint32_t n_results, n_refused, n_after;
} refusals;

static void count_refusals(const otr_tune_result *result, void *user)
{
    refusals *r = user;

    r->n_results++;
    r->n_after += r->n_refused > 0;
    if (strcmp(result->setting, "norm lanes") || strcmp(result->choice, r->choice)) {
        ck_assert_str_eq(result->detail, "");
        ck_assert_double_gt(result->ratio, 0);
        return;
    }
    r->n_refused++;
    ck_assert(!result->chosen && !result->is_default);
    ck_assert_ptr_nonnull(strstr(result->detail, "rmsnorm"));
    ck_assert_double_eq(result->ratio, 0);
    ck_assert_double_eq(result->decode_s + result->rows_s + result->prefill_s, 0);
}

START_TEST(what_the_device_refuses_is_left_out)
{
    otr_tune_params params = otr_tune_params_default();
    otr_model *model = open_model(folder);
    const tuning *own = tuning_of_gpu(model->gpu);
    tuning choices[TUNING_MAX_CHOICES];
    refusals r = {0};
    uint32_t n = 0;

    for (size_t i = 0; i < N_TUNING_SETTINGS; i++)
        if (!strcmp(tuning_settings[i].name, "norm lanes"))
            n = tuning_choices(model->gpu, own, &tuning_settings[i], choices);
    ck_assert_uint_gt(n, 2);
    refused[0] = choices[1].norm_lanes;
    refused[1] = own->norm_sums;
    snprintf(r.choice, sizeof r.choice, "%u", refused[0]);
    create_pipelines = model->gpu->vk.vkCreateComputePipelines;
    model->gpu->vk.vkCreateComputePipelines = refuse;
    params.seconds = 0;
    ck_assert_int_eq(otr_tune(model, &params, count_refusals, &r), OTR_OK);
    ck_assert_uint_gt(n_refused, 0);
    ck_assert_uint_eq(r.n_refused, 1);
    ck_assert_uint_gt(r.n_after, 3); /* it went on */
    ck_assert_uint_ne(tuning_find(model->gpu).norm_lanes, refused[0]);
    ck_assert(capture_has(&log_of_test, "0 rmsnorm"));
    close_model(&model);
    ck_assert_int_eq(count_files(".tuning"), 1);
}
END_TEST

START_TEST(cancelled_tune_stores_nothing)
{
    otr_tune_params params = otr_tune_params_default();
    otr_model *model = open_model(folder);
    seen s = {.stop_after = 4};

    params.seconds = 0;
    params.on_progress = on_progress;
    params.progress_user = &s;
    ck_assert_int_eq(otr_tune(model, &params, on_result, &s), OTR_ERROR_CANCELLED);
    ck_assert_uint_eq(s.n_calls, 4);
    ck_assert_int_eq(count_files(".tuning"), 0);
    const tuning now = tuning_find(model->gpu);
    ck_assert(same(&now, tuning_of_gpu(model->gpu)));
    close_model(&model);
    ck_assert_int_eq(count_files(".tuning"), 0);
}
END_TEST

/* Before anything is measured. */
START_TEST(tune_fails_at_once_where_it_cannot_store)
{
    otr_tune_params params = otr_tune_params_default();
    otr_model *model = open_model("/proc/outrider");
    seen s = {0};

    params.on_progress = on_progress;
    params.progress_user = &s;
    check_error(otr_tune(model, &params, on_result, &s), "/proc/outrider/");
    ck_assert_uint_eq(s.n_calls, 0);
    params.seconds = -1;
    ck_assert_int_eq(otr_tune(model, &params, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT);
    params.size = 0;
    ck_assert_int_eq(otr_tune(model, &params, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT);
    ck_assert_int_eq(otr_tune(NULL, NULL, NULL, NULL), OTR_ERROR_INVALID_ARGUMENT);
    close_model(&model);
}
END_TEST

/* Argument "files": only what needs no model. */
int main(int argc, char **argv)
{
    Suite *suite = suite_create("tune");
    TCase *files = tcase_create("files"), *tune = tcase_create("tune");

    tcase_add_checked_fixture(files, set_up, tear_down);
    tcase_set_timeout(files, 300);
    tcase_add_test(files, stored_tuning_comes_back);
    tcase_add_test(files, reset_removes_it);
    tcase_add_test(files, damaged_files_are_ignored);
    tcase_add_test(files, foreign_files_are_ignored);
    tcase_add_test(files, impossible_values_are_ignored);
    tcase_add_test(files, folders_that_cannot_be_written_are_an_error);
    tcase_add_test(files, full_disk_is_an_error_and_changes_nothing);
    suite_add_tcase(suite, files);
    tcase_add_checked_fixture(tune, set_up, tear_down);
    tcase_set_timeout(tune, 900);
    tcase_add_test(tune, tune_measures_and_stores);
    tcase_add_test(tune, what_the_device_refuses_is_left_out);
    tcase_add_test(tune, cancelled_tune_stores_nothing);
    tcase_add_test(tune, tune_fails_at_once_where_it_cannot_store);
    if (argc < 2 || strcmp(argv[1], "files") != 0)
        suite_add_tcase(suite, tune);
    return suite_run(suite);
}

/* liboutrider: local language models with speculative decoding on any Vulkan device.
 *
 * A context owns devices; a model is weights on one device; a session is a target, an optional
 * draft, their caches and recorded work. Text in, text out; the output is exactly the target's own.
 *
 * Conventions
 *   - Functions that can fail return otr_result. The detail, one line that names the file, tensor,
 *     option or device, is kept per context: otr_error_message. It also goes to the log callback.
 *   - Params structs begin with `size` and start from their *_default() value, so that a field
 *     added later breaks no program built before it.
 *   - Handles are opaque. Each *_destroy takes a pointer to the handle, sets it to NULL, and allows
 *     NULL. Order: sessions before their models, models before their context.
 *   - Threads: a context and its models may be used from several threads; a session by one at a
 *     time, except otr_session_cancel, which may be called from any thread and from signal handlers.
 *   - Strings are UTF-8. Times are in the unit that the name says. Token ids are int32_t.
 */
#ifndef OUTRIDER_OUTRIDER_H
#define OUTRIDER_OUTRIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(OTR_BUILD)
#define OTR_API __attribute__((visibility("default")))
#else
#define OTR_API
#endif

/* Most drafted tokens in a block (K). A target pass has at most OTR_MAX_DRAFT + 1 rows. */
#define OTR_MAX_DRAFT 16

typedef enum otr_result {
    OTR_OK = 0,
    OTR_ERROR_INVALID_ARGUMENT, /* a parameter is out of its range */
    OTR_ERROR_OUT_OF_MEMORY,    /* host or device memory */
    OTR_ERROR_IO,               /* a file can't be opened, read or written */
    OTR_ERROR_FORMAT,           /* a file or text is malformed */
    OTR_ERROR_UNSUPPORTED,      /* an architecture, tensor format or tokeniser we refuse by name */
    OTR_ERROR_NO_VULKAN,        /* no Vulkan loader, or no instance */
    OTR_ERROR_NO_DEVICE,        /* no device, none of that name, or one that is too weak */
    OTR_ERROR_DEVICE,           /* a Vulkan call failed */
    OTR_ERROR_DEVICE_LOST,      /* the device was lost; destroy the context */
    OTR_ERROR_TIMEOUT,          /* the device did not answer in time */
    OTR_ERROR_VOCABULARY,       /* draft and target have different vocabularies */
    OTR_ERROR_CONTEXT_FULL,     /* the prompt does not fit the context */
    OTR_ERROR_CANCELLED,        /* otr_session_cancel was called */
    OTR_ERROR_SELFTEST,         /* a kernel gave a wrong result */
} otr_result;
/* A short constant text, such as "out of memory". */
OTR_API const char *otr_result_string(otr_result result);

typedef enum otr_log_level {
    OTR_LOG_ERROR = 0,
    OTR_LOG_WARNING = 1,
    OTR_LOG_INFO = 2,
    OTR_LOG_DEBUG = 3,
} otr_log_level;
/* One line without a newline. May be called from any thread that uses the context; must not create or
 * destroy a context. */
typedef void (*otr_log_callback)(otr_log_level level, const char *message, void *user);

/* Called during long work; return false to cancel it (OTR_ERROR_CANCELLED). done and total are in
 * bytes for loading and tokens for prefill. */
typedef bool (*otr_progress_callback)(uint64_t done, uint64_t total, void *user);

/* "0.1.0" */
OTR_API const char *otr_version(void);

/* ------------------------------------------------------------------------------- context */

typedef struct otr_context otr_context;

typedef struct otr_context_params {
    size_t size;
    otr_log_callback log; /* NULL: nothing is logged */
    void *log_user;
    otr_log_level log_level; /* messages up to this level */
    /* Load VK_LAYER_KHRONOS_validation with synchronisation validation; its messages go to the log
     * as errors and are counted (otr_validation_message_count). Also on by
     * OUTRIDER_DEBUG=validation. OTR_ERROR_NO_VULKAN when the layer isn't installed. */
    bool validation;
    /* Folder of the pipeline cache, of what otr_tune and otr_selftest store, and of overlaps that
     * sessions measured. NULL:
     * $OUTRIDER_CACHE_DIR, $XDG_CACHE_HOME/outrider or ~/.cache/outrider. "": no cache on disk. */
    const char *cache_dir;
} otr_context_params;
OTR_API otr_context_params otr_context_params_default(void);

/* Loads Vulkan and lists the devices. On failure *context is NULL and the detail went to
 * params->log. No device at all is not a failure here (otr_device_count is 0). */
OTR_API otr_result otr_context_create(const otr_context_params *params, otr_context **context);
OTR_API void otr_context_destroy(otr_context **context);
/* Copies the message of the calling thread's last failed call on this context (or its models and
 * sessions), NUL-terminated, to buffer; returns its full length. "" when there was none. */
OTR_API size_t otr_error_message(const otr_context *context, char *buffer, size_t size);
/* Messages of the validation layer so far; 0 when validation is off. */
OTR_API uint64_t otr_validation_message_count(const otr_context *context);

/* -------------------------------------------------------------------------------- devices */

typedef enum otr_device_type {
    OTR_DEVICE_OTHER = 0,
    OTR_DEVICE_INTEGRATED = 1,
    OTR_DEVICE_DISCRETE = 2,
    OTR_DEVICE_VIRTUAL = 3,
    OTR_DEVICE_CPU = 4,
} otr_device_type;

#define OTR_MAX_QUEUE_FAMILIES 16
#define OTR_MAX_HEAPS 16

typedef struct otr_device_info {
    size_t size; /* set by the caller */
    uint32_t index;
    char name[256];
    char vendor[32]; /* "NVIDIA", "AMD", "Mesa", … or "0x1234" */
    uint32_t vendor_id, device_id;
    otr_device_type type;
    char driver_name[256], driver_info[256];
    uint32_t driver_version; /* the driver's own encoding */
    uint32_t api_version;    /* VK_API_VERSION encoding */
    uint8_t uuid[16];
    int32_t tier;      /* 0..3; -1 when the device can't be used, see `problem` */
    char problem[256]; /* what is missing, "" when usable */
    int32_t same_as;   /* index of the same GPU under another driver listed before, or -1 */
    bool is_default;   /* chosen when no device is named */
    uint32_t subgroup_size;
    uint32_t max_workgroup_invocations;
    uint32_t max_shared_memory_bytes;
    uint64_t max_storage_binding_bytes;
    bool has_timeline_semaphores;
    uint32_t timestamp_valid_bits; /* of the queue family in use; 0: no timestamps */
    uint32_t n_queue_families;
    struct {
        uint32_t n_queues;
        bool compute, graphics, transfer;
    } queue_families[OTR_MAX_QUEUE_FAMILIES];
    uint32_t n_heaps;
    struct {
        uint64_t size_bytes;
        bool device_local;
    } heaps[OTR_MAX_HEAPS];
    char note[256]; /* what it could do that is not used, and why, or "" */
} otr_device_info;

OTR_API uint32_t otr_device_count(const otr_context *context);
OTR_API otr_result otr_device_describe(otr_context *context, uint32_t index, otr_device_info *info);
/* Finds a device by index ("0"), UUID (32 hex digits, dashes ignored) or a part of its name or
 * driver name (case ignored; must match one device, or several of which one is the default). NULL
 * or "": the default: discrete, integrated, virtual; a CPU device only when there is nothing else,
 * lavapipe before SwiftShader. */
OTR_API otr_result otr_device_find(otr_context *context, const char *selector, uint32_t *index);

typedef struct otr_selftest_result {
    const char *kernel; /* such as "matvec Q4_K rows=8" */
    bool passed, skipped;
    double max_error; /* largest difference from the CPU reference, in units of the tolerance */
    char detail[256]; /* reason of a failure or skip, or "" */
    int32_t tier;     /* that the device is tested at: its own first, then lower ones */
    bool counts;      /* kernels of that tier: a failure is one of the tier */
} otr_selftest_result;
/* Return false to end the self-test (OTR_ERROR_CANCELLED). */
typedef bool (*otr_selftest_callback)(const otr_selftest_result *result, void *user);
/* Runs every kernel on the device against CPU references in double precision. on_result is called
 * for each check (NULL allowed). OTR_ERROR_SELFTEST when one failed.
 *
 * Where the device's tier fails, or the device can't compile one of its kernels, the lower ones are
 * tested in turn until one passes. That is kept in the folder of the pipeline cache, for this device,
 * driver and build: contexts created afterwards use the device at that tier at most, and say so in
 * otr_device_info.note and, when it is opened, as a warning. A later self-test begins with the device's
 * own tier again, and ends the limit when that passes. The calling context keeps the tier that it has. */
OTR_API otr_result otr_selftest(otr_context *context, uint32_t device_index,
                                otr_selftest_callback on_result, void *user);

/* --------------------------------------------------------------------------------- models */

typedef struct otr_model otr_model;

typedef struct otr_model_params {
    size_t size;
    const char *path;                  /* GGUF file; of a split model any shard */
    const char *device;                /* selector for otr_device_find; NULL: the default device */
    otr_progress_callback on_progress; /* bytes uploaded; NULL allowed */
    void *progress_user;
    /* Opens the device anew for this model instead of sharing it with the context's other models: a
     * draft on the target's own device then has a queue of its own, even where a device has only one.
     */
    bool separate_device;
} otr_model_params;
OTR_API otr_model_params otr_model_params_default(void);

OTR_API otr_result otr_model_load(otr_context *context, const otr_model_params *params,
                                  otr_model **model);
OTR_API void otr_model_destroy(otr_model **model);

typedef struct otr_model_info {
    size_t size; /* set by the caller */
    char name[128];
    char architecture[32];
    char formats[128]; /* tensor formats by share of bytes, such as "Q8_0, F32" */
    uint64_t n_parameters;
    uint64_t weight_bytes; /* on the device */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_size, n_ff, n_vocab, n_ctx_train;
    uint32_t device_index;
    int32_t tier;
} otr_model_info;
OTR_API otr_result otr_model_describe(const otr_model *model, otr_model_info *info);

/* Tokenises UTF-8 text. parse_special: control tokens written in the text become their ids;
 * add_bos: BOS first, if the model asks for it. Writes at most `capacity` ids; *n_ids is the full
 * count (call with capacity 0 to learn it). */
OTR_API otr_result otr_tokenize(const otr_model *model, const char *text, size_t n_bytes,
                                bool parse_special, bool add_bos, int32_t *ids, size_t capacity,
                                size_t *n_ids);
/* Text of ids; invalid UTF-8 becomes U+FFFD, control tokens give no text. Writes at most `capacity`
 * bytes without a terminator; *n_bytes is the full count. */
OTR_API otr_result otr_detokenize(const otr_model *model, const int32_t *ids, size_t n_ids,
                                  char *text, size_t capacity, size_t *n_bytes);
/* True when the token ends a generation (EOS, end of turn). */
OTR_API bool otr_token_is_stop(const otr_model *model, int32_t id);
/* BOS of the model, or -1. */
OTR_API int32_t otr_token_bos(const otr_model *model);

/* ------------------------------------------------------------------------------- sessions */

typedef struct otr_session otr_session;

#define OTR_MAX_CONTEXT (1u << 20) /* positions of a session at most */

/* What keys and values are kept as. */
typedef enum otr_cache_type {
    OTR_CACHE_F16 = 0,
    /* Signed bytes in blocks of 32 with a float scale: 9 bits an element instead of 16. Needs heads
     * of a multiple of 32. */
    OTR_CACHE_Q8_0 = 1,
} otr_cache_type;

/* Where a draft on the target's device works, if that has a second queue for compute. */
typedef enum otr_draft_queue {
    OTR_DRAFT_QUEUE_OWN = 0,    /* on it, so that both lanes can work at once */
    OTR_DRAFT_QUEUE_SHARED = 1, /* on the target's, in turn with it */
} otr_draft_queue;

typedef struct otr_session_params {
    size_t size;
    uint32_t n_ctx; /* positions; 0: the target's training context, at most 4096 */
    /* Most rows of a prefill pass; 0: chosen by device and measured time. Results don't depend on
     * it. */
    uint32_t prefill_rows;
    otr_cache_type cache_type; /* of target and draft */
    otr_draft_queue draft_queue;
} otr_session_params;
OTR_API otr_session_params otr_session_params_default(void);

/* draft may be NULL; both models must be of one context, and may be on different devices.
 * OTR_ERROR_VOCABULARY when their token strings differ; the message names the first difference. */
OTR_API otr_result otr_session_create(otr_model *target, otr_model *draft,
                                      const otr_session_params *params, otr_session **session);
OTR_API void otr_session_destroy(otr_session **session);

OTR_API uint32_t otr_session_n_ctx(const otr_session *session);
/* Tokens in the session: prompt and output so far. The pointer is valid until the next call that
 * changes the session. */
OTR_API const int32_t *otr_session_tokens(const otr_session *session, size_t *n_tokens);

/* Appends tokens and prefills the target; the draft catches up when a generation first drafts.
 * OTR_ERROR_CONTEXT_FULL when they don't fit (nothing is changed then). A prompt appended in several
 * calls gives the same results as in one. */
OTR_API otr_result otr_session_append(otr_session *session, const int32_t *ids, size_t n_ids,
                                      otr_progress_callback on_progress, void *user);
/* Drops all tokens from position n_tokens on (0: all). Costs nothing. */
OTR_API otr_result otr_session_rewind(otr_session *session, size_t n_tokens);

/* Part of other params, so its size never changes: what is added takes the place of `reserved`. */
typedef struct otr_sampling {
    size_t size;
    uint64_t seed;
    float temperature;     /* 0: greedy */
    int32_t top_k;         /* <= 0: off */
    float top_p;           /* >= 1: off */
    float min_p;           /* <= 0: off */
    float repeat_penalty;  /* 1: off */
    int32_t repeat_last_n; /* tokens that the penalty looks back on, 0: off, at most 512 */
    uint64_t reserved[8];  /* 0 */
} otr_sampling;
/* seed 0, temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalty over 64 tokens. */
OTR_API otr_sampling otr_sampling_default(void);

typedef enum otr_finish {
    OTR_FINISH_STOP = 0,      /* a stop token or stop string */
    OTR_FINISH_LENGTH = 1,    /* max_tokens reached */
    OTR_FINISH_CONTEXT = 2,   /* the context is full */
    OTR_FINISH_CANCELLED = 3, /* otr_session_cancel, or on_text returned false */
    OTR_FINISH_ERROR = 4,     /* see the function's result */
} otr_finish;
/* "stop", "length", "context", "cancelled", "error" */
OTR_API const char *otr_finish_string(otr_finish finish);

/* For draft_max: as many as are expected to pay, or none, decided for each block by measured times and
 * acceptance. What it costs where it doesn't pay is at most 2 % of the time, and one block. */
#define OTR_DRAFT_AUTO UINT32_MAX

/* When the draft works. The text is the same. */
typedef enum otr_schedule {
    /* What is expected to be faster: pipelined only where the draft has a queue or device of its own;
     * with fixed K serial. */
    OTR_SCHEDULE_AUTO = 0,
    OTR_SCHEDULE_SERIAL = 1,    /* before the target */
    OTR_SCHEDULE_PIPELINED = 2, /* for the next block, while the target verifies this one */
} otr_schedule;

/* What makes a drafted token the text's. All of them give text of the target's distribution. */
typedef enum otr_verify {
    /* Draft and target choose with the same random numbers, and a drafted token is accepted when the
     * target chooses the same: the text is the target's alone, whatever the draft. */
    OTR_VERIFY_COUPLED = 0,
    /* By the ratio of target's and draft's probability of it, token by token or for the block as a
     * whole: the text depends on the draft too. These need a draft model on the target's device,
     * there one queue family or timeline semaphores, and the serial schedule. At temperature 0 they
     * are the same as coupled. */
    OTR_VERIFY_REJECTION = 1,
    OTR_VERIFY_BLOCK = 2,
} otr_verify;
/* "coupled", "rejection", "block" */
OTR_API const char *otr_verify_string(otr_verify verify);

#define OTR_DRAFTER_MODEL 1u /* the session's draft */
/* What followed the longest earlier occurrence of the text's end, prompt included; needs no model. */
#define OTR_DRAFTER_NGRAM 2u

/* One block of a generation: what was decided, and what came of it. */
typedef struct otr_block {
    size_t size;
    bool is_first;      /* the token after the prefill, which is no block: no other field but
                             n_tokens, tokens and total_ms counts */
    uint32_t drafter;   /* an OTR_DRAFTER_* flag; 0: a plain step */
    bool pipelined;     /* the draft went on for the next block */
    bool was_ready;     /* what was verified was drafted while the block before was verified */
    const char *reason; /* of the decision, such as "pays", "probe", "loss budget" */
    uint32_t drafted, accepted;
    uint32_t n_tokens;       /* accepted + 1, or fewer where the generation ended among them */
    const int32_t *tokens;   /* [n_tokens]: accepted ones, then the target's own */
    const float *latency_ms; /* [n_tokens]: since the token before was given out; 0 for the first */
    const float *probabilities; /* [drafted]: the draft's own, of its tokens; NULL: n-gram, plain */
    int32_t rejected;           /* the drafted token that the target's own one replaced, or -1 */
    double total_ms;            /* since the end of the block before */
    double catch_up_ms;         /* of it: bringing the draft's cache up to date */
    double draft_ms, verify_ms; /* of it; 0: not measured */
    double expected_speedup;    /* of the decision, over plain decoding; 0 with fixed K */
    double plain_ms, draft_step_ms; /* what is believed after the block; 0: not known */
    double budget_ms;               /* what may be lost with OTR_DRAFT_AUTO */
} otr_block;
/* Called on the thread of otr_generate after each block, its text given out. The pointers are valid
 * during the call. */
typedef void (*otr_block_callback)(const otr_block *block, void *user);

typedef struct otr_generate_params {
    size_t size;
    otr_sampling sampling;
    int32_t max_tokens; /* < 0: until a stop or the context's end; 0: none */
    uint32_t draft_max; /* K: drafted tokens a block, 0..OTR_MAX_DRAFT; 0: plain decoding; or
                           OTR_DRAFT_AUTO */
    /* Text that ends the generation; neither it nor what follows is given out. */
    const char *const *stop_strings;
    size_t n_stop_strings;
    bool ignore_stop_tokens;
    /* One-row passes spread over the first blocks so that plain decoding is measured too. They
     * change nothing in the text. 0: none. */
    uint32_t plain_probes;
    otr_schedule schedule;
    /* Who may propose tokens: OTR_DRAFTER_* flags. 0: with OTR_DRAFT_AUTO all there are, block by
     * block the one that is expected to gain most; with fixed K the session's draft, if it has one. With
     * fixed K and both the n-gram drafter goes first, where it finds something. */
    uint32_t drafters;
    otr_block_callback on_block; /* NULL allowed */
    void *block_user;
    otr_verify verify;
} otr_generate_params;
/* draft_max OTR_DRAFT_AUTO, plain_probes 4. */
OTR_API otr_generate_params otr_generate_params_default(void);

/* A piece of text (whole UTF-8 characters, not NUL-terminated). Return false to cancel. */
typedef bool (*otr_text_callback)(const char *text, size_t n_bytes, void *user);

#define OTR_LATENCY_PERCENTILES 4

/* One generation. Counters obey: emitted = 1 (from the prefill) + accepted + blocks - discarded;
 * drafted >= verified >= accepted. A plain step is a block with K = 0. */
typedef struct otr_stats {
    size_t size; /* set by the caller before otr_generate */
    otr_finish finish;
    uint64_t prompt_tokens; /* in the context when the generation began */
    uint64_t emitted;       /* tokens generated, the stop token included if one came */
    uint64_t blocks;
    uint64_t drafted;
    /* Drafted tokens that the target compared, each block until its first miss. */
    uint64_t verified;
    uint64_t accepted;
    uint64_t discarded; /* computed but cut off at the end (stop, length, context) */
    uint64_t verified_by_position[OTR_MAX_DRAFT]; /* [i]: drafted token i+1 of a block */
    uint64_t accepted_by_position[OTR_MAX_DRAFT];
    double acceptance;                      /* accepted / verified; 0 when nothing was verified */
    double acceptance_low, acceptance_high; /* 95 % Wilson interval */
    double tokens_per_block;  /* (accepted + blocks) / blocks of blocks with K > 0; 0: none */
    double prefill_ms;        /* of otr_session_append calls since the last generation */
    double ttft_ms;           /* prefill_ms + time to the first token given out */
    double generate_ms;       /* otr_generate from its start to its end */
    double tokens_per_second; /* (emitted - 1) / time after the first token; 0 when < 2 tokens */
    double draft_ms, verify_ms, host_ms; /* of generate_ms; 0 when not measured */
    double host_us_per_block;            /* host time outside waits */
    /* [n-1]: mean time of a target pass with n rows; 0: none. */
    double verify_row_ms[OTR_MAX_DRAFT + 1];
    uint64_t verify_row_passes[OTR_MAX_DRAFT + 1];
    double draft_step_ms;           /* mean time of one draft step; 0: none */
    double cost_ratio;              /* c = draft_step_ms / verify_row_ms[0]; 0: not measured */
    double plain_tokens_per_second; /* from one-row passes of this run; 0: fewer than four */
    double speedup;                 /* tokens/s of blocks with K > 0 / plain; 0: not measured */
    /* Time between tokens given out, and the same of plain blocks: p50, p95, p99, max. */
    double latency_ms[OTR_LATENCY_PERCENTILES];
    double plain_latency_ms[OTR_LATENCY_PERCENTILES];
    uint64_t plain_blocks; /* of blocks: those with K = 0 */
    uint64_t ngram_blocks; /* those that the n-gram drafter proposed */
    /* Those of the draft that were verified while it went on drafting, and those for which it had done
     * so in time; tokens that it drafted then in vain, which `drafted` leaves out. */
    uint64_t pipelined_blocks, ready_blocks, dropped;
    otr_verify verify; /* the rule that was used */
} otr_stats;

/* Generates from the end of the session's tokens, which must not be empty. on_text and stats may be
 * NULL. The tokens are appended to the session; text, cache and counters are cut at the same place.
 * The stop token itself is part of the session's tokens and gives no text. */
OTR_API otr_result otr_generate(otr_session *session, const otr_generate_params *params,
                                otr_text_callback on_text, void *user, otr_stats *stats);
/* Makes a running otr_generate or otr_session_append stop at the next block or chunk. */
OTR_API void otr_session_cancel(otr_session *session);

/* JSON object of the statistics; *json is freed with otr_free. */
OTR_API otr_result otr_stats_to_json(const otr_stats *stats, char **json);
OTR_API void otr_free(void *memory);

/* Logits of every row, in order: row i follows ids[i]. Replaces the session's tokens by ids. */
typedef bool (*otr_logits_callback)(size_t row, const float *logits, uint32_t n_vocab, void *user);

typedef enum otr_evaluate_path {
    OTR_EVALUATE_PREFILL = 0, /* the tiled kernels of otr_session_append */
    OTR_EVALUATE_ROWS = 1,    /* the kernels of decoding and verification, `rows` rows a pass */
} otr_evaluate_path;

typedef struct otr_evaluate_params {
    size_t size;
    otr_evaluate_path path;
    uint32_t rows;  /* of a pass for OTR_EVALUATE_ROWS: 1..OTR_MAX_DRAFT + 1; 0: the most */
    bool use_draft; /* the draft's logits instead of the target's */
} otr_evaluate_params;
OTR_API otr_evaluate_params otr_evaluate_params_default(void);

OTR_API otr_result otr_session_evaluate(otr_session *session, const otr_evaluate_params *params,
                                        const int32_t *ids, size_t n_ids,
                                        otr_logits_callback on_row, void *user);

/* ---------------------------------------------------------------------------- measuring */

typedef struct otr_measure_params {
    size_t size;
    otr_evaluate_path path; /* OTR_EVALUATE_ROWS: with logits and sampling of every row */
    uint32_t rows;          /* of the pass: 1..OTR_MAX_DRAFT + 1; prefill: any, in several passes */
    bool use_draft;
    otr_sampling sampling;
} otr_measure_params;
/* One row of the target: decoding. */
OTR_API otr_measure_params otr_measure_params_default(void);

typedef struct otr_measurement {
    size_t size;           /* set by the caller */
    double seconds;        /* from the submission to the end of the wait */
    double host_seconds;   /* of it, outside the wait */
    uint32_t dispatches;   /* recorded in the pass; those that find nothing to do included */
    uint64_t weight_bytes; /* read once in each pass, summed over passes */
} otr_measurement;
/* Runs `rows` rows of some tokens behind the session's own, as a generation would, and tells how
 * long they took. The session keeps its tokens; its cache is filled first. */
OTR_API otr_result otr_session_measure(otr_session *session, const otr_measure_params *params,
                                       otr_measurement *measurement);
typedef struct otr_overlap {
    size_t size;           /* set by the caller */
    double target_seconds; /* a pass of 5 rows alone; medians of three */
    double draft_seconds;  /* a chain of 4 draft steps alone */
    double together_seconds;
    /* What both together save of the shorter one: 0 where they take the sum of their times, 1 where the
     * longer one hides the other. */
    double overlap;
} otr_overlap;
/* Runs target and draft alone and together, as a pipelined generation would. The session keeps its
 * tokens. Of an empty session the result is kept for a day, as a start for sessions of the same models
 * on the same devices. */
OTR_API otr_result otr_session_measure_overlap(otr_session *session, otr_overlap *overlap);

/* Bandwidth of copies between buffers on the session's device, bytes read and written counted. */
OTR_API otr_result otr_session_measure_copy(otr_session *session, double *bytes_per_second);

/* ------------------------------------------------------------------------------- tuning */

/* One choice of one setting of the kernels' workgroup shapes. The times are medians of the kernels
 * that the setting shapes, in a pass of the model; 0: they have no part in it. */
typedef struct otr_tune_result {
    const char *setting; /* such as "matvec outputs" */
    const char *choice;  /* such as "4", "64 x 64, 4 x 8" */
    bool is_default;     /* what the device has without otr_tune */
    bool chosen;
    double decode_s;    /* of a pass of one row */
    double rows_s;      /* of OTR_MAX_DRAFT + 1 rows */
    double prefill_s;   /* of a prefill */
    double ratio;       /* median of its time to the default's, which took turns with it; 0: the
                           device refuses it, `detail` has its message */
    const char *detail; /* why it can't be chosen, or "" */
} otr_tune_result;
typedef void (*otr_tune_callback)(const otr_tune_result *result, void *user);

typedef struct otr_tune_params {
    size_t size;
    double seconds; /* for each choice that is measured, at least (a few runs take longer) */
    otr_progress_callback on_progress; /* done and total in tenths of a choice; NULL allowed */
    void *progress_user;
} otr_tune_params;
/* A second for each choice. */
OTR_API otr_tune_params otr_tune_params_default(void);

/* Measures the kernels' workgroup shapes with the model's own weights, on its device, and stores the
 * best of them in the folder of the pipeline cache, for every model on that device. What is default
 * stays unless another choice is clearly better than the noise; one that the device refuses, which is
 * logged as an error, is left out. Sessions made afterwards use the result, in this process and in
 * others; results of models keep their bits, which is checked.
 *
 * on_result is called for each choice once its setting was measured (NULL allowed). Nothing is
 * stored after a failure: OTR_ERROR_IO when the file can't be written, OTR_ERROR_CANCELLED when
 * on_progress returned false. A stored file that is damaged, or of another driver or build, is
 * ignored with a warning when the device is opened. Takes memory for two sessions. */
OTR_API otr_result otr_tune(otr_model *model, const otr_tune_params *params,
                            otr_tune_callback on_result, void *user);
/* Removes what otr_tune stored for the device. *existed (NULL allowed): whether there was anything.
 */
OTR_API otr_result otr_tune_reset(otr_context *context, uint32_t device_index, bool *existed);

typedef struct otr_tuning_info {
    size_t size;           /* set by the caller */
    char device_class[32]; /* whose workgroup shapes the device has: "software", "amd-rdna", … */
    bool is_tuned;         /* with what otr_tune chose; else they are the class's own */
    char problem[128];     /* why a stored result is not used, or "" */
} otr_tuning_info;
/* What models that are loaded now on a usable device have. */
OTR_API otr_result otr_device_tuning(otr_context *context, uint32_t device_index,
                                     otr_tuning_info *info);

#ifdef __cplusplus
}
#endif

#endif

/* Workgroup shapes by class of device: one const table, and one of the choices that otr_tune may
 * take instead (tuning.c). What is chosen says how work is cut, never in which order a sum is made:
 * a test compares the bits of all choices. A gpu has its own copy, from the table or from the file
 * that otr_tune wrote (tuning_file.h); lanes read it when they are made. */
#ifndef OUTRIDER_TUNING_H
#define OUTRIDER_TUNING_H

#include "outrider/outrider.h"

struct device_facts; /* device.h */
struct gpu;

typedef struct tuning {
    const char *device_class;
    /* Outputs of an invocation of matvec_direct; 0: the class uses matvec and matmul instead, which
     * round differently, so that otr_tune never goes from one to the other. */
    uint32_t direct_outputs;
    uint32_t matvec_subgroups; /* of a workgroup (tier 1) */
    uint32_t matvec_lanes;     /* of a workgroup (tier 0). Fixed: each lane has a sum of its own */
    uint32_t matvec_outputs;   /* of a subgroup (tier 1) or workgroup (tier 0) */
    /* BM, BN, BK, TM, TN of matmul.comp. BK is the same in all choices: the last slice is filled up
     * with zeros, and adding 0 makes -0 a 0. */
    uint32_t matmul[5];
    /* Outputs and rows of a workgroup of matmul_cooperative (tier 3); 0: by the subgroup size. */
    uint32_t cooperative_size;
    uint32_t matmul_sides[2]; /* least and most that otr_tune tries for BM and BN */
    uint32_t norm_sums;       /* partial sums of a row. Fixed: they are the order of the sum */
    uint32_t norm_lanes;      /* that share them */
    uint32_t attention_lanes; /* Fixed: groups of them sum positions of their own */
    uint32_t elementwise_lanes;
    uint32_t sample_lanes; /* its sums are of integers */
    uint32_t prefill_rows; /* of a pass, at first */
} tuning;

/* What a device's class is by its vendor and architecture: a row of the table. as_gpu: a software
 * device is to use the kernels of GPUs. */
const tuning *tuning_class(const otr_device_info *info, const struct device_facts *facts,
                           bool as_gpu);
/* The same of an opened device; the row of all GPUs where it can't run its class's kernels. */
const tuning *tuning_of_gpu(const struct gpu *g);
/* By name: for checks of kernels that a device's own class doesn't use. */
const tuning *tuning_of(const char *device_class);
/* A copy of the gpu's own. From any thread. */
tuning tuning_find(struct gpu *g);
/* Replaces it; lanes that exist keep what they were made with. */
void tuning_set(struct gpu *g, const tuning *t);

/* --------------------------------------------------------------------------------- settings */

/* What an operation of a lane is. */
enum operation_kind {
    OPERATION_OTHER = 1, /* attention, which is not tuned */
    OPERATION_MATRIX = 2,
    OPERATION_NORM = 4,
    OPERATION_ELEMENTWISE = 8,
    OPERATION_SAMPLE = 16,
    OPERATION_ALL = 31,
};

#define TUNING_MAX_WORDS 5
#define TUNING_MAX_CHOICES 12

/* A part of a tuning that otr_tune may choose. */
typedef struct tuning_setting {
    const char *name; /* such as "matvec outputs" */
    size_t offset;    /* in the struct */
    uint32_t n_words;
    uint32_t n_choices;
    const uint32_t (*choices)[TUNING_MAX_WORDS];
    uint32_t kinds;                      /* operations that it shapes */
    bool in_decode, in_rows, in_prefill; /* passes that they are part of */
    /* Only where the device uses that kernel. */
    bool is_direct, is_matvec, is_matmul, is_cooperative;
} tuning_setting;

#define N_TUNING_SETTINGS 9
extern const tuning_setting tuning_settings[N_TUNING_SETTINGS];

/* The setting's words in a tuning. */
uint32_t *tuning_words(tuning *t, const tuning_setting *setting);
/* Whether kernels of the gpu depend on the setting. */
bool tuning_applies(const struct gpu *g, const tuning *t, const tuning_setting *setting);
/* Whether every kernel with these shapes can run on the gpu: its limits, and the loop budget. */
bool tuning_fits(const struct gpu *g, const tuning *t);
/* Whether otr_tune could have chosen it: every setting has the class's value or one of the choices,
 * all else is the class's, and the gpu can run it. */
bool tuning_allows(const struct gpu *g, const tuning *t);
/* The setting's choices on this gpu, each with all else as in `t`, the one that `t` has first.
 * Returns their number, 0 where the setting doesn't apply. */
uint32_t tuning_choices(const struct gpu *g, const tuning *t, const tuning_setting *setting,
                        tuning out[TUNING_MAX_CHOICES]);
/* "64 x 64, 4 x 8" or "4" */
void tuning_describe(const tuning *t, const tuning_setting *setting, char *out, size_t size);

#endif

/* What a result was measured on: see identity.h. */
#include "identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "fnv.h"
#include "output.h"

static bool hash_file(const char *path, char out[17])
{
    uint64_t hash = FNV_START;
    FILE *f = fopen(path, "rb");
    char *buffer = malloc(1 << 16);
    bool ok = f && buffer;
    size_t n;

    while (ok && (n = fread(buffer, 1, 1 << 16, f)) > 0)
        hash = fnv_hash(hash, buffer, n);
    ok = ok && !ferror(f);
    if (f)
        fclose(f);
    free(buffer);
    snprintf(out, 17, "%016" PRIx64, hash);
    return ok;
}

static json_t *model_json(const otr_model *model, const char *path)
{
    otr_model_info info = {.size = sizeof(info)};
    char hash[17];

    if (!model)
        return json_null();
    if (otr_model_describe(model, &info) != OTR_OK || !hash_file(path, hash))
        return NULL;
    return json_pack("{s:o,s:o,s:o,s:s,s:I,s:I,s:s}", "name",
                     json_text(info.name, strlen(info.name)), "path", json_text(path, strlen(path)),
                     "architecture", json_text(info.architecture, strlen(info.architecture)),
                     "formats", info.formats, "parameters", (json_int_t)info.n_parameters,
                     "weight_bytes", (json_int_t)info.weight_bytes, "fnv1a64", hash);
}

static json_t *tuned_device_json(const engine *e)
{
    otr_tuning_info tuning = {.size = sizeof(tuning)};
    json_t *device;

    if (otr_device_tuning(e->context, e->device.index, &tuning) != OTR_OK)
        return NULL;
    device = device_json(&e->device);
    json_object_set_new(device, "tuning", tuning_json(&tuning));
    return device;
}

static json_t *driver_json(const otr_device_info *d)
{
    return json_pack("{s:o,s:o,s:I}", "name", json_text(d->driver_name, strlen(d->driver_name)),
                     "info", json_text(d->driver_info, strlen(d->driver_info)), "version",
                     (json_int_t)d->driver_version);
}

bool identity_add(json_t *object, const engine *e)
{
    int bad = json_object_set_new(object, "version", json_string(otr_version()));

    bad |= json_object_set_new(object, "device", tuned_device_json(e));
    bad |= json_object_set_new(object, "driver", driver_json(&e->device));
    bad |= json_object_set_new(object, "model", model_json(e->target, e->target_path));
    bad |= json_object_set_new(object, "draft", model_json(e->draft, e->draft_path));
    return !bad;
}

/* Which device: the default, the same GPU under two drivers, and finding one by what the user
 * wrote; and which of its queues. Functions of the device list alone, so that tests can make up
 * lists. Called by device.c. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* The lower, the better. */
static int rank_of(const otr_device_info *info)
{
    static const int by_type[] = {
        [OTR_DEVICE_DISCRETE] = 0, [OTR_DEVICE_INTEGRATED] = 1, [OTR_DEVICE_VIRTUAL] = 2,
        [OTR_DEVICE_OTHER] = 3,    [OTR_DEVICE_CPU] = 4,
    };
    int rank = by_type[info->type];

    if (info->type == OTR_DEVICE_CPU) {
        if (strcasestr(info->driver_name, "SwiftShader") || strcasestr(info->name, "SwiftShader"))
            rank += 2; /* many times slower than lavapipe */
        else if (!strcasestr(info->driver_name, "llvmpipe") && !strcasestr(info->name, "llvmpipe"))
            rank += 1;
    }
    return rank;
}

static uint64_t local_bytes(const otr_device_info *info)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < info->n_heaps; i++)
        if (info->heaps[i].device_local)
            sum += info->heaps[i].size_bytes;
    return sum;
}

/* Whether a is the better default: by type, then tier, then memory (a small second card is no place
 * for a model); equal ones keep their order. */
static bool is_better(const otr_device_info *a, const otr_device_info *b)
{
    if (rank_of(a) != rank_of(b))
        return rank_of(a) < rank_of(b);
    if (a->tier != b->tier)
        return a->tier > b->tier;
    return local_bytes(a) > local_bytes(b);
}

uint32_t device_choose(const otr_device_info *infos, uint32_t n)
{
    uint32_t best = DEVICE_NONE;

    for (uint32_t i = 0; i < n; i++) {
        if (infos[i].tier < 0)
            continue;
        if (best == DEVICE_NONE || is_better(&infos[i], &infos[best]))
            best = i;
    }
    return best;
}

static bool is_same_gpu(const otr_device_info *a, const device_facts *fa, const otr_device_info *b,
                        const device_facts *fb)
{
    static const uint8_t no_uuid[16];

    if (a->vendor_id != b->vendor_id || a->device_id != b->device_id)
        return false;
    if (fa->has_pci_address && fb->has_pci_address)
        return fa->pci_domain == fb->pci_domain && fa->pci_bus == fb->pci_bus &&
               fa->pci_device == fb->pci_device && fa->pci_function == fb->pci_function;
    /* Two equal cards under one driver may share a UUID (MoltenVK): that takes another driver. */
    return memcmp(a->uuid, no_uuid, sizeof no_uuid) && !memcmp(a->uuid, b->uuid, sizeof a->uuid) &&
           (strcmp(a->driver_name, b->driver_name) || strcmp(a->driver_info, b->driver_info) ||
            a->driver_version != b->driver_version);
}

void devices_mark_same(otr_device_info *infos, const device_facts *facts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        infos[i].same_as = -1;
        for (uint32_t j = 0; j < i && infos[i].same_as < 0; j++)
            if (is_same_gpu(&infos[i], &facts[i], &infos[j], &facts[j]))
                infos[i].same_as = (int32_t)j;
    }
}

/* Reads a UUID written as 32 hex digits with any dashes. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    unsigned n = 0;

    memset(uuid, 0, 16);
    for (; *text; text++) {
        int digit;
        if (*text == '-')
            continue;
        if (!isxdigit((unsigned char)*text) || n == 32)
            return false;
        digit = isdigit((unsigned char)*text) ? *text - '0'
                                              : tolower((unsigned char)*text) - 'a' + 10;
        uuid[n / 2] = (uint8_t)(uuid[n / 2] << 4 | digit);
        n++;
    }
    return n == 32;
}

static void append(char *message, size_t size, const char *text)
{
    size_t length = strlen(message);

    if (length < size)
        snprintf(message + length, size - length, "%s", text);
}

/* Lists devices in the message: all, or those in `only`. */
static void append_devices(char *message, size_t size, const otr_device_info *infos, uint32_t n,
                           const bool *only)
{
    const char *separator = "";
    char line[600];

    for (uint32_t i = 0; i < n; i++) {
        if (only && !only[i])
            continue;
        snprintf(line, sizeof line, "%s%u (%s, %s)", separator, i, infos[i].name,
                 infos[i].driver_name[0] ? infos[i].driver_name : "driver unknown");
        append(message, size, line);
        separator = ", ";
    }
}

static bool match_default(const otr_device_info *infos, uint32_t n, uint32_t *index, char *message,
                          size_t size)
{
    *index = device_choose(infos, n);
    if (*index != DEVICE_NONE)
        return true;
    snprintf(message, size, "no device can be used: %s %s", infos[0].name, infos[0].problem);
    if (n > 1)
        append(message, size, " (and others that are too weak; list them with `outrider devices`)");
    return false;
}

bool device_match(const otr_device_info *infos, uint32_t n, const char *selector, uint32_t *index,
                  char *message, size_t size)
{
    uint8_t uuid[16];
    bool by_uuid, *matches = NULL, ok = false;
    uint32_t n_matches = 0, found = DEVICE_NONE, best;
    char *end;

    message[0] = '\0';
    *index = DEVICE_NONE;
    if (n == 0) {
        snprintf(message, size,
                 "no Vulkan device: install the driver of your GPU, or mesa-vulkan-drivers, whose "
                 "lavapipe runs on any CPU");
        return false;
    }
    if (!selector || !*selector)
        return match_default(infos, n, index, message, size);

    matches = calloc(n, sizeof *matches);
    if (!matches) {
        snprintf(message, size, "out of memory");
        return false;
    }
    best = device_choose(infos, n);
    by_uuid = parse_uuid(selector, uuid);
    if (!by_uuid && isdigit((unsigned char)*selector)) {
        unsigned long number = strtoul(selector, &end, 10);
        /* A number that is no index can still be a part of a name, such as "4090". */
        if (*end == '\0' && number < n) {
            matches[number] = true;
            found = (uint32_t)number;
            n_matches = 1;
        }
    }
    for (uint32_t i = 0; found == DEVICE_NONE && i < n; i++) {
        matches[i] = by_uuid ? !memcmp(infos[i].uuid, uuid, sizeof uuid)
                             : strcasestr(infos[i].name, selector) != NULL ||
                                   strcasestr(infos[i].driver_name, selector) != NULL;
        n_matches += matches[i];
    }
    for (uint32_t i = 0; found == DEVICE_NONE && i < n; i++)
        if (matches[i] && (n_matches == 1 || i == best))
            found = i;

    if (n_matches == 0) {
        snprintf(message, size, "no device matches '%.64s'; there %s ", selector,
                 n == 1 ? "is" : "are");
        append_devices(message, size, infos, n, NULL);
    } else if (found == DEVICE_NONE) {
        snprintf(message, size, "'%.64s' matches %u devices, choose by index or UUID: ", selector,
                 n_matches);
        append_devices(message, size, infos, n, matches);
    } else if (infos[found].tier < 0) {
        snprintf(message, size, "device %u (%s) can't be used: it %s", found, infos[found].name,
                 infos[found].problem);
    } else {
        *index = found;
        ok = true;
    }
    free(matches);
    return ok;
}

/* ----------------------------------------------------------------------------------- queues */

/* The family for compute, one without graphics first, other than `except`; DEVICE_NONE without. */
static uint32_t compute_family(const otr_device_info *info, uint32_t except)
{
    uint32_t best = DEVICE_NONE;

    for (uint32_t i = 0; i < info->n_queue_families; i++) {
        if (i == except || !info->queue_families[i].compute ||
            info->queue_families[i].n_queues == 0)
            continue;
        if (best == DEVICE_NONE ||
            (info->queue_families[best].graphics && !info->queue_families[i].graphics))
            best = i;
    }
    return best;
}

void device_choose_queues(const otr_device_info *info, uint32_t families[2])
{
    families[0] = families[1] = compute_family(info, DEVICE_NONE);
    if (families[0] == DEVICE_NONE || info->queue_families[families[0]].n_queues > 1)
        return;
    uint32_t other = compute_family(info, families[0]);
    if (other != DEVICE_NONE)
        families[1] = other;
}

/* The n-gram drafter (ngram.h). A hash table for each length gives the newest occurrence of every
 * n-gram; a new occurrence keeps the one before it, so that rewinding restores the table. Tokens
 * leave in the reverse order of their arrival, hence freeing a slot never cuts a probe sequence. */
#include "ngram.h"

#include <stdlib.h>
#include <string.h>

/* A text made to collide must not make appending slow: past so many slots an n-gram isn't kept. */
#define MAX_PROBES 64

bool ngram_init(ngram *g, uint32_t capacity)
{
    uint64_t n_slots = 16;

    *g = (ngram){.capacity = capacity};
    while (n_slots < 2 * (uint64_t)capacity)
        n_slots *= 2;
    if (n_slots > UINT32_MAX)
        return false;
    g->n_slots = (uint32_t)n_slots;
    g->tokens = calloc(capacity ? capacity : 1, sizeof *g->tokens);
    bool ok = g->tokens != NULL;
    for (int level = 0; level < NGRAM_LEVELS && ok; level++) {
        g->slots[level] = calloc(g->n_slots, sizeof *g->slots[level]);
        g->earlier[level] = calloc(capacity ? capacity : 1, sizeof *g->earlier[level]);
        ok = g->slots[level] && g->earlier[level];
    }
    if (!ok)
        ngram_free(g);
    return ok;
}

void ngram_free(ngram *g)
{
    for (int level = 0; level < NGRAM_LEVELS; level++) {
        free(g->earlier[level]);
        free(g->slots[level]);
    }
    free(g->tokens);
    *g = (ngram){0};
}

/* Hash of the n-grams of each length that end at a position; returns how many lengths there are. */
static int hash_suffixes(const ngram *g, uint32_t end, uint32_t hashes[NGRAM_LEVELS])
{
    uint64_t hash = 0x9e3779b97f4a7c15u;
    int n_levels = 0;

    for (uint32_t n = 1; n <= NGRAM_MAX && n <= end + 1; n++) {
        hash = (hash ^ (uint32_t)g->tokens[end + 1 - n]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        if (n >= NGRAM_MIN)
            hashes[n_levels++] = (uint32_t)(hash >> 7) & (g->n_slots - 1);
    }
    return n_levels;
}

static bool same_ngram(ngram *g, uint32_t a, uint32_t b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        g->n_steps++;
        if (g->tokens[a - i] != g->tokens[b - i])
            return false;
    }
    return true;
}

bool ngram_append(ngram *g, int32_t token)
{
    uint32_t end = g->n_tokens, hashes[NGRAM_LEVELS];

    if (end == g->capacity)
        return false;
    g->tokens[g->n_tokens++] = token;
    int n_levels = hash_suffixes(g, end, hashes);
    for (int level = 0; level < n_levels; level++) {
        uint32_t *slots = g->slots[level], at = hashes[level];

        g->earlier[level][end] = 0;
        for (int probe = 0; probe < MAX_PROBES; probe++, at = (at + 1) & (g->n_slots - 1)) {
            g->n_steps++;
            if (slots[at] && !same_ngram(g, slots[at] - 1, end, (uint32_t)level + NGRAM_MIN))
                continue;
            g->earlier[level][end] = slots[at];
            slots[at] = end + 1;
            break;
        }
    }
    return true;
}

void ngram_rewind(ngram *g, uint32_t n_tokens)
{
    while (g->n_tokens > n_tokens) {
        uint32_t end = g->n_tokens - 1, hashes[NGRAM_LEVELS];
        int n_levels = hash_suffixes(g, end, hashes);

        for (int level = 0; level < n_levels; level++) {
            uint32_t *slots = g->slots[level], at = hashes[level];

            for (int probe = 0; probe < MAX_PROBES; probe++, at = (at + 1) & (g->n_slots - 1)) {
                g->n_steps++;
                if (slots[at] != end + 1)
                    continue;
                slots[at] = g->earlier[level][end];
                break;
            }
        }
        g->n_tokens--;
    }
}

uint32_t ngram_draft(ngram *g, uint32_t most, int32_t *out, uint32_t *match)
{
    uint32_t last = g->n_tokens - 1, end = 0, length = 0;

    *match = 0;
    if (g->n_tokens < NGRAM_MIN)
        return 0;
    for (int level = NGRAM_LEVELS - 1; level >= 0 && !length; level--)
        if (last + 1 >= (uint32_t)level + NGRAM_MIN && g->earlier[level][last]) {
            end = g->earlier[level][last] - 1;
            length = (uint32_t)level + NGRAM_MIN;
        }
    if (!length)
        return 0;
    while (length < NGRAM_MAX_MATCH && length <= end &&
           g->tokens[end - length] == g->tokens[last - length])
        length++;
    g->n_steps += length;
    *match = length;
    if (most > NGRAM_MAX_DRAFT)
        most = NGRAM_MAX_DRAFT;
    /* A match that reaches the end of the text goes on with what is proposed: a period. */
    for (uint32_t i = 0; i < most; i++) {
        uint32_t from = end + 1 + i;
        out[i] = from <= last ? g->tokens[from] : out[from - last - 1];
    }
    return most;
}

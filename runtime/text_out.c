/* Text output with stop strings. Text is held back only while it could still become a stop string.
 */
#include "text_out.h"

#include <stdlib.h>
#include <string.h>

void text_out_init(text_out *t, const vocab *v, const otr_generate_params *params,
                   otr_text_callback on_text, void *user)
{
    *t = (text_out){
        .stops = params->stop_strings,
        .n_stops = params->n_stop_strings,
        .on_text = on_text,
        .user = user,
    };
    detokenizer_init(&t->detokenizer, v, false, true);
}

void text_out_free(text_out *t)
{
    free(t->pending);
    t->pending = NULL;
    t->n_pending = t->capacity = 0;
}

static enum text_result give(text_out *t, size_t n)
{
    bool go_on = !n || !t->on_text || t->on_text(t->pending, n, t->user);
    memmove(t->pending, t->pending + n, t->n_pending - n);
    t->n_pending -= n;
    t->closed = t->closed || !go_on;
    return go_on ? TEXT_GO_ON : TEXT_CANCELLED;
}

/* Gives out what no stop string can claim any more. */
static enum text_result settle(text_out *t)
{
    size_t first = t->n_pending; /* where the earliest stop string begins, or could */
    bool stopped = false;

    for (size_t at = 0; at < t->n_pending && first == t->n_pending; at++)
        for (size_t i = 0; i < t->n_stops; i++) {
            size_t length = strlen(t->stops[i]), left = t->n_pending - at;
            size_t compared = length < left ? length : left;
            if (length && !memcmp(t->stops[i], t->pending + at, compared)) {
                first = at;
                stopped = stopped || compared == length;
            }
        }
    if (!t->n_pending)
        return TEXT_GO_ON;
    enum text_result result = give(t, first);
    if (stopped) {
        t->n_pending = 0;
        t->closed = true;
        return result == TEXT_GO_ON ? TEXT_STOPPED : result;
    }
    return result;
}

enum text_result text_out_push(text_out *t, int32_t token)
{
    if (!detokenizer_push(&t->detokenizer, (uint32_t)token, &t->pending, &t->n_pending,
                          &t->capacity))
        return TEXT_NO_MEMORY;
    return settle(t);
}

enum text_result text_out_finish(text_out *t)
{
    if (t->closed)
        return TEXT_GO_ON;
    if (!detokenizer_finish(&t->detokenizer, &t->pending, &t->n_pending, &t->capacity))
        return TEXT_NO_MEMORY;
    enum text_result result = settle(t);
    if (result != TEXT_GO_ON || !t->n_pending)
        return result;
    return give(t, t->n_pending);
}

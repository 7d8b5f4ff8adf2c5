/* The text side of a generation: detokenising, stop strings, and giving text out as soon as it is
 * sure. Used by generate.c. */
#ifndef OUTRIDER_TEXT_OUT_H
#define OUTRIDER_TEXT_OUT_H

#include "outrider/outrider.h"
#include "tokenizer.h"

typedef struct text_out {
    detokenizer detokenizer;
    const char *const *stops;
    size_t n_stops;
    otr_text_callback on_text;
    void *user;
    char *pending; /* text not given out yet: it may be the beginning of a stop string */
    size_t n_pending, capacity;
    bool closed; /* a stop string or a cancellation ended the text */
} text_out;

enum text_result {
    TEXT_GO_ON,
    TEXT_STOPPED,   /* a stop string came; the text before it has been given out */
    TEXT_CANCELLED, /* on_text returned false */
    TEXT_NO_MEMORY,
};

void text_out_init(text_out *t, const vocab *v, const otr_generate_params *params,
                   otr_text_callback on_text, void *user);
void text_out_free(text_out *t);
enum text_result text_out_push(text_out *t, int32_t token);
/* Gives out all that was held back, unless the text has been ended already. */
enum text_result text_out_finish(text_out *t);

#endif

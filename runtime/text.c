/* The public face of the tokenisers: text to ids and back, and special tokens of a model. */
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "tokenizer.h"

otr_result otr_tokenize(const otr_model *model, const char *text, size_t n_bytes,
                        bool parse_special, bool add_bos, int32_t *ids, size_t capacity,
                        size_t *n_ids)
{
    unsigned flags = (parse_special ? TOKENIZE_PARSE_SPECIAL : 0u) |
                     (add_bos ? TOKENIZE_ADD_BOS : 0u);
    gguf_error error = {0};
    int32_t *found = NULL;
    size_t n_found = 0;

    if (!model || !n_ids || (n_bytes && !text) || (capacity && !ids))
        return OTR_ERROR_INVALID_ARGUMENT;
    *n_ids = 0;
    if (!tokenize(model->vocab, text, n_bytes, flags, &found, &n_found, &error))
        return model_fail(model->context, &error);
    size_t n_copied = n_found < capacity ? n_found : capacity;
    if (n_copied)
        memcpy(ids, found, n_copied * sizeof *ids);
    *n_ids = n_found;
    free(found);
    return OTR_OK;
}

otr_result otr_detokenize(const otr_model *model, const int32_t *ids, size_t n_ids, char *text,
                          size_t capacity, size_t *n_bytes)
{
    detokenizer d;
    char *found = NULL;
    size_t n_found = 0, room = 0;
    otr_result result = OTR_OK;

    if (!model || !n_bytes || (n_ids && !ids) || (capacity && !text))
        return OTR_ERROR_INVALID_ARGUMENT;
    *n_bytes = 0;
    detokenizer_init(&d, model->vocab, true, true);
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= model->h.n_vocab) {
            result = context_fail(model->context, OTR_ERROR_INVALID_ARGUMENT,
                                  "token %zu is %d, the vocabulary has ids 0 to %u", i, ids[i],
                                  model->h.n_vocab - 1);
            goto out;
        }
        if (!detokenizer_push(&d, (uint32_t)ids[i], &found, &n_found, &room))
            goto no_memory;
    }
    if (!detokenizer_finish(&d, &found, &n_found, &room))
        goto no_memory;
    if (n_found && capacity)
        memcpy(text, found, n_found < capacity ? n_found : capacity);
    *n_bytes = n_found;
    goto out;

no_memory:
    result = context_fail(model->context, OTR_ERROR_OUT_OF_MEMORY, "out of memory for text");
out:
    free(found);
    return result;
}

bool otr_token_is_stop(const otr_model *model, int32_t id)
{
    return model && id >= 0 && (uint32_t)id < model->h.n_vocab &&
           vocab_is_stop(model->vocab, (uint32_t)id);
}

int32_t otr_token_bos(const otr_model *model)
{
    return model ? vocab_bos(model->vocab) : -1;
}

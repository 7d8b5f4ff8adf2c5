/* A forward pass of the llama architecture in double precision, read from a GGUF file and apart from the
 * library's own code, for models that tests make up. Fails the Check test where the file lacks
 * something. */
#ifndef OUTRIDER_TEST_TRANSFORMER_REFERENCE_H
#define OUTRIDER_TEST_TRANSFORMER_REFERENCE_H

#include "gguf.h"

/* Logits of all rows, [n_ids][n_vocab], to be freed. without: a part of the names of tensors to leave
 * out, such as "attn_q.bias"; NULL: none. */
double *reference_logits(const gguf_file *file, const int32_t *ids, uint32_t n_ids,
                         const char *without);

#endif

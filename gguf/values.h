/* Inside of the container reader: the table of value types, shared by the parser and the getters.
 */
#ifndef OUTRIDER_GGUF_VALUES_H
#define OUTRIDER_GGUF_VALUES_H

#include "shard.h"

enum value_class {
    CLASS_UNSIGNED,
    CLASS_SIGNED,
    CLASS_FLOAT,
    CLASS_BOOL,
    CLASS_STRING,
    CLASS_ARRAY,
};

struct value_type {
    const char *name;
    uint8_t bytes; /* of a value; of a string the least, its length; 0 for arrays */
    uint8_t value_class;
};

#define N_VALUE_TYPES 13
extern const struct value_type value_types[N_VALUE_TYPES]; /* indexed by enum gguf_type */

#endif

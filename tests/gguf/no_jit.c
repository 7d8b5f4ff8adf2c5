/* A system that forbids machine code made at run time: linked with --wrap=pcre2_jit_compile_8,
 * tests of the tokenisers run on PCRE2's interpreter. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

int __wrap_pcre2_jit_compile_8(pcre2_code_8 *code, uint32_t options);

int __wrap_pcre2_jit_compile_8(pcre2_code_8 *code, uint32_t options)
{
    (void)code;
    (void)options;
    return PCRE2_ERROR_JIT_BADOPTION;
}

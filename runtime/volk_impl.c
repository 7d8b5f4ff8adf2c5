/* The one copy of volk in the library, with hidden symbols (the build hides everything that is not
 * OTR_API), so that an application may use volk itself. Only its device tables are used: gpu.c. */
#define VOLK_IMPLEMENTATION
#include <volk.h>

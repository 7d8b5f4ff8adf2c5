#include "measure.h"
void measure_html(text *t, const json_t *summary)
{
    (void)summary;
    text_printf(t, "x");
}

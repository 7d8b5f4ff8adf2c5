/* Names of who drafts and when: see drafting.h. */
#include "drafting.h"

const char *drafters_name(uint32_t drafters)
{
    static const char *const names[] = {
        [0] = "none",
        [OTR_DRAFTER_MODEL] = "model",
        [OTR_DRAFTER_NGRAM] = "ngram",
        [OTR_DRAFTER_MODEL | OTR_DRAFTER_NGRAM] = "both",
    };

    return names[drafters];
}

const char *schedule_name(otr_schedule schedule)
{
    static const char *const names[] = {
        [OTR_SCHEDULE_AUTO] = "auto",
        [OTR_SCHEDULE_SERIAL] = "serial",
        [OTR_SCHEDULE_PIPELINED] = "pipelined",
    };

    return names[schedule];
}

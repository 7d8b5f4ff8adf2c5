/* Skips by the tier of the default device (needs_tier.h). */
#include "needs_tier.h"

#include <stdio.h>
#include <stdlib.h>

#include "outrider/outrider.h"

bool needs_tier(int32_t tier)
{
    otr_device_info info = {.size = sizeof info, .tier = -1};
    otr_context *context = NULL;
    uint32_t index;
    bool found = otr_context_create(NULL, &context) == OTR_OK &&
                 otr_device_find(context, NULL, &index) == OTR_OK &&
                 otr_device_describe(context, index, &info) == OTR_OK;

    otr_context_destroy(&context);
    if (!found)
        printf("SKIP: no device\n");
    else if (info.tier < tier)
        printf("SKIP: %s is of tier %d, not %d%s%s\n", info.name, (int)info.tier, (int)tier,
               info.note[0] ? ": " : "", info.note);
    return found && info.tier >= tier;
}

bool needs_tier_of_environment(void)
{
    const char *tier = getenv("OUTRIDER_TEST_TIER");

    return !tier || needs_tier(atoi(tier));
}

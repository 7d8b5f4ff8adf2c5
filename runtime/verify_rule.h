/* Verification by the ratio of probabilities: rejection sampling token by token, and its block form. A
 * step between the target's sampling and the acceptance: shaders/residual.comp and decide.comp set what
 * accept.comp compares. The draft's probabilities of each drafted token lie in rows 1 to 16 of its own
 * logits, which drafting doesn't use, the target's in the place of its logits (shaders/sample.comp): no
 * memory of their own. What is recorded is recorded when a session is first asked for it. */
#ifndef OUTRIDER_VERIFY_RULE_H
#define OUTRIDER_VERIFY_RULE_H

#include "lane.h"

typedef struct verify_rule {
    otr_verify verify; /* of the generation under way */
    VkPipeline residual, decide;
    VkDescriptorSet residual_set, decide_set;
    VkCommandBuffer commands[N_RULES];
} verify_rule;

/* Chooses the rule of a generation; refuses by name what it can't be combined with. Greedy and plain
 * generations are coupled ones: there is nothing to draw, or nothing to verify. */
otr_result verify_rule_begin(otr_session *s, otr_generate_params *p);
/* The noise of a lane's draws in its request, for BEGIN_GENERATE. */
void verify_rule_write(const otr_session *s, const lane *l);
/* Adds the rule's step to a block's submission; nothing for coupled verification. */
bool verify_rule_add(const otr_session *s, submission *sub);
/* The step, for record.h's users; verify_rule_begin has been called. */
void verify_rule_emit(const otr_session *s, VkCommandBuffer commands, uint32_t rule);

#endif

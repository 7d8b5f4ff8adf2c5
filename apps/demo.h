/* Where the demo models are. Used by run and eval when no model is given. */
#ifndef OUTRIDER_APPS_DEMO_H
#define OUTRIDER_APPS_DEMO_H

#define DEMO_TARGET "outrider-demo-target.gguf"
#define DEMO_DRAFT "outrider-demo-draft.gguf"

/* Path of a demo model, to be freed. NULL and a message when none is found. *code is the exit code
 * then. */
char *demo_path(const char *name, int *code);

#endif

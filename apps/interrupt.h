/* Ctrl-C and SIGTERM: the first asks for a clean stop, a second kills.
 *
 * Installed by main; read by everything that works for long. */
#ifndef OUTRIDER_APPS_INTERRUPT_H
#define OUTRIDER_APPS_INTERRUPT_H

#include <outrider/outrider.h>

void interrupt_install(void);
/* The session that the signal cancels; NULL before it is destroyed. */
void interrupt_watch(otr_session *session);
/* The signal that came, or 0. */
int interrupt_signal(void);

#endif

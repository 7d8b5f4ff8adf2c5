/* Ctrl-C and SIGTERM: see interrupt.h. */
#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic(otr_session *) watched;
static atomic_int received;

static void on_signal(int number)
{
    otr_session *session = atomic_load(&watched);

    atomic_store(&received, number);
    if (session)
        otr_session_cancel(session);
}

void interrupt_install(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    /* Back to the default after the first, so that a second one kills. No SA_RESTART: a read of
     * the prompt from a terminal must return. */
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A closed pipe is an error of the write that finds it. */
    signal(SIGPIPE, SIG_IGN);
}

void interrupt_watch(otr_session *session)
{
    atomic_store(&watched, session);
}

int interrupt_signal(void)
{
    return atomic_load(&received);
}

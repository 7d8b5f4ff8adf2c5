/* Keeps log messages for tests (capture.h). */
#include "capture.h"

#include <stdio.h>
#include <string.h>

#include <check.h>

void capture_start(capture *c)
{
    pthread_mutex_init(&c->lock, NULL);
    c->length = 0;
    c->text[0] = '\0';
}

void capture_log(otr_log_level level, const char *message, void *user)
{
    capture *c = user;
    size_t room;

    pthread_mutex_lock(&c->lock);
    room = sizeof c->text - c->length;
    if (strlen(message) + 4 < room)
        c->length += (size_t)snprintf(c->text + c->length, room, "%d %s\n", (int)level, message);
    pthread_mutex_unlock(&c->lock);
}

bool capture_has(capture *c, const char *text)
{
    bool found;

    pthread_mutex_lock(&c->lock);
    found = strstr(c->text, text) != NULL;
    pthread_mutex_unlock(&c->lock);
    return found;
}

otr_context *capture_context(capture *c, bool validation, const char *cache_dir)
{
    otr_context_params params = otr_context_params_default();
    otr_context *context = NULL;
    otr_result result;

    capture_start(c);
    params.log = capture_log;
    params.log_user = c;
    params.log_level = OTR_LOG_DEBUG;
    params.validation = validation;
    params.cache_dir = cache_dir;
    result = otr_context_create(&params, &context);
    ck_assert_msg(result == OTR_OK, "%s: %s", otr_result_string(result), c->text);
    return context;
}

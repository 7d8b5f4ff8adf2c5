/* Error messages, one per thread and context, the log, and names of results. Called by everything
 * that can fail. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

#ifndef OTR_VERSION
#error "the build defines OTR_VERSION"
#endif

#define MESSAGE_BYTES 1024
/* Threads of which a context keeps the last message; past it the oldest message gives way, so that
 * a server that starts a thread per request does not grow. */
#define MAX_THREAD_MESSAGES 64

struct thread_message {
    struct thread_message *next; /* the latest first */
    uint64_t thread;
    char text[MESSAGE_BYTES];
};

/* A number of the calling thread that no other gets: pthread_self() is used again by the next
 * thread, which would then find the message of a dead one. */
static uint64_t thread_number(void)
{
    static atomic_uint_least64_t n_threads;
    static _Thread_local uint64_t number;

    if (number == 0)
        number = atomic_fetch_add(&n_threads, 1) + 1;
    return number;
}

const char *otr_version(void)
{
    return OTR_VERSION;
}

const char *otr_result_string(otr_result result)
{
    static const char *const texts[] = {
        [OTR_OK] = "success",
        [OTR_ERROR_INVALID_ARGUMENT] = "invalid argument",
        [OTR_ERROR_OUT_OF_MEMORY] = "out of memory",
        [OTR_ERROR_IO] = "input or output error",
        [OTR_ERROR_FORMAT] = "malformed data",
        [OTR_ERROR_UNSUPPORTED] = "not supported",
        [OTR_ERROR_NO_VULKAN] = "no Vulkan",
        [OTR_ERROR_NO_DEVICE] = "no such device",
        [OTR_ERROR_DEVICE] = "device error",
        [OTR_ERROR_DEVICE_LOST] = "device lost",
        [OTR_ERROR_TIMEOUT] = "time-out",
        [OTR_ERROR_VOCABULARY] = "different vocabularies",
        [OTR_ERROR_CONTEXT_FULL] = "context full",
        [OTR_ERROR_CANCELLED] = "cancelled",
        [OTR_ERROR_SELFTEST] = "self-test failed",
    };
    size_t index = (size_t)result;

    return index < sizeof texts / sizeof texts[0] ? texts[index] : "unknown result";
}

const char *vk_result_name(VkResult result)
{
#define NAME(code)                                                                                 \
    {                                                                                              \
        code, #code                                                                                \
    }
    static const struct {
        VkResult result;
        const char *name;
    } names[] = {
        NAME(VK_SUCCESS),
        NAME(VK_NOT_READY),
        NAME(VK_TIMEOUT),
        NAME(VK_INCOMPLETE),
        NAME(VK_PIPELINE_COMPILE_REQUIRED),
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY),
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY),
        NAME(VK_ERROR_INITIALIZATION_FAILED),
        NAME(VK_ERROR_DEVICE_LOST),
        NAME(VK_ERROR_MEMORY_MAP_FAILED),
        NAME(VK_ERROR_LAYER_NOT_PRESENT),
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT),
        NAME(VK_ERROR_FEATURE_NOT_PRESENT),
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER),
        NAME(VK_ERROR_TOO_MANY_OBJECTS),
        NAME(VK_ERROR_FRAGMENTED_POOL),
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY),
        NAME(VK_ERROR_FRAGMENTATION),
        NAME(VK_ERROR_NOT_PERMITTED_KHR),
        NAME(VK_ERROR_INVALID_SHADER_NV),
        NAME(VK_ERROR_UNKNOWN),
    };
#undef NAME

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].result == result)
            return names[i].name;
    return "unknown VkResult";
}

/* Makes one line of a message, as the log callback promises. */
static void flatten(char *text)
{
    size_t end = strlen(text);

    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        text[--end] = '\0';
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

static void emit(otr_context *context, otr_log_level level, const char *text)
{
    if (context->log && level <= context->log_level)
        context->log(level, text, context->log_user);
}

static struct thread_message **find_message(otr_context *context)
{
    const uint64_t self = thread_number();
    struct thread_message **at = &context->messages;

    while (*at && (*at)->thread != self)
        at = &(*at)->next;
    return at;
}

/* Without memory for it the message still goes to the log. */
static void keep_message(otr_context *context, const char *text)
{
    struct thread_message **at, *message;

    pthread_mutex_lock(&context->message_lock);
    at = find_message(context);
    if (!*at) {
        size_t n = 0;
        for (struct thread_message *i = context->messages; i; i = i->next)
            n++;
        if (n >= MAX_THREAD_MESSAGES)
            for (at = &context->messages; (*at)->next; at = &(*at)->next)
                ;
    }
    message = *at;
    if (message)
        *at = message->next;
    else
        message = malloc(sizeof *message);
    if (message) {
        message->thread = thread_number();
        snprintf(message->text, sizeof message->text, "%s", text);
        message->next = context->messages;
        context->messages = message;
    }
    pthread_mutex_unlock(&context->message_lock);
}

otr_result context_fail(otr_context *context, otr_result result, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    flatten(text);
    keep_message(context, text);
    emit(context, OTR_LOG_ERROR, text);
    return result;
}

otr_result context_fail_vk(otr_context *context, VkResult vk_result, const char *format, ...)
{
    static const struct {
        VkResult vk;
        otr_result result;
    } map[] = {
        {VK_ERROR_OUT_OF_HOST_MEMORY, OTR_ERROR_OUT_OF_MEMORY},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, OTR_ERROR_OUT_OF_MEMORY},
        {VK_ERROR_OUT_OF_POOL_MEMORY, OTR_ERROR_OUT_OF_MEMORY},
        {VK_ERROR_TOO_MANY_OBJECTS, OTR_ERROR_OUT_OF_MEMORY},
        {VK_ERROR_DEVICE_LOST, OTR_ERROR_DEVICE_LOST},
        {VK_TIMEOUT, OTR_ERROR_TIMEOUT},
    };
    otr_result result = OTR_ERROR_DEVICE;
    char text[MESSAGE_BYTES];
    va_list arguments;

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (map[i].vk == vk_result)
            result = map[i].result;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return context_fail(context, result, "%s failed: %s (%d)", text, vk_result_name(vk_result),
                        (int)vk_result);
}

void context_log(otr_context *context, otr_log_level level, const char *format, ...)
{
    char text[4 * MESSAGE_BYTES];
    va_list arguments;

    if (!context->log || level > context->log_level)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    flatten(text);
    emit(context, level, text);
}

size_t otr_error_message(const otr_context *const_context, char *buffer, size_t size)
{
    /* Reading takes the lock; what the caller sees of the context does not change. */
    otr_context *context = (otr_context *)const_context;
    const struct thread_message *message;
    size_t length = 0;

    if (size > 0)
        buffer[0] = '\0';
    if (!context)
        return 0;
    pthread_mutex_lock(&context->message_lock);
    message = *find_message(context);
    if (message) {
        length = strlen(message->text);
        snprintf(buffer, size, "%s", message->text);
    }
    pthread_mutex_unlock(&context->message_lock);
    return length;
}

void context_free_messages(otr_context *context)
{
    while (context->messages) {
        struct thread_message *next = context->messages->next;
        free(context->messages);
        context->messages = next;
    }
}

/* A Vulkan device that isn't there, for tests of scheduling: a "loader" (OUTRIDER_VULKAN_LOADER) whose
 * queues are threads. It carries out copies, fills and the few kernels that decide what happens next
 * (mock_kernels.c); all others do nothing. Its target writes a text that depends on the last tokens of
 * what its lane has been given, so that a token lost or kept too long changes it. Runs take random
 * times. In the environment:
 *   MOCK_VULKAN_QUEUES     "1" (default), "2" of one family, "1+1" of two
 *   MOCK_VULKAN_TIMELINE   "0": no timeline semaphores
 *   MOCK_VULKAN_TARGET_US  time of a target's pass, which counts when a token is sampled (default 0)
 *   MOCK_VULKAN_DRAFT_US   of a draft's step
 *   MOCK_VULKAN_MISSES     of 256 tokens how many the draft gets wrong (default 80) */
#ifndef OUTRIDER_TEST_MOCK_VULKAN_H
#define OUTRIDER_TEST_MOCK_VULKAN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define MOCK_BINDINGS 8
#define MOCK_PUSH_WORDS 32
#define MOCK_QUERIES 16

typedef struct mock_memory {
    uint8_t *bytes;
} mock_memory;

typedef struct mock_buffer {
    bool is_drafts; /* the lane buffer of a draft: it has ended a draft step */
    mock_memory *memory;
    VkDeviceSize offset, size;
} mock_buffer;

typedef struct mock_set {
    struct mock_set *next; /* of its pool */
    struct {
        const mock_buffer *buffer;
        VkDeviceSize offset;
    } bindings[MOCK_BINDINGS];
} mock_set;

typedef struct mock_pipeline {
    char name[64]; /* as vkSetDebugUtilsObjectNameEXT says */
} mock_pipeline;

typedef struct mock_queries {
    uint64_t values[MOCK_QUERIES];
} mock_queries;

enum mock_command_kind { MOCK_COPY, MOCK_FILL, MOCK_DISPATCH, MOCK_STAMP };

typedef struct mock_command {
    enum mock_command_kind kind;
    const mock_buffer *from, *to;
    VkBufferCopy region; /* of a fill: dstOffset and size */
    uint32_t value;      /* of a fill, or number of a query */
    const mock_pipeline *pipeline;
    const mock_set *set;
    mock_queries *queries;
    uint32_t push[MOCK_PUSH_WORDS];
} mock_command;

struct mock_pool;

typedef struct mock_commands {
    struct mock_commands *next; /* of its pool */
    uint32_t family;
    mock_command *list;
    size_t n, capacity;
    mock_command state; /* pipeline, set and push constants of the next dispatch */
} mock_commands;

typedef struct mock_pool {
    mock_commands *commands;
    uint32_t family;
} mock_pool;

typedef struct mock_fence {
    pthread_mutex_t lock;
    pthread_cond_t signal;
    bool is_signalled;
} mock_fence;

typedef struct mock_timeline {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint64_t value;
} mock_timeline;

/* A VkSubmitInfo. */
typedef struct mock_job {
    struct mock_job *next;
    mock_timeline *after, *signals; /* NULL: none */
    uint64_t after_value, signals_value;
    mock_fence *fence; /* of the last one of a submission */
    uint32_t n;
    mock_commands *commands[];
} mock_job;

typedef struct mock_queue {
    uint32_t family;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    mock_job *first, **last;
    bool ends;
    uint64_t random;
} mock_queue;

#define MOCK_MAX_QUEUES 4
typedef struct mock_device {
    uint32_t n_queues;
    mock_queue queues[MOCK_MAX_QUEUES];
} mock_device;

/* For the functions' definitions. */
#define NO_ALLOCATOR const VkAllocationCallbacks *allocator
#define HANDLE(type, pointer) ((type)(uintptr_t)(pointer))
#define OBJECT(type, handle) ((type *)(uintptr_t)(handle))

#define MOCK_FREE(function, handle_type)                                                           \
    static void VKAPI_CALL function(VkDevice device, handle_type handle, NO_ALLOCATOR)             \
    {                                                                                              \
        free(OBJECT(void, handle));                                                                \
    }

/* Zeroes; the program ends where there is no memory. */
void *mock_make(size_t size);

typedef struct mock_entry {
    const char *name;
    PFN_vkVoidFunction function;
} mock_entry;
#define MOCK_ENTRY(name, function)                                                                 \
    {                                                                                              \
        "vk" #name, (PFN_vkVoidFunction)(function)                                                 \
    }

/* NULL: not in the list. */
PFN_vkVoidFunction mock_find(const mock_entry *list, size_t n, const char *name);
/* mock_commands.c */
PFN_vkVoidFunction mock_find_command(const char *name);

/* mock_queue.c */
void mock_device_start(mock_device *d, const VkDeviceCreateInfo *info);
void mock_device_stop(mock_device *d);
uint64_t mock_now_ns(void);
mock_command *mock_add(VkCommandBuffer commands, enum mock_command_kind kind);
VkResult VKAPI_CALL mock_queue_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos,
                                      VkFence fence);
VkResult VKAPI_CALL mock_wait_for_fences(VkDevice device, uint32_t n, const VkFence *fences,
                                         VkBool32 all, uint64_t timeout_ns);
VkResult VKAPI_CALL mock_reset_fences(VkDevice device, uint32_t n, const VkFence *fences);
VkResult VKAPI_CALL mock_create_semaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                                          NO_ALLOCATOR, VkSemaphore *semaphore);
void VKAPI_CALL mock_destroy_semaphore(VkDevice device, VkSemaphore semaphore, NO_ALLOCATOR);

/* mock_kernels.c: what a dispatch does, if it is of a kernel that is carried out. */
void mock_run_kernel(const mock_command *dispatch);

#endif

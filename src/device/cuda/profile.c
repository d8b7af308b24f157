#include "device/cuda/profile.h"

#include "base/clock.h"
#include "base/memory.h"
#include "device/cuda/plugin.h"

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_BYTES = 4 << 20,
    MANY_BUFFERS = 512,
    PATH_BYTES = 4096,
    TOOLKIT_MAJOR = CUPTI_API_VERSION / 10000
};

/* The functions of the library that are used. */
typedef struct library {
    void *handle;
    CUptiResult (*register_callbacks)(CUpti_BuffersCallbackRequestFunc,
                                      CUpti_BuffersCallbackCompleteFunc);
    CUptiResult (*register_timestamp)(CUpti_TimestampCallbackFunc);
    CUptiResult (*set_thread_id_type)(CUpti_ActivityThreadIdType);
    CUptiResult (*enable)(CUpti_ActivityKind);
    CUptiResult (*disable)(CUpti_ActivityKind);
    CUptiResult (*flush)(uint32_t flag);
    CUptiResult (*next)(uint8_t *buffer, size_t bytes, CUpti_Activity **record);
    CUptiResult (*dropped)(CUcontext context, uint32_t stream, size_t *out);
    CUptiResult (*push)(CUpti_ExternalCorrelationKind kind, uint64_t id);
    CUptiResult (*pop)(CUpti_ExternalCorrelationKind kind, uint64_t *last);
    CUptiResult (*call_name)(CUpti_CallbackDomain domain, uint32_t id, const char **name);
    CUptiResult (*error_text)(CUptiResult result, const char **text);
    CUptiResult (*version)(uint32_t *out);
    char *(*demangle)(const char *name, char *buffer, size_t *bytes, int *status); /* or NULL */
} library;

typedef struct buffer {
    uint8_t *data;
    size_t bytes; /* of records */
} buffer;

/* A kernel's name as CUPTI spells it, and as people do. */
typedef struct kernel_name {
    const char *mangled;
    char *text;
} kernel_name;

/* Which launch a call belongs to. */
typedef struct link {
    uint32_t correlation;
    int64_t launch;
} link;

struct haul_cuda_profile {
    library cupti;
    struct cudaDeviceProp card;
    int driver_version, runtime_version;
    uint32_t cupti_version;
    kernel_name *names;
    int64_t name_count, name_capacity;
    buffer buffers[MANY_BUFFERS];
    int64_t buffer_count;
    link *links;
    int64_t link_count, link_capacity;
    int64_t lost;
};

/* CUPTI exists once a process and its callbacks bring no context, so that the recording they fill
 * cannot be but here. They come from threads of CUPTI too. */
static struct sink {
    pthread_mutex_t lock;
    haul_cuda_profile *owner; /* NULL: nobody records */
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const CUpti_ActivityKind recorded[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
};
enum { RECORDED = sizeof recorded / sizeof recorded[0] };

static const CUpti_ExternalCorrelationKind launches = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

static bool find(void *handle, const char *name, void *function) {
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_functions(library *cupti) {
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"cuptiActivityRegisterCallbacks", &cupti->register_callbacks},
        {"cuptiActivityRegisterTimestampCallback", &cupti->register_timestamp},
        {"cuptiSetThreadIdType", &cupti->set_thread_id_type},
        {"cuptiActivityEnable", &cupti->enable},
        {"cuptiActivityDisable", &cupti->disable},
        {"cuptiActivityFlushAll", &cupti->flush},
        {"cuptiActivityGetNextRecord", &cupti->next},
        {"cuptiActivityGetNumDroppedRecords", &cupti->dropped},
        {"cuptiActivityPushExternalCorrelationId", &cupti->push},
        {"cuptiActivityPopExternalCorrelationId", &cupti->pop},
        {"cuptiGetCallbackName", &cupti->call_name},
        {"cuptiGetResultString", &cupti->error_text},
        {"cuptiGetVersion", &cupti->version},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!find(cupti->handle, wanted[i].name, wanted[i].function)) {
            return false;
        }
    }
    return true;
}

/* Where the libraries of this CUDA are, with a slash at its end: of one that is loaded. */
static void find_directory(char *directory, size_t capacity) {
    size_t (*loaded)(void) = cublasLtGetVersion;
    void *address;
    Dl_info info;
    memcpy(&address, &loaded, sizeof address);
    directory[0] = '\0';
    if (dladdr(address, &info) != 0 && info.dli_fname != NULL) {
        snprintf(directory, capacity, "%s", info.dli_fname);
        char *slash = strrchr(directory, '/');
        directory[slash != NULL ? slash + 1 - directory : 0] = '\0';
    }
}

/* By the loader's rules, then where toolkits put it. Records have the layout of one major version
 * of CUDA. */
static void *open_cupti(void) {
    char beside[PATH_BYTES / 2], path[PATH_BYTES];
    const char *const directories[] = {"", beside, "/usr/local/cuda/lib64/",
                                       "/usr/local/cuda/extras/CUPTI/lib64/"};
    void *handle = NULL;
    find_directory(beside, sizeof beside);
    for (size_t i = 0; i < sizeof directories / sizeof directories[0] && handle == NULL; i++) {
        snprintf(path, sizeof path, "%slibcupti.so.%d", directories[i], TOOLKIT_MAJOR);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

static haul_status load_library(library *cupti) {
    cupti->handle = open_cupti();
    if (cupti->handle == NULL || !find_functions(cupti)) {
        haul_fail(HAUL_ERROR_UNAVAILABLE, "profiling needs libcupti.so.%d, which %s", TOOLKIT_MAJOR,
                  cupti->handle == NULL ? "is not found" : "is here, but too old");
        haul_hint("install CUPTI of CUDA %d, or put its directory into LD_LIBRARY_PATH",
                  TOOLKIT_MAJOR);
        return HAUL_ERROR_UNAVAILABLE;
    }
    void *names = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL); /* else names stay mangled */
    if (names != NULL) {
        find(names, "__cxa_demangle", &cupti->demangle);
    }
    return HAUL_OK;
}

static haul_status load_profile(haul_cuda_device *cuda) {
    if (cuda->profile != NULL) {
        return HAUL_OK;
    }
    if (!cuda->ready) {
        return haul_fail(HAUL_ERROR_UNAVAILABLE, "there is no card to profile");
    }
    haul_cuda_profile *profile = haul_calloc(1, sizeof *profile);
    if (profile == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_status status = load_library(&profile->cupti);
    if (status != HAUL_OK) {
        haul_cuda_profile_close(profile);
        return status;
    }
    int device = 0;
    cudaGetDevice(&device);
    cudaGetDeviceProperties(&profile->card, device);
    cudaDriverGetVersion(&profile->driver_version);
    cudaRuntimeGetVersion(&profile->runtime_version);
    profile->cupti.version(&profile->cupti_version);
    cuda->profile = profile;
    return HAUL_OK;
}

static haul_status load(haul_device *device) {
    return haul_cuda_report(load_profile(haul_cuda_device_of(device)));
}

/* Called by CUPTI. A recording that is too long loses activities rather than memory. */
static void CUPTIAPI give_buffer(uint8_t **data, size_t *bytes, size_t *most_records) {
    pthread_mutex_lock(&sink.lock);
    bool room = sink.owner != NULL && sink.owner->buffer_count < MANY_BUFFERS;
    pthread_mutex_unlock(&sink.lock);
    *data = room ? malloc(BUFFER_BYTES) : NULL;
    *bytes = *data != NULL ? BUFFER_BYTES : 0;
    *most_records = 0; /* as many as fit */
}

/* Called by CUPTI. */
static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *data, size_t capacity,
                                 size_t bytes) {
    size_t dropped = 0;
    (void)capacity;
    pthread_mutex_lock(&sink.lock);
    haul_cuda_profile *owner = sink.owner;
    if (owner != NULL) {
        owner->cupti.dropped(context, stream, &dropped);
        owner->lost += (int64_t)dropped;
    }
    if (owner != NULL && bytes > 0 && owner->buffer_count < MANY_BUFFERS) {
        owner->buffers[owner->buffer_count++] = (buffer){.data = data, .bytes = bytes};
        data = NULL;
    }
    pthread_mutex_unlock(&sink.lock);
    free(data);
}

static uint64_t CUPTIAPI now(void) {
    return (uint64_t)haul_clock_wall_nanoseconds();
}

static haul_status check(const haul_cuda_profile *profile, const char *what, CUptiResult result) {
    const char *text = NULL;
    if (result == CUPTI_SUCCESS) {
        return HAUL_OK;
    }
    profile->cupti.error_text(result, &text);
    haul_fail(HAUL_ERROR_UNAVAILABLE, "CUPTI does not %s: %s", what,
              text != NULL ? text : "unknown error");
    haul_hint("only one profiler at a time can watch a process: run without nsys and ncu, or "
              "without --use-pytorch-profiler");
    return HAUL_ERROR_UNAVAILABLE;
}

static bool claim_sink(haul_cuda_profile *profile) {
    pthread_mutex_lock(&sink.lock);
    bool free_now = sink.owner == NULL;
    if (free_now) {
        sink.owner = profile;
    }
    pthread_mutex_unlock(&sink.lock);
    return free_now;
}

static void leave_sink(void) {
    pthread_mutex_lock(&sink.lock);
    sink.owner = NULL;
    pthread_mutex_unlock(&sink.lock);
}

static void disable_all(const haul_cuda_profile *profile) {
    for (int i = 0; i < RECORDED; i++) {
        profile->cupti.disable(recorded[i]);
    }
}

static haul_status enable_all(const haul_cuda_profile *profile) {
    const library *cupti = &profile->cupti;
    HAUL_TRY(check(profile, "take callbacks", cupti->register_callbacks(give_buffer, take_buffer)));
    HAUL_TRY(check(profile, "take our clock", cupti->register_timestamp(now)));
    cupti->set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM); /* else calls stand apart */
    for (int i = 0; i < RECORDED; i++) {
        HAUL_TRY(check(profile, "record", cupti->enable(recorded[i])));
    }
    return HAUL_OK;
}

static haul_status start_recording(haul_cuda_device *cuda) {
    HAUL_TRY(load_profile(cuda));
    haul_cuda_profile *profile = cuda->profile;
    if (!claim_sink(profile)) {
        return haul_fail(HAUL_ERROR_UNAVAILABLE, "another profile is running in this process");
    }
    profile->lost = 0;
    haul_status status = enable_all(profile);
    if (status != HAUL_OK) {
        disable_all(profile);
        leave_sink();
    }
    return status;
}

static haul_status start(haul_device *device) {
    return haul_cuda_report(start_recording(haul_cuda_device_of(device)));
}

static void begin_launch(haul_device *device, int64_t number) {
    haul_cuda_device_of(device)->profile->cupti.push(launches, (uint64_t)number);
}

static void end_launch(haul_device *device) {
    haul_cuda_device_of(device)->profile->cupti.pop(launches, NULL);
}

typedef haul_status record_function(haul_cuda_profile *profile, const CUpti_Activity *record,
                                    void *context);

static haul_status each_record(haul_cuda_profile *profile, record_function *function,
                               void *context) {
    for (int64_t i = 0; i < profile->buffer_count; i++) {
        const buffer *b = &profile->buffers[i];
        CUpti_Activity *record = NULL;
        while (profile->cupti.next(b->data, b->bytes, &record) == CUPTI_SUCCESS) {
            HAUL_TRY(function(profile, record, context));
        }
    }
    return HAUL_OK;
}

static haul_status add_link(haul_cuda_profile *profile, const CUpti_Activity *record,
                            void *context) {
    const CUpti_ActivityExternalCorrelation *external = (const void *)record;
    (void)context;
    if (record->kind != CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION ||
        external->externalKind != launches) {
        return HAUL_OK;
    }
    HAUL_TRY(haul_grow(&profile->links, &profile->link_capacity, profile->link_count + 1,
                       sizeof *profile->links));
    profile->links[profile->link_count++] =
        (link){.correlation = external->correlationId, .launch = (int64_t)external->externalId};
    return HAUL_OK;
}

static int by_correlation(const void *a, const void *b) {
    const link *x = a, *y = b;
    return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

static int64_t launch_of(const haul_cuda_profile *profile, uint32_t correlation) {
    const link key = {.correlation = correlation};
    const link *found = profile->link_count == 0
                            ? NULL
                            : bsearch(&key, profile->links, (size_t)profile->link_count,
                                      sizeof *profile->links, by_correlation);
    return found != NULL ? found->launch : 0;
}

/* There are some dozens of kernels, and the last ones found are the likeliest. */
static const char *name_of_kernel(haul_cuda_profile *profile, const char *mangled) {
    for (int64_t i = profile->name_count - 1; i >= 0; i--) {
        if (profile->names[i].mangled == mangled) {
            return profile->names[i].text;
        }
    }
    int status = -1;
    char *text = mangled != NULL && profile->cupti.demangle != NULL
                     ? profile->cupti.demangle(mangled, NULL, NULL, &status)
                     : NULL;
    if (text == NULL) {
        text = haul_strdup(mangled != NULL ? mangled : "kernel without a name");
    }
    if (text == NULL || haul_grow(&profile->names, &profile->name_capacity, profile->name_count + 1,
                                  sizeof *profile->names) != HAUL_OK) {
        free(text);
        return "kernel";
    }
    profile->names[profile->name_count++] = (kernel_name){.mangled = mangled, .text = text};
    return text;
}

static const char *name_of_copy(const CUpti_ActivityMemcpy6 *record) {
    bool pinned = record->srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED ||
                  record->dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    switch (record->copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
        return pinned ? "Memcpy HtoD (Pinned -> Device)" : "Memcpy HtoD (Pageable -> Device)";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
        return pinned ? "Memcpy DtoH (Device -> Pinned)" : "Memcpy DtoH (Device -> Pageable)";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
        return "Memcpy DtoD (Device -> Device)";
    default:
        return "Memcpy";
    }
}

static haul_activity kernel_activity(haul_cuda_profile *profile,
                                     const CUpti_ActivityKernel10 *record) {
    return (haul_activity){.kind = HAUL_ACTIVITY_KERNEL,
                           .name = name_of_kernel(profile, record->name),
                           .begin = (int64_t)record->start,
                           .end = (int64_t)record->end,
                           .correlation = record->correlationId,
                           .stream = record->streamId,
                           .device = record->deviceId,
                           .context = record->contextId,
                           .grid = {record->gridX, record->gridY, record->gridZ},
                           .block = {record->blockX, record->blockY, record->blockZ},
                           .registers = record->registersPerThread,
                           .shared_bytes =
                               record->staticSharedMemory + record->dynamicSharedMemory};
}

static haul_activity copy_activity(const CUpti_ActivityMemcpy6 *record) {
    return (haul_activity){.kind = HAUL_ACTIVITY_COPY,
                           .name = name_of_copy(record),
                           .begin = (int64_t)record->start,
                           .end = (int64_t)record->end,
                           .correlation = record->correlationId,
                           .stream = record->streamId,
                           .device = record->deviceId,
                           .context = record->contextId,
                           .bytes = (int64_t)record->bytes};
}

static haul_activity fill_activity(const CUpti_ActivityMemset4 *record) {
    return (haul_activity){.kind = HAUL_ACTIVITY_FILL,
                           .name = "Memset (Device)",
                           .begin = (int64_t)record->start,
                           .end = (int64_t)record->end,
                           .correlation = record->correlationId,
                           .stream = record->streamId,
                           .device = record->deviceId,
                           .context = record->contextId,
                           .bytes = (int64_t)record->bytes};
}

/* Calls that only ask are many and say nothing; of the driver's, which libraries of NVIDIA make
 * behind the runtime, launches count. A name of NULL: left out. */
static haul_activity call_activity(const haul_cuda_profile *profile,
                                   const CUpti_ActivityAPI *record) {
    static const char *const asking[] = {
        "cudaGet",  "cudaPeek",        "cudaSetDevice",    "cudaDeviceGet",
        "cudaFunc", "cudaEventCreate", "cudaEventDestroy", "cudaStreamIsCapturing"};
    bool runtime = record->kind == CUPTI_ACTIVITY_KIND_RUNTIME;
    haul_activity call = {.kind = runtime ? HAUL_ACTIVITY_RUNTIME_CALL : HAUL_ACTIVITY_DRIVER_CALL,
                          .begin = (int64_t)record->start,
                          .end = (int64_t)record->end,
                          .correlation = record->correlationId,
                          .stream = record->threadId};
    profile->cupti.call_name(runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API,
                             record->cbid, &call.name);
    if (call.name == NULL) {
        return call;
    }
    bool counts = runtime || strncmp(call.name, "cuLaunch", strlen("cuLaunch")) == 0;
    for (size_t i = 0; runtime && i < sizeof asking / sizeof asking[0]; i++) {
        counts &= strncmp(call.name, asking[i], strlen(asking[i])) != 0;
    }
    call.name = counts ? call.name : NULL;
    return call;
}

typedef struct viewer {
    haul_activity_function *see;
    void *context;
} viewer;

static haul_status show_record(haul_cuda_profile *profile, const CUpti_Activity *record,
                               void *context) {
    const viewer *v = context;
    haul_activity activity = {0};
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        activity = kernel_activity(profile, (const void *)record);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        activity = copy_activity((const void *)record);
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        activity = fill_activity((const void *)record);
        break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
        activity = call_activity(profile, (const void *)record);
        break;
    default:
        return HAUL_OK;
    }
    if (activity.name == NULL) {
        return HAUL_OK;
    }
    if (activity.begin == 0 || activity.end == 0) { /* not complete */
        profile->lost++;
        return HAUL_OK;
    }
    activity.launch = launch_of(profile, (uint32_t)activity.correlation);
    v->see(v->context, &activity);
    return HAUL_OK;
}

static haul_status show_all(haul_cuda_profile *profile, haul_activity_function *see,
                            void *context) {
    viewer v = {.see = see, .context = context};
    HAUL_TRY(each_record(profile, add_link, NULL));
    if (profile->link_count > 0) {
        qsort(profile->links, (size_t)profile->link_count, sizeof *profile->links, by_correlation);
    }
    return each_record(profile, show_record, &v);
}

static void free_records(haul_cuda_profile *profile) {
    for (int64_t i = 0; i < profile->buffer_count; i++) {
        free(profile->buffers[i].data);
    }
    free(profile->links);
    profile->links = NULL;
    profile->buffer_count = profile->link_count = profile->link_capacity = 0;
}

static haul_status stop(haul_device *device, haul_activity_function *see, void *context,
                        int64_t *lost) {
    haul_cuda_profile *profile = haul_cuda_device_of(device)->profile;
    cudaError_t error = cudaDeviceSynchronize();
    disable_all(profile);
    profile->cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    leave_sink();
    haul_status status = HAUL_OK;
    if (error != cudaSuccess) {
        status = haul_fail(HAUL_ERROR_INTERNAL, "the card: %s", cudaGetErrorString(error));
    } else if (see != NULL) {
        status = show_all(profile, see, context);
    }
    *lost = profile->lost;
    free_records(profile);
    return haul_cuda_report(status);
}

static bool fact(haul_device *device, int i, haul_device_fact *out) {
    const haul_cuda_profile *profile = haul_cuda_device_of(device)->profile;
    const struct cudaDeviceProp *card = &profile->card;
    const haul_device_fact facts[] = {
        {.name = "name", .text = card->name},
        {.name = "totalGlobalMem", .number = (int64_t)card->totalGlobalMem},
        {.name = "computeMajor", .number = card->major},
        {.name = "computeMinor", .number = card->minor},
        {.name = "maxThreadsPerBlock", .number = card->maxThreadsPerBlock},
        {.name = "maxThreadsPerMultiprocessor", .number = card->maxThreadsPerMultiProcessor},
        {.name = "regsPerBlock", .number = card->regsPerBlock},
        {.name = "warpSize", .number = card->warpSize},
        {.name = "sharedMemPerBlock", .number = (int64_t)card->sharedMemPerBlock},
        {.name = "numSms", .number = card->multiProcessorCount},
        {.name = "regsPerMultiprocessor", .number = card->regsPerMultiprocessor},
        {.name = "sharedMemPerBlockOptin", .number = (int64_t)card->sharedMemPerBlockOptin},
        {.name = "sharedMemPerMultiprocessor", .number = (int64_t)card->sharedMemPerMultiprocessor},
        {.name = "cuda_driver_version", .number = profile->driver_version, .is_version = true},
        {.name = "cuda_runtime_version", .number = profile->runtime_version, .is_version = true},
        {.name = "cupti_version", .number = profile->cupti_version, .is_version = true},
    };
    if (i >= (int)(sizeof facts / sizeof facts[0])) {
        return false;
    }
    *out = facts[i];
    return true;
}

static void capture(haul_device *device, bool on) {
    (void)device;
    if (on) {
        cudaProfilerStart();
    } else {
        cudaProfilerStop();
    }
}

void haul_cuda_profile_close(haul_cuda_profile *profile) {
    if (profile == NULL) {
        return;
    }
    free_records(profile);
    for (int64_t i = 0; i < profile->name_count; i++) {
        free(profile->names[i].text);
    }
    free(profile->names);
    free(profile); /* CUPTI stays: it cannot be taken out of a process that it has watched */
}

const haul_profiler haul_cuda_profiler = {
    .load = load,
    .start = start,
    .begin_launch = begin_launch,
    .end_launch = end_launch,
    .stop = stop,
    .fact = fact,
    .capture = capture,
};

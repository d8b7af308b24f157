#include "device/cpu/backend.h"

#include "base/fault.h"
#include "base/format.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "device/cpu/matmul.h"
#include "device/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4 << 10, HUGE_PAGE = 2 << 20 };

static bool runs_always(void) {
    return true;
}

#ifdef HAUL_HAVE_avx2
static bool runs_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#ifdef HAUL_HAVE_avx512
static bool runs_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

static const struct {
    haul_cpu_isa isa;
    bool (*runs)(void);
} isas[] = {
#ifdef HAUL_HAVE_avx512
    {{"avx512", haul_cpu_entries_avx512}, runs_avx512},
#endif
#ifdef HAUL_HAVE_avx2
    {{"avx2", haul_cpu_entries_avx2}, runs_avx2},
#endif
    {{"portable", haul_cpu_entries_portable}, runs_always},
};

const haul_cpu_isa *haul_cpu_isa_at(int index) {
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        if (isas[i].runs() && index-- == 0) {
            return &isas[i].isa;
        }
    }
    return NULL;
}

void haul_cpu_use_isa(haul_device *device, const haul_cpu_isa *isa) {
    haul_cpu_state *state = device->state;
    state->isa = isa;
}

haul_cpu_matmul *haul_cpu_matmul_of(haul_device *device) {
    haul_cpu_state *state = device->state;
    return state->matmul;
}

static void cpu_close(haul_device *device) {
    haul_cpu_state *state = device->state;
    haul_cpu_matmul_close(state->matmul);
    free(state);
    device->state = NULL;
}

static haul_status cpu_open(haul_device *device) {
    haul_cpu_state *state = haul_calloc(1, sizeof *state);
    if (state == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    state->isa = haul_cpu_isa_at(0);
    device->state = state;
    haul_status status = haul_cpu_matmul_open(device, &state->matmul);
    if (status != HAUL_OK) {
        free(state);
        device->state = NULL;
    }
    return status;
}

static void touch(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    for (int64_t page = begin; page < end; page++) {
        ((volatile char *)context)[page * PAGE] = 0;
    }
}

/* `size` bytes at a huge page boundary, when they fill one; NULL when there are none. */
static char *map(size_t size) {
    size_t slack = size >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *mapped =
        mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return NULL;
    }
    if (slack > 0) {
        size_t head = (HUGE_PAGE - (uintptr_t)mapped % HUGE_PAGE) % HUGE_PAGE;
        if (head > 0) {
            munmap(mapped, head);
        }
        mapped += head;
        munmap(mapped + size, slack - head);
        madvise(mapped, size, MADV_HUGEPAGE);
    }
    return mapped;
}

static size_t mapped_size(int64_t bytes) {
    return (size_t)haul_round_up(haul_max(bytes, 1), PAGE);
}

/* Each page is touched once, by the thread that is likely to use it: it lies in that thread's
 * memory, and no page fault is left for the step. */
static haul_status cpu_allocate(haul_device *device, int64_t bytes, void **out) {
    size_t size = mapped_size(bytes);
    char *memory = haul_fault_hit(HAUL_FAULT_ALLOC) ? NULL : map(size);
    if (memory == NULL) {
        haul_fail(HAUL_ERROR_MEMORY, "out of memory: %s for tensors",
                  haul_format_bytes(bytes).text);
        haul_hint("use a smaller --micro-batch-size or --seq-length");
        return HAUL_ERROR_MEMORY;
    }
    haul_parallel_for(device->threads, (int64_t)size / PAGE, HUGE_PAGE / PAGE, touch, memory);
    *out = memory;
    return HAUL_OK;
}

static void cpu_release(haul_device *device, void *memory, int64_t bytes) {
    (void)device;
    if (memory != NULL) {
        munmap(memory, mapped_size(bytes));
    }
}

/* Ops that are the same for each instruction set. */
static const haul_op_entry common_entries[HAUL_OPS] = {
    [HAUL_OP_MATMUL] = {haul_cpu_matmul_launch, haul_cpu_matmul_workspace},
    [HAUL_OP_PACK] = {haul_cpu_pack_launch, haul_cpu_pack_workspace},
    [HAUL_OP_VERDICT] = {haul_host_verdict, NULL},
};

static const haul_op_entry *cpu_entry(const haul_device *device, haul_op op) {
    const haul_cpu_state *state = device->state;
    return common_entries[op].launch != NULL ? &common_entries[op] : &state->isa->entries[op];
}

static void cpu_describe(const haul_device *device, char *text, int64_t capacity) {
    const haul_cpu_state *state = device->state;
    char products[128];
    haul_cpu_matmul_describe(state->matmul, products, sizeof products);
    snprintf(text, (size_t)capacity, "cpu %s, %d thread%s, %s", state->isa->name, device->threads,
             device->threads == 1 ? "" : "s", products);
}

const haul_backend haul_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .packed_bytes = haul_cpu_packed_bytes,
    .entry = cpu_entry,
    .describe = cpu_describe,
};

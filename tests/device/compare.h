/* Kernels against the float64 reference. A `haul_twin` holds the same numbers twice: in the dtype
 * of the kernel under test, and in f64 for `ref` (which therefore sees the rounded inputs). Bounds
 * are derived: half a unit in the last place of the output dtype, plus what a sum in f32 may lose,
 * haul_test_sum_bound. */
#ifndef HAUL_TESTS_DEVICE_COMPARE_H
#define HAUL_TESTS_DEVICE_COMPARE_H

#include "base/memory.h"
#include "base/philox.h"
#include "device/device.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The device of the open haul_pair, whose kernels reach what haul_test_allocate gives; NULL: one in
 * host memory. */
static haul_device *haul_test_device;

/* Zeroed; for the args of the device under test. */
static inline void *haul_test_allocate(int64_t bytes) {
    void *memory = NULL;
    if (haul_test_device != NULL) {
        assert_ok(haul_device_allocate_host(haul_test_device, bytes, &memory));
    } else {
        memory = haul_calloc(bytes, 1);
    }
    assert_non_null(memory);
    return memory;
}

static inline void haul_test_release(void *memory) {
    if (haul_test_device != NULL) {
        haul_device_release_host(haul_test_device, memory);
    } else {
        free(memory);
    }
}

typedef struct haul_twin {
    haul_tensor tested; /* in the dtype of the kernel; for its args */
    haul_tensor ref;    /* in f64 (i32 for indices); for the args on ref */
} haul_twin;

/* [rows, columns], or [rows] with columns 0; every element is NaN (0 in an integer dtype), so that
 * a kernel that leaves an output unwritten shows. Freed by haul_twin_free. */
static inline haul_twin haul_twin_output(haul_dtype dtype, int64_t rows, int64_t columns) {
    bool integer = dtype >= HAUL_I64;
    int ndim = columns > 0 ? 2 : 1;
    int64_t count = rows * haul_max(columns, 1);
    haul_dtype wide = integer ? dtype : HAUL_F64;
    haul_twin twin = {
        .tested = {haul_test_allocate(count * haul_dtype_size(dtype)),
                   dtype,
                   ndim,
                   {rows, columns}},
        .ref = {haul_calloc(count, (size_t)haul_dtype_size(wide)), wide, ndim, {rows, columns}},
    };
    assert_non_null(twin.ref.data);
    for (int64_t i = 0; i < count && !integer; i++) {
        haul_element_set(twin.tested.data, dtype, i, (double)NAN);
        haul_element_set(twin.ref.data, wide, i, (double)NAN);
    }
    return twin;
}

/* Sets one element of both, rounded to the dtype of the tested one. */
static inline void haul_twin_set(haul_twin *twin, int64_t index, double value) {
    haul_element_set(twin->tested.data, twin->tested.dtype, index, value);
    double rounded = haul_element_get(twin->tested.data, twin->tested.dtype, index);
    haul_element_set(twin->ref.data, twin->ref.dtype, index, rounded);
}

/* As haul_twin_output, but normal numbers times `scale`; a different `stream`, other numbers. */
static inline haul_twin haul_twin_random(haul_dtype dtype, int64_t rows, int64_t columns,
                                         double scale, uint64_t stream) {
    haul_twin twin = haul_twin_output(dtype, rows, columns);
    for (int64_t i = 0; i < haul_tensor_count(&twin.tested); i++) {
        haul_twin_set(&twin, i, scale * haul_normal(1234, stream, i));
    }
    return twin;
}

/* i32 [rows], uniform in [0, limit). */
static inline haul_twin haul_twin_indices(int64_t rows, int64_t limit, uint64_t stream) {
    haul_twin twin = haul_twin_output(HAUL_I32, rows, 0);
    for (int64_t i = 0; i < rows; i++) {
        const uint32_t key[2] = {5678, (uint32_t)stream};
        const uint32_t counter[4] = {(uint32_t)i};
        haul_twin_set(&twin, i, (double)(haul_philox_4x32(key, counter).word[0] % limit));
    }
    return twin;
}

static inline void haul_twin_free(haul_twin *twin) {
    haul_test_release(twin->tested.data);
    free(twin->ref.data);
    *twin = (haul_twin){0};
}

/* Half a unit in the last place of a number near 1. */
static inline double haul_test_roundoff(haul_dtype dtype) {
    switch (dtype) {
    case HAUL_F64:
        return 0x1p-53;
    case HAUL_F32:
        return 0x1p-24;
    case HAUL_BF16:
        return 0x1p-8;
    case HAUL_F16:
        return 0x1p-11;
    case HAUL_E4M3:
        return 0x1p-4;
    case HAUL_E5M2:
        return 0x1p-3;
    default:
        return 0.0;
    }
}

/* What a sum of `terms` products, added in f32 in any order, may be off by when the magnitudes of
 * the products add up to `magnitude` (Higham, "Accuracy and stability", section 3.1). */
static inline double haul_test_sum_bound(int64_t terms, double magnitude) {
    return (double)(terms + 1) * 0x1p-24 * magnitude;
}

/* Fails unless each tested element is within roundoff(dtype) * |ref| + bound of its twin. */
static inline void haul_twin_assert_close(const haul_twin *twin, double bound, const char *name) {
    double roundoff = haul_test_roundoff(twin->tested.dtype);
    for (int64_t i = 0; i < haul_tensor_count(&twin->tested); i++) {
        double got = haul_element_get(twin->tested.data, twin->tested.dtype, i);
        double want = haul_element_get(twin->ref.data, twin->ref.dtype, i);
        double allowed = roundoff * (fabs(want) + bound) + bound;
        bool both_nan = isnan(got) && isnan(want);
        if (!both_nan && got != want && !(fabs(got - want) <= allowed)) {
            fail_msg("%s[%lld] (%s) is %.9g, must be %.9g +- %.3g", name, (long long)i,
                     haul_dtype_name(twin->tested.dtype), got, want, allowed);
        }
    }
}

/* Launches an op, and waits for it, with the scratch that it asks for and a canary behind it; fails
 * the test when the stream fails or the canary died. */
static inline void haul_test_launch(haul_stream *stream, haul_op op, const void *args) {
    enum { CANARY = 64, ALIGNMENT = 256 };
    const haul_op_entry *entry = stream->device->backend->entry(stream->device, op);
    int64_t bytes = entry->workspace != NULL ? entry->workspace(stream->device, args) : 0;
    unsigned char *memory = haul_test_allocate(haul_round_up(bytes, 64) + CANARY + ALIGNMENT);
    unsigned char *scratch = memory + (ALIGNMENT - (uintptr_t)memory % ALIGNMENT);
    memset(scratch, 0xff, (size_t)haul_round_up(bytes, 64) + CANARY);
    stream->scratch = scratch;
    stream->scratch_bytes = bytes;
    haul_launch(stream, op, args);
    assert_ok(haul_stream_wait(stream));
    for (int64_t i = bytes; i < haul_round_up(bytes, 64) + CANARY; i++) {
        if (scratch[i] != 0xff) {
            fail_msg("%s wrote behind its %lld bytes of scratch", haul_op_name(op),
                     (long long)bytes);
        }
    }
    haul_test_release(memory);
    stream->scratch = NULL;
    stream->scratch_bytes = 0;
}

/* A device under test beside ref, each with a stream. The streams point into the struct, so it
 * must stay where it was opened. */
typedef struct haul_pair {
    haul_device tested_device, ref_device;
    haul_stream tested, ref;
} haul_pair;

static inline void haul_pair_open(haul_pair *pair, const char *backend, int threads) {
    *pair = (haul_pair){0};
    assert_ok(haul_device_init(&pair->tested_device, backend, threads, HAUL_PRODUCT_F32));
    assert_ok(haul_device_init(&pair->ref_device, "ref", 1, HAUL_PRODUCT_F32));
    pair->tested.device = &pair->tested_device;
    pair->ref.device = &pair->ref_device;
    haul_test_device = &pair->tested_device;
}

static inline void haul_pair_close(haul_pair *pair) {
    haul_test_device = NULL;
    haul_device_deinit(&pair->tested_device);
    haul_device_deinit(&pair->ref_device);
}

/* The backend that a test was asked for by its first argument, cpu without one. Ends the test as
 * skipped where that backend cannot run. */
static inline const char *haul_test_backend(int argc, char **argv) {
    enum { SKIPPED = 77 };
    const char *name = argc > 1 ? argv[1] : "cpu";
    haul_device device;
    bool opens = haul_device_init(&device, name, 1, HAUL_PRODUCT_F32) == HAUL_OK;
    if (!opens || (device.backend->ready != NULL && !device.backend->ready(&device))) {
        print_message("skipped: %s cannot run here: %s\n", name, haul_error_message());
        exit(SKIPPED);
    }
    haul_device_deinit(&device);
    return name;
}

/* The op on both: `tested` and `ref` are its args with the tensors of either side. */
static inline void haul_pair_launch(haul_pair *pair, haul_op op, const void *tested,
                                    const void *ref) {
    haul_test_launch(&pair->tested, op, tested);
    haul_test_launch(&pair->ref, op, ref);
}

#endif

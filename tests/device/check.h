/* Runs the checks of a backend's ops at many points: both dtypes, odd shapes small and large enough
 * to use threads, on the cpu every instruction set that this machine runs and several thread
 * counts. Each point must agree with ref within its bound, and repeated runs must agree to the bit.
 */
#ifndef HAUL_TESTS_DEVICE_CHECK_H
#define HAUL_TESTS_DEVICE_CHECK_H

#include "base/hash.h"
#include "device/compare.h"
#include "device/cpu/simd/simd.h"

#define HAUL_U 0x1p-24 /* roundoff of f32, the unit of the bounds */

typedef struct haul_check {
    haul_pair pair;
    haul_dtype dtype; /* of activations */
    int64_t batch, sequence, rows, columns;
    haul_hash hash; /* of the outputs so far */
} haul_check;

/* The largest magnitude in a twin. */
static inline double haul_check_largest(const haul_twin *twin) {
    double largest = 0.0;
    for (int64_t i = 0; i < haul_tensor_count(&twin->ref); i++) {
        largest = fmax(largest, fabs(haul_element_get(twin->ref.data, twin->ref.dtype, i)));
    }
    return largest;
}

/* [rows, columns] random activations; a different `stream`, other numbers. */
static inline haul_twin haul_check_random(const haul_check *check, uint64_t stream) {
    return haul_twin_random(check->dtype, check->rows, check->columns, 1.0, stream);
}

static inline haul_twin haul_check_output(const haul_check *check) {
    return haul_twin_output(check->dtype, check->rows, check->columns);
}

/* Compares an output with ref, adds its bits to the hash and frees it. */
static inline void haul_check_finish(haul_check *check, haul_twin *output, double bound,
                                     const char *name) {
    haul_twin_assert_close(output, bound, name);
    haul_hash hash = haul_hash_128(output->tested.data, haul_tensor_bytes(&output->tested));
    check->hash.high = check->hash.high * 31 + hash.high;
    check->hash.low = check->hash.low * 31 + hash.low;
    haul_twin_free(output);
}

typedef void haul_check_function(haul_check *check);

/* The backend under test; set by main. */
static const char *haul_check_backend = "cpu";

/* `isa` NULL: not the cpu. */
static inline haul_hash haul_check_at(haul_check_function *function, const haul_cpu_isa *isa,
                                      int threads, haul_dtype dtype, const int64_t shape[3]) {
    haul_check check = {.dtype = dtype,
                        .batch = shape[0],
                        .sequence = shape[1],
                        .rows = shape[0] * shape[1],
                        .columns = shape[2]};
    haul_pair_open(&check.pair, haul_check_backend, threads);
    if (isa != NULL) {
        haul_cpu_use_isa(&check.pair.tested_device, isa);
    }
    function(&check);
    haul_pair_close(&check.pair);
    return check.hash;
}

/* At each shape and dtype the runs must agree to the bit: on the cpu with 1, 2 and 3 threads. */
static inline void haul_check_points(haul_check_function *function, const haul_cpu_isa *isa) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 9, 64}, {3, 29, 259}};
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_BF16};
    for (int point = 0; point < 8; point++) {
        const int64_t *shape = shapes[point / 2];
        haul_dtype dtype = dtypes[point % 2];
        haul_hash first = haul_check_at(function, isa, 1, dtype, shape);
        for (int threads = 2; threads < 4; threads++) {
            haul_hash hash = haul_check_at(function, isa, threads, dtype, shape);
            if (hash.high != first.high || hash.low != first.low) {
                fail_msg("%s %s [%d x %d, %d]: run %d gives other bits than the first",
                         isa != NULL ? isa->name : haul_check_backend, haul_dtype_name(dtype),
                         (int)shape[0], (int)shape[1], (int)shape[2], threads);
            }
        }
    }
}

static inline void haul_check_everywhere(haul_check_function *function) {
    if (strcmp(haul_check_backend, "cpu") != 0) {
        haul_check_points(function, NULL);
        return;
    }
    for (int i = 0; haul_cpu_isa_at(i) != NULL; i++) {
        haul_check_points(function, haul_cpu_isa_at(i));
    }
}

#endif

#include "checkpoint/tensor.h"

#include "base/memory.h"

#include <stdio.h>

bool haul_shape_bytes(int ndim, const int64_t *shape, int64_t element_bytes, int64_t *bytes) {
    int64_t product = element_bytes;
    bool fits = true;
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            return false;
        }
        /* An extent of 0 makes any other extents harmless, whatever their order. */
        empty = empty || shape[i] == 0;
        fits = fits && (shape[i] == 0 || haul_size_multiply(product, shape[i], &product));
    }
    *bytes = empty ? 0 : product;
    return fits || empty;
}

void haul_shape_print(haul_dtype dtype, int ndim, const int64_t *shape, char out[HAUL_SHAPE_TEXT]) {
    const char *name = dtype < HAUL_DTYPES ? haul_dtype_name(dtype) : "other";
    int used = snprintf(out, HAUL_SHAPE_TEXT, "%s [", name);
    for (int i = 0; i < ndim && used < HAUL_SHAPE_TEXT - 24; i++) {
        used += snprintf(out + used, (size_t)(HAUL_SHAPE_TEXT - used), "%s%lld", i > 0 ? ", " : "",
                         (long long)shape[i]);
    }
    snprintf(out + used, (size_t)(HAUL_SHAPE_TEXT - used), "]");
}

bool haul_shape_equal(int ndim_a, const int64_t *a, int ndim_b, const int64_t *b) {
    bool equal = ndim_a == ndim_b;
    for (int i = 0; equal && i < ndim_a; i++) {
        equal = a[i] == b[i];
    }
    return equal;
}

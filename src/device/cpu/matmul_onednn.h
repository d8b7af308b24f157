/* Products by oneDNN: a thin layer of objects that are made while a step is planned and run without
 * allocating. In a build without the library open gives NULL, and nothing else is called. */
#ifndef HAUL_DEVICE_CPU_MATMUL_ONEDNN_H
#define HAUL_DEVICE_CPU_MATMUL_ONEDNN_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_onednn haul_onednn; /* an engine and a stream */
typedef struct haul_onednn_packing
    haul_onednn_packing; /* the best layout of b, and the way there */
typedef struct haul_onednn_product haul_onednn_product;

/* c[M, N] = op(a) op(b) + bias (+ c); a and b have one dtype, f32 or bf16. */
typedef struct haul_onednn_shape {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    haul_dtype dtype, c_dtype, bias_dtype;
    bool bias, accumulate;
} haul_onednn_shape;

/* Operands that a product first brings into the layout that suits it best, each time it runs. */
enum { HAUL_ONEDNN_REORDER_A = 1, HAUL_ONEDNN_REORDER_B = 2 };

haul_status haul_onednn_open(int threads, haul_onednn **out);
void haul_onednn_close(haul_onednn *onednn);

/* "oneDNN 2.6.3" */
void haul_onednn_describe(char *text, int64_t capacity);

/* HAUL_ERROR_UNAVAILABLE when the library has only a slow reference for this shape here. */
haul_status haul_onednn_packing_create(const haul_onednn *onednn, const haul_onednn_shape *shape,
                                       haul_onednn_packing **out);
void haul_onednn_packing_destroy(haul_onednn_packing *packing);

/* Bytes of the packed b; `plain`: it is b itself. */
int64_t haul_onednn_packing_bytes(const haul_onednn_packing *packing, bool *plain);
int64_t haul_onednn_packing_workspace(const haul_onednn_packing *packing);
haul_status haul_onednn_packing_run(const haul_onednn_packing *packing, const void *b, void *packed,
                                    void *workspace);

/* With a `packing` (which may be destroyed afterwards) b is given packed. */
haul_status haul_onednn_product_create(const haul_onednn *onednn, const haul_onednn_shape *shape,
                                       unsigned reorders, const haul_onednn_packing *packing,
                                       haul_onednn_product **out);
void haul_onednn_product_destroy(haul_onednn_product *product);

/* Bytes of workspace, which must be aligned to 64. */
int64_t haul_onednn_product_workspace(const haul_onednn_product *product);
haul_status haul_onednn_product_run(const haul_onednn_product *product, const void *a,
                                    const void *b, const void *bias, void *c, void *workspace);

#endif

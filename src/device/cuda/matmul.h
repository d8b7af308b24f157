/* Dense products by cuBLASLt. A device keeps one plan for each distinct product: its descriptors
 * and the algorithm that computes it, made on first use or, better, before the first step:
 *
 *     haul_cuda_products_load(products, path);
 *     haul_cuda_products_prepare(products, &args, &measured);  (for each product of the step)
 *     haul_cuda_products_save(products, path);
 *
 * Bits depend on the algorithm, so runs that shall agree to the bit share that file. */
#ifndef HAUL_DEVICE_CUDA_MATMUL_H
#define HAUL_DEVICE_CUDA_MATMUL_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `cuda` must have its stream. Close is legal on NULL. */
haul_status haul_cuda_products_open(haul_cuda_device *cuda, haul_cuda_products **out);
void haul_cuda_products_close(haul_cuda_products *products);

/* Finds the fastest algorithm of a product whose algorithm has not been measured yet, on memory of
 * its own that it frees again; the tensors of `args` may lack data, and are then taken to be
 * aligned to 16 bytes. Where memory is short the product stays with the library's first choice.
 * Waits for the device. *measured: it was not known before. */
haul_status haul_cuda_products_prepare(haul_cuda_products *products, const haul_matmul_args *args,
                                       bool *measured);

/* Reads what was measured before on such a card with this cuBLASLt. Call it before the first
 * product. A file that is absent, and lines that are damaged, are passed over. */
haul_status haul_cuda_products_load(haul_cuda_products *products, const char *path);

/* Adds to the file what was measured since, leaving lines of other cards and libraries as they
 * are. Does nothing when there is nothing new. */
haul_status haul_cuda_products_save(haul_cuda_products *products, const char *path);

/* The product by an own simple kernel, matmul_fallback.cu: any shape and alignment, a and b f32 or
 * bf16, both alike, or FP8. For what cuBLASLt does not take. */
void haul_cuda_matmul_plain(haul_stream *stream, const haul_matmul_args *args);

#ifdef __cplusplus
}
#endif

#endif

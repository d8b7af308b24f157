/* One spelling of what differs between oneDNN 2 (where a memory descriptor is a struct) and oneDNN
 * 3 (where it is a handle that must be destroyed). */
#ifndef HAUL_DEVICE_CPU_MATMUL_ONEDNN_COMPAT_H
#define HAUL_DEVICE_CPU_MATMUL_ONEDNN_COMPAT_H

#include <oneapi/dnnl/dnnl.h>

#include <stdbool.h>
#include <stdint.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t haul_dnnl_descriptor;
#else
typedef const dnnl_memory_desc_t *haul_dnnl_descriptor;
#endif

/* An owned memory descriptor. Zeroed it is empty, and deinit is legal on it. */
typedef struct haul_dnnl_layout {
    dnnl_memory_desc_t owned;
} haul_dnnl_layout;

typedef enum haul_dnnl_order {
    HAUL_DNNL_ROW_MAJOR,
    HAUL_DNNL_COLUMN_MAJOR,
    HAUL_DNNL_ANY /* as the primitive likes it best */
} haul_dnnl_order;

dnnl_status_t haul_dnnl_layout_init(haul_dnnl_layout *layout, int64_t rows, int64_t columns,
                                    dnnl_data_type_t type, haul_dnnl_order order);
dnnl_status_t haul_dnnl_layout_copy(haul_dnnl_layout *layout, haul_dnnl_descriptor from);
void haul_dnnl_layout_deinit(haul_dnnl_layout *layout);

/* The layout as the library's functions take it; valid as long as the layout. */
haul_dnnl_descriptor haul_dnnl_layout_descriptor(const haul_dnnl_layout *layout);

/* bias may be NULL. */
dnnl_status_t haul_dnnl_matmul_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                      haul_dnnl_descriptor a, haul_dnnl_descriptor b,
                                      haul_dnnl_descriptor bias, haul_dnnl_descriptor c,
                                      const_dnnl_primitive_attr_t attributes);

/* Appends "add what the output holds". */
dnnl_status_t haul_dnnl_append_sum(dnnl_post_ops_t operations);

#endif

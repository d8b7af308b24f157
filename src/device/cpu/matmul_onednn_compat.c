#ifdef HAUL_WITH_ONEDNN

#include "device/cpu/matmul_onednn_compat.h"

#include <string.h>

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t haul_dnnl_layout_init(haul_dnnl_layout *layout, int64_t rows, int64_t columns,
                                    dnnl_data_type_t type, haul_dnnl_order order) {
    const dnnl_dims_t shape = {rows, columns};
    if (order == HAUL_DNNL_ANY) {
        return dnnl_memory_desc_create_with_tag(&layout->owned, 2, shape, type,
                                                dnnl_format_tag_any);
    }
    bool row_major = order == HAUL_DNNL_ROW_MAJOR;
    const dnnl_dims_t strides = {row_major ? columns : 1, row_major ? 1 : rows};
    return dnnl_memory_desc_create_with_strides(&layout->owned, 2, shape, type, strides);
}

dnnl_status_t haul_dnnl_layout_copy(haul_dnnl_layout *layout, haul_dnnl_descriptor from) {
    return dnnl_memory_desc_clone(&layout->owned, from);
}

void haul_dnnl_layout_deinit(haul_dnnl_layout *layout) {
    if (layout->owned != NULL) {
        dnnl_memory_desc_destroy(layout->owned);
        layout->owned = NULL;
    }
}

haul_dnnl_descriptor haul_dnnl_layout_descriptor(const haul_dnnl_layout *layout) {
    return layout->owned;
}

dnnl_status_t haul_dnnl_matmul_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                      haul_dnnl_descriptor a, haul_dnnl_descriptor b,
                                      haul_dnnl_descriptor bias, haul_dnnl_descriptor c,
                                      const_dnnl_primitive_attr_t attributes) {
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attributes);
}

dnnl_status_t haul_dnnl_append_sum(dnnl_post_ops_t operations) {
    return dnnl_post_ops_append_sum(operations, 1.0f, 0, dnnl_data_type_undef);
}

#else

dnnl_status_t haul_dnnl_layout_init(haul_dnnl_layout *layout, int64_t rows, int64_t columns,
                                    dnnl_data_type_t type, haul_dnnl_order order) {
    const dnnl_dims_t shape = {rows, columns};
    if (order == HAUL_DNNL_ANY) {
        return dnnl_memory_desc_init_by_tag(&layout->owned, 2, shape, type, dnnl_format_tag_any);
    }
    bool row_major = order == HAUL_DNNL_ROW_MAJOR;
    const dnnl_dims_t strides = {row_major ? columns : 1, row_major ? 1 : rows};
    return dnnl_memory_desc_init_by_strides(&layout->owned, 2, shape, type, strides);
}

dnnl_status_t haul_dnnl_layout_copy(haul_dnnl_layout *layout, haul_dnnl_descriptor from) {
    layout->owned = *from;
    return dnnl_success;
}

void haul_dnnl_layout_deinit(haul_dnnl_layout *layout) {
    memset(layout, 0, sizeof *layout);
}

haul_dnnl_descriptor haul_dnnl_layout_descriptor(const haul_dnnl_layout *layout) {
    return &layout->owned;
}

dnnl_status_t haul_dnnl_matmul_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                      haul_dnnl_descriptor a, haul_dnnl_descriptor b,
                                      haul_dnnl_descriptor bias, haul_dnnl_descriptor c,
                                      const_dnnl_primitive_attr_t attributes) {
    dnnl_matmul_desc_t operation;
    dnnl_status_t status = dnnl_matmul_desc_init(&operation, a, b, bias, c);
    if (status != dnnl_success) {
        return status;
    }
    return dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL);
}

dnnl_status_t haul_dnnl_append_sum(dnnl_post_ops_t operations) {
    return dnnl_post_ops_append_sum(operations, 1.0f);
}

#endif

#endif

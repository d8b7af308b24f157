#include "device/cpu/matmul_onednn.h"

#ifdef HAUL_WITH_ONEDNN

#include "base/memory.h"
#include "device/cpu/matmul_onednn_compat.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, ARGUMENTS = 5 };

struct haul_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t writes, adds; /* scratchpads are the caller's; c is replaced, added to */
    int threads;
};

/* A primitive with the memory objects of its arguments. */
typedef struct dnnl_call {
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    int count;
    dnnl_exec_arg_t arguments[ARGUMENTS];
    int64_t scratch_bytes;
} dnnl_call;

struct haul_onednn_packing {
    const haul_onednn *onednn;
    haul_dnnl_layout layout;
    dnnl_call reorder;
    bool plain;
};

struct haul_onednn_product {
    const haul_onednn *onednn;
    dnnl_call reorder_a, reorder_b, multiply;
    int64_t a_bytes, b_bytes; /* of the reordered operands */
    bool bias;
};

static haul_status check(dnnl_status_t status, const char *what) {
    switch (status) {
    case dnnl_success:
        return HAUL_OK;
    case dnnl_out_of_memory:
        return haul_fail(HAUL_ERROR_MEMORY, "oneDNN is out of memory: %s", what);
    case dnnl_unimplemented:
        return haul_fail(HAUL_ERROR_UNAVAILABLE, "oneDNN has no such %s", what);
    default:
        return haul_fail(HAUL_ERROR_INTERNAL, "oneDNN fails with status %d: %s", (int)status, what);
    }
}

/* oneDNN plans for, and runs on, as many threads as OpenMP would give the calling thread. Returns
 * that number, to be set again. */
static int enter_threads(const haul_onednn *onednn) {
    int before = omp_get_max_threads();
    omp_set_num_threads(onednn->threads);
    return before;
}

/* --- engine --------------------------------------------------------------------------------- */

static haul_status create_attributes(haul_onednn *onednn, dnnl_post_ops_t sum) {
    dnnl_primitive_attr_t *const both[] = {&onednn->writes, &onednn->adds};
    for (int i = 0; i < 2; i++) {
        HAUL_TRY(check(dnnl_primitive_attr_create(both[i]), "attributes"));
        HAUL_TRY(check(dnnl_primitive_attr_set_scratchpad_mode(*both[i], dnnl_scratchpad_mode_user),
                       "mode"));
    }
    HAUL_TRY(check(haul_dnnl_append_sum(sum), "sum"));
    return check(dnnl_primitive_attr_set_post_ops(onednn->adds, sum), "attributes");
}

static haul_status onednn_init(haul_onednn *onednn) {
    HAUL_TRY(check(dnnl_engine_create(&onednn->engine, dnnl_cpu, 0), "engine"));
    HAUL_TRY(check(dnnl_stream_create(&onednn->stream, onednn->engine, dnnl_stream_default_flags),
                   "stream"));
    dnnl_post_ops_t sum = NULL;
    HAUL_TRY(check(dnnl_post_ops_create(&sum), "post-operations"));
    haul_status status = create_attributes(onednn, sum);
    dnnl_post_ops_destroy(sum);
    return status;
}

haul_status haul_onednn_open(int threads, haul_onednn **out) {
    haul_onednn *onednn = haul_calloc(1, sizeof *onednn);
    if (onednn == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    onednn->threads = threads;
    haul_status status = onednn_init(onednn);
    if (status != HAUL_OK) {
        haul_onednn_close(onednn);
        return status;
    }
    *out = onednn;
    return HAUL_OK;
}

void haul_onednn_close(haul_onednn *onednn) {
    if (onednn != NULL) {
        dnnl_primitive_attr_destroy(onednn->writes);
        dnnl_primitive_attr_destroy(onednn->adds);
        dnnl_stream_destroy(onednn->stream);
        dnnl_engine_destroy(onednn->engine);
        free(onednn);
    }
}

void haul_onednn_describe(char *text, int64_t capacity) {
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, (size_t)capacity, "oneDNN %d.%d.%d", version->major, version->minor,
             version->patch);
}

/* --- calls ---------------------------------------------------------------------------------- */

static void call_deinit(dnnl_call *call) {
    for (int i = 0; i < call->count; i++) {
        dnnl_memory_destroy(call->arguments[i].memory);
    }
    if (call->primitive != NULL) {
        dnnl_primitive_destroy(call->primitive);
    }
    *call = (dnnl_call){0};
}

static haul_status call_add(dnnl_call *call, const haul_onednn *onednn, int argument,
                            haul_dnnl_descriptor descriptor) {
    dnnl_exec_arg_t *added = &call->arguments[call->count];
    added->arg = argument;
    HAUL_TRY(check(dnnl_memory_create(&added->memory, descriptor, onednn->engine, DNNL_MEMORY_NONE),
                   "memory"));
    call->count++;
    return HAUL_OK;
}

/* Makes the primitive and adds its scratchpad, as the last argument. */
static haul_status call_finish(dnnl_call *call, const haul_onednn *onednn,
                               const_dnnl_primitive_desc_t description) {
    haul_dnnl_descriptor scratchpad =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    call->scratch_bytes = (int64_t)dnnl_memory_desc_get_size(scratchpad);
    if (call->scratch_bytes > 0) {
        HAUL_TRY(call_add(call, onednn, DNNL_ARG_SCRATCHPAD, scratchpad));
    }
    return check(dnnl_primitive_create(&call->primitive, description), "primitive");
}

/* Runs with the arguments at `data`, in the order in which they were added. */
static haul_status call_run(const dnnl_call *call, const haul_onednn *onednn, void *const *data) {
    for (int i = 0; i < call->count; i++) {
        HAUL_TRY(check(dnnl_memory_set_data_handle(call->arguments[i].memory, data[i]), "memory"));
    }
    return check(
        dnnl_primitive_execute(call->primitive, onednn->stream, call->count, call->arguments),
        "execution");
}

static haul_status reorder_init(dnnl_call *call, const haul_onednn *onednn,
                                haul_dnnl_descriptor from, haul_dnnl_descriptor to) {
    HAUL_TRY(call_add(call, onednn, DNNL_ARG_FROM, from));
    HAUL_TRY(call_add(call, onednn, DNNL_ARG_TO, to));
    dnnl_primitive_desc_t description = NULL;
    HAUL_TRY(check(dnnl_reorder_primitive_desc_create(&description, from, onednn->engine, to,
                                                      onednn->engine, onednn->writes),
                   "reorder"));
    haul_status status = call_finish(call, onednn, description);
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* --- the description of a product ----------------------------------------------------------- */

/* The user's layouts, those that oneDNN is asked for, and its answer. */
typedef struct blueprint {
    haul_dnnl_layout a, b, c, bias;
    haul_dnnl_layout asked_a, asked_b;
    dnnl_primitive_desc_t description;
} blueprint;

static void blueprint_deinit(blueprint *print) {
    haul_dnnl_layout *const layouts[] = {&print->a,    &print->b,       &print->c,
                                         &print->bias, &print->asked_a, &print->asked_b};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        haul_dnnl_layout_deinit(layouts[i]);
    }
    if (print->description != NULL) {
        dnnl_primitive_desc_destroy(print->description);
    }
}

static dnnl_data_type_t data_type(haul_dtype dtype) {
    return dtype == HAUL_BF16 ? dnnl_bf16 : dnnl_f32;
}

static haul_status set_layout(haul_dnnl_layout *layout, int64_t rows, int64_t columns,
                              haul_dtype dtype, haul_dnnl_order order) {
    return check(haul_dnnl_layout_init(layout, rows, columns, data_type(dtype), order), "layout");
}

static haul_dnnl_order order_of(bool transposed) {
    return transposed ? HAUL_DNNL_COLUMN_MAJOR : HAUL_DNNL_ROW_MAJOR;
}

/* oneDNN's reference loops are hundreds of times slower than haul's own kernel. */
static bool is_reference(const_dnnl_primitive_desc_t description) {
    const char *name = "";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name);
    return strstr(name, "ref") != NULL;
}

/* asked_a is set here, asked_b by the caller. */
static haul_status blueprint_init(blueprint *print, const haul_onednn *onednn,
                                  const haul_onednn_shape *shape, bool any_a) {
    haul_dtype dtype = shape->dtype;
    haul_dnnl_order a_order = order_of(shape->transpose_a);
    HAUL_TRY(set_layout(&print->a, shape->m, shape->k, dtype, a_order));
    HAUL_TRY(
        set_layout(&print->asked_a, shape->m, shape->k, dtype, any_a ? HAUL_DNNL_ANY : a_order));
    HAUL_TRY(set_layout(&print->b, shape->k, shape->n, dtype, order_of(shape->transpose_b)));
    HAUL_TRY(set_layout(&print->c, shape->m, shape->n, shape->c_dtype, HAUL_DNNL_ROW_MAJOR));
    if (shape->bias) {
        HAUL_TRY(set_layout(&print->bias, 1, shape->n, shape->bias_dtype, HAUL_DNNL_ROW_MAJOR));
    }
    HAUL_TRY(check(
        haul_dnnl_matmul_create(&print->description, onednn->engine,
                                haul_dnnl_layout_descriptor(&print->asked_a),
                                haul_dnnl_layout_descriptor(&print->asked_b),
                                shape->bias ? haul_dnnl_layout_descriptor(&print->bias) : NULL,
                                haul_dnnl_layout_descriptor(&print->c),
                                shape->accumulate ? onednn->adds : onednn->writes),
        "product"));
    return check(is_reference(print->description) ? dnnl_unimplemented : dnnl_success, "product");
}

/* --- packing -------------------------------------------------------------------------------- */

static haul_status packing_init(haul_onednn_packing *packing, const haul_onednn_shape *shape,
                                blueprint *print) {
    HAUL_TRY(set_layout(&print->asked_b, shape->k, shape->n, shape->dtype, HAUL_DNNL_ANY));
    HAUL_TRY(blueprint_init(print, packing->onednn, shape, false));
    haul_dnnl_descriptor from = haul_dnnl_layout_descriptor(&print->b);
    haul_dnnl_descriptor to =
        dnnl_primitive_desc_query_md(print->description, dnnl_query_weights_md, 0);
    packing->plain = dnnl_memory_desc_equal(from, to);
    HAUL_TRY(check(haul_dnnl_layout_copy(&packing->layout, to), "layout"));
    return reorder_init(&packing->reorder, packing->onednn, from, to);
}

haul_status haul_onednn_packing_create(const haul_onednn *onednn, const haul_onednn_shape *shape,
                                       haul_onednn_packing **out) {
    haul_onednn_packing *packing = haul_calloc(1, sizeof *packing);
    if (packing == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    packing->onednn = onednn;
    blueprint print = {0};
    int threads = enter_threads(onednn);
    haul_status status = packing_init(packing, shape, &print);
    omp_set_num_threads(threads);
    blueprint_deinit(&print);
    if (status != HAUL_OK) {
        haul_onednn_packing_destroy(packing);
        return status;
    }
    *out = packing;
    return HAUL_OK;
}

void haul_onednn_packing_destroy(haul_onednn_packing *packing) {
    if (packing != NULL) {
        call_deinit(&packing->reorder);
        haul_dnnl_layout_deinit(&packing->layout);
        free(packing);
    }
}

int64_t haul_onednn_packing_bytes(const haul_onednn_packing *packing, bool *plain) {
    *plain = packing->plain;
    return (int64_t)dnnl_memory_desc_get_size(haul_dnnl_layout_descriptor(&packing->layout));
}

int64_t haul_onednn_packing_workspace(const haul_onednn_packing *packing) {
    return packing->reorder.scratch_bytes;
}

/* oneDNN's memory objects are not const; inputs are only read. */
static void *without_const(const void *data) {
    return (void *)(uintptr_t)data;
}

haul_status haul_onednn_packing_run(const haul_onednn_packing *packing, const void *b, void *packed,
                                    void *workspace) {
    void *const data[] = {without_const(b), packed, workspace};
    int threads = enter_threads(packing->onednn);
    haul_status status = call_run(&packing->reorder, packing->onednn, data);
    omp_set_num_threads(threads);
    return status;
}

/* --- products ------------------------------------------------------------------------------- */

/* The reorder from the user's layout to the product's, when they differ. */
static haul_status reorder_operand(dnnl_call *call, const haul_onednn *onednn,
                                   const haul_dnnl_layout *user, haul_dnnl_descriptor wanted,
                                   int64_t *bytes) {
    haul_dnnl_descriptor from = haul_dnnl_layout_descriptor(user);
    if (dnnl_memory_desc_equal(from, wanted)) {
        return HAUL_OK;
    }
    *bytes = haul_round_up((int64_t)dnnl_memory_desc_get_size(wanted), ALIGNMENT);
    return reorder_init(call, onednn, from, wanted);
}

static haul_status product_init(haul_onednn_product *product, const haul_onednn_shape *shape,
                                unsigned reorders, const haul_onednn_packing *packing,
                                blueprint *print) {
    const haul_onednn *onednn = product->onednn;
    if (packing != NULL) {
        HAUL_TRY(check(
            haul_dnnl_layout_copy(&print->asked_b, haul_dnnl_layout_descriptor(&packing->layout)),
            "layout"));
    } else {
        HAUL_TRY(set_layout(&print->asked_b, shape->k, shape->n, shape->dtype,
                            reorders & HAUL_ONEDNN_REORDER_B ? HAUL_DNNL_ANY
                                                             : order_of(shape->transpose_b)));
    }
    HAUL_TRY(blueprint_init(print, onednn, shape, reorders & HAUL_ONEDNN_REORDER_A));
    haul_dnnl_descriptor a = dnnl_primitive_desc_query_md(print->description, dnnl_query_src_md, 0);
    haul_dnnl_descriptor b =
        dnnl_primitive_desc_query_md(print->description, dnnl_query_weights_md, 0);
    HAUL_TRY(reorder_operand(&product->reorder_a, onednn, &print->a, a, &product->a_bytes));
    if (packing == NULL) {
        HAUL_TRY(reorder_operand(&product->reorder_b, onednn, &print->b, b, &product->b_bytes));
    }
    dnnl_call *call = &product->multiply;
    HAUL_TRY(call_add(call, onednn, DNNL_ARG_SRC, a));
    HAUL_TRY(call_add(call, onednn, DNNL_ARG_WEIGHTS, b));
    HAUL_TRY(call_add(call, onednn, DNNL_ARG_DST, haul_dnnl_layout_descriptor(&print->c)));
    if (product->bias) {
        HAUL_TRY(call_add(call, onednn, DNNL_ARG_BIAS, haul_dnnl_layout_descriptor(&print->bias)));
    }
    return call_finish(call, onednn, print->description);
}

haul_status haul_onednn_product_create(const haul_onednn *onednn, const haul_onednn_shape *shape,
                                       unsigned reorders, const haul_onednn_packing *packing,
                                       haul_onednn_product **out) {
    haul_onednn_product *product = haul_calloc(1, sizeof *product);
    if (product == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    product->onednn = onednn;
    product->bias = shape->bias;
    blueprint print = {0};
    int threads = enter_threads(onednn);
    haul_status status = product_init(product, shape, reorders, packing, &print);
    omp_set_num_threads(threads);
    blueprint_deinit(&print);
    if (status != HAUL_OK) {
        haul_onednn_product_destroy(product);
        return status;
    }
    *out = product;
    return HAUL_OK;
}

void haul_onednn_product_destroy(haul_onednn_product *product) {
    if (product != NULL) {
        call_deinit(&product->reorder_a);
        call_deinit(&product->reorder_b);
        call_deinit(&product->multiply);
        free(product);
    }
}

int64_t haul_onednn_product_workspace(const haul_onednn_product *product) {
    int64_t reorders = haul_max(product->reorder_a.scratch_bytes, product->reorder_b.scratch_bytes);
    return product->a_bytes + product->b_bytes +
           haul_max(reorders, product->multiply.scratch_bytes);
}

static haul_status run_all(const haul_onednn_product *product, void *a, void *b, void *bias,
                           void *c, char *workspace) {
    char *own_a = workspace, *own_b = own_a + product->a_bytes;
    void *scratch = own_b + product->b_bytes;
    if (product->reorder_a.primitive != NULL) {
        void *const data[] = {a, own_a, scratch};
        HAUL_TRY(call_run(&product->reorder_a, product->onednn, data));
        a = own_a;
    }
    if (product->reorder_b.primitive != NULL) {
        void *const data[] = {b, own_b, scratch};
        HAUL_TRY(call_run(&product->reorder_b, product->onednn, data));
        b = own_b;
    }
    void *const data[] = {a, b, c, product->bias ? bias : scratch, scratch};
    return call_run(&product->multiply, product->onednn, data);
}

haul_status haul_onednn_product_run(const haul_onednn_product *product, const void *a,
                                    const void *b, const void *bias, void *c, void *workspace) {
    int threads = enter_threads(product->onednn);
    haul_status status =
        run_all(product, without_const(a), without_const(b), without_const(bias), c, workspace);
    omp_set_num_threads(threads);
    return status;
}

#endif

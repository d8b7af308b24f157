/* A build without oneDNN: open gives NULL, so that nothing else is called. */
#ifndef HAUL_WITH_ONEDNN

#include "device/cpu/matmul_onednn.h"

#include "base/string.h"

static haul_status missing(void) {
    return haul_fail(HAUL_ERROR_UNAVAILABLE, "this build has no oneDNN");
}

haul_status haul_onednn_open(int threads, haul_onednn **out) {
    (void)threads;
    *out = NULL;
    return HAUL_OK;
}

void haul_onednn_close(haul_onednn *onednn) {
    (void)onednn;
}

void haul_onednn_describe(char *text, int64_t capacity) {
    haul_text_copy(text, capacity, "no oneDNN");
}

haul_status haul_onednn_packing_create(const haul_onednn *onednn, const haul_onednn_shape *shape,
                                       haul_onednn_packing **out) {
    (void)onednn, (void)shape, (void)out;
    return missing();
}

void haul_onednn_packing_destroy(haul_onednn_packing *packing) {
    (void)packing;
}

int64_t haul_onednn_packing_bytes(const haul_onednn_packing *packing, bool *plain) {
    (void)packing;
    *plain = true;
    return 0;
}

int64_t haul_onednn_packing_workspace(const haul_onednn_packing *packing) {
    (void)packing;
    return 0;
}

haul_status haul_onednn_packing_run(const haul_onednn_packing *packing, const void *b, void *packed,
                                    void *workspace) {
    (void)packing, (void)b, (void)packed, (void)workspace;
    return missing();
}

haul_status haul_onednn_product_create(const haul_onednn *onednn, const haul_onednn_shape *shape,
                                       unsigned reorders, const haul_onednn_packing *packing,
                                       haul_onednn_product **out) {
    (void)onednn, (void)shape, (void)reorders, (void)packing, (void)out;
    return missing();
}

void haul_onednn_product_destroy(haul_onednn_product *product) {
    (void)product;
}

int64_t haul_onednn_product_workspace(const haul_onednn_product *product) {
    (void)product;
    return 0;
}

haul_status haul_onednn_product_run(const haul_onednn_product *product, const void *a,
                                    const void *b, const void *bias, void *c, void *workspace) {
    (void)product, (void)a, (void)b, (void)bias, (void)c, (void)workspace;
    return missing();
}

#endif

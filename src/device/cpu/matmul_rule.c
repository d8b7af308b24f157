#include "device/cpu/matmul_rule.h"

enum { PAGE = 4096, LARGE_WGRAD = 768 * 768, MANY_ROWS = 1024 };

/* A product of two activations whose layout neither was made for. */
static bool is_wgrad(const haul_product *product) {
    return product->flags & HAUL_PRODUCT_TRANSPOSE_A && !(product->flags & HAUL_PRODUCT_PACKED);
}

bool haul_method_suits(haul_method method, const haul_engines *engines,
                       const haul_product *product) {
    switch (method) {
    case HAUL_METHOD_ONEDNN: /* its bf16 comes of bf16 alone */
        return engines->onednn != NULL && (product->c != HAUL_BF16 || product->a == HAUL_BF16);
    case HAUL_METHOD_ONEDNN_REORDER_B:
    case HAUL_METHOD_ONEDNN_REORDER_AB:
        return engines->onednn != NULL && is_wgrad(product);
    default:
        return true;
    }
}

/* oneDNN beats haul's own kernel nearly everywhere. Its wgrad gains from a reordered operand where
 * rows of b lie a multiple of 4 KiB apart, and so compete for the same places of the caches (272
 * against 165 GFLOP/s for 768 x 3072 in f32 on a Xeon), and where bf16 is multiplied as such, the
 * result is large and the rows are few (1,604 against 1,281 for 2304 x 768 of 1024 rows; 1,097
 * against 1,224 of 4096). */
haul_method haul_product_method(const haul_engines *engines, const haul_product *product) {
    if (!haul_method_suits(HAUL_METHOD_ONEDNN, engines, product)) {
        return HAUL_METHOD_OWN;
    }
    if (is_wgrad(product)) {
        bool narrow = engines->bf16 && product->b == HAUL_BF16;
        bool aliasing = product->n * haul_dtype_size(HAUL_F32) % PAGE == 0;
        bool large = product->m * product->n > LARGE_WGRAD && product->k <= MANY_ROWS;
        if (narrow ? large : aliasing) {
            return HAUL_METHOD_ONEDNN_REORDER_B;
        }
    }
    return HAUL_METHOD_ONEDNN;
}

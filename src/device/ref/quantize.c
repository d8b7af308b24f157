/* FP8: in f32 where op.h says so, since all backends must agree to the bit. */
#include "base/memory.h"
#include "device/ref/ref.h"

#include <math.h>

/* A matrix in the order in which it is read: x, or its transpose. */
typedef struct view {
    const haul_tensor *x;
    int64_t rows, columns;
    bool transposed;
} view;

static float element(const view *v, int64_t r, int64_t c) {
    int64_t index = v->transposed ? c * v->rows + r : r * v->columns + c;
    return (float)haul_element_get(v->x->data, v->x->dtype, index);
}

/* The elements that share a scale: rows [top, bottom), columns [left, right). */
typedef struct group {
    int64_t top, bottom, left, right;
} group;

static group group_of(haul_scaling scaling, const view *v, int64_t r, int64_t c) {
    int64_t top = r, height = 1, left = c / HAUL_SCALING_BLOCK * HAUL_SCALING_BLOCK;
    if (scaling == HAUL_SCALING_TENSOR) {
        return (group){0, v->rows, 0, v->columns};
    }
    if (scaling == HAUL_SCALING_BLOCKS) {
        height = HAUL_SCALING_BLOCK;
        top = r / height * height;
    }
    return (group){top, haul_min(top + height, v->rows), left,
                   haul_min(left + HAUL_SCALING_BLOCK, v->columns)};
}

/* NaN where an element is. */
static float largest_magnitude(const view *v, const group *g) {
    float amax = 0.0f;
    for (int64_t r = g->top; r < g->bottom; r++) {
        for (int64_t c = g->left; c < g->right; c++) {
            float magnitude = fabsf(element(v, r, c));
            if (!isnan(amax) && !(magnitude <= amax)) {
                amax = magnitude;
            }
        }
    }
    return amax;
}

static float factor_of(haul_scaling scaling, haul_dtype format, float amax) {
    float largest = format == HAUL_E5M2 ? 57344.0f : 448.0f;
    if (amax == 0.0f || !isfinite(amax)) {
        return 1.0f;
    }
    float factor = fminf(largest / amax, 0x1p100f);
    return scaling == HAUL_SCALING_TENSOR ? factor : ldexpf(1.0f, ilogbf(factor));
}

/* Where the scale of an element is. */
static int64_t scale_at(haul_scaling scaling, const haul_tensor *scales, int64_t r, int64_t c) {
    int64_t block = c / HAUL_SCALING_BLOCK, stride = haul_tensor_columns(scales);
    switch (scaling) {
    case HAUL_SCALING_ROWS:
        return block * stride + r;
    case HAUL_SCALING_BLOCKS:
        return r / HAUL_SCALING_BLOCK * stride + block;
    default:
        return 0;
    }
}

static void clear(const haul_tensor *tensor) {
    memset(tensor->data, 0, (size_t)haul_tensor_bytes(tensor));
}

static void quantize_group(haul_scaling scaling, const view *v, const group *g,
                           const haul_tensor *codes, const haul_tensor *scales) {
    float amax = largest_magnitude(v, g);
    float factor = factor_of(scaling, codes->dtype, amax);
    ((float *)scales->data)[scale_at(scaling, scales, g->top, g->left)] =
        isfinite(amax) ? 1.0f / factor : NAN;
    for (int64_t r = g->top; r < g->bottom; r++) {
        for (int64_t c = g->left; c < g->right; c++) {
            float scaled = element(v, r, c) * factor;
            haul_element_set(codes->data, codes->dtype, r * haul_tensor_columns(codes) + c,
                             (double)scaled);
        }
    }
}

static void quantize(haul_scaling scaling, const view *v, const haul_tensor *codes,
                     const haul_tensor *scales) {
    if (!haul_tensor_present(codes)) {
        return;
    }
    clear(codes);
    clear(scales);
    for (int64_t r = 0, bottom; r < v->rows; r = bottom) {
        bottom = group_of(scaling, v, r, 0).bottom;
        for (int64_t c = 0, right; c < v->columns; c = right) {
            group g = group_of(scaling, v, r, c);
            right = g.right;
            quantize_group(scaling, v, &g, codes, scales);
        }
    }
}

void haul_ref_quantize(haul_stream *stream, const void *args) {
    (void)stream;
    const haul_quantize_args *q = args;
    int64_t rows = haul_tensor_rows(&q->x), columns = haul_tensor_columns(&q->x);
    view straight = {&q->x, rows, columns, false}, transposed = {&q->x, columns, rows, true};
    quantize(q->scaling, &straight, &q->codes, &q->scales);
    quantize(q->scaling, &transposed, &q->transposed, &q->transposed_scales);
}

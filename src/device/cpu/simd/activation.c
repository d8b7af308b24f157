#include "device/cpu/simd/kernels.h"

enum { LINE = 64 }; /* elements; threads write whole cache lines */

HAUL_INLINE void swiglu_span(const haul_swiglu_args *swiglu, int64_t begin, int64_t end,
                             bool bf16) {
    int64_t width = haul_tensor_columns(&swiglu->y);
    for (int64_t r = begin; r < end; r++) {
        const void *gate = element(&swiglu->x, r * 2 * width, bf16);
        const void *up = element(&swiglu->x, r * 2 * width + width, bf16);
        void *y = element(&swiglu->y, r * width, bf16);
#pragma omp simd
        for (int64_t f = 0; f < width; f++) {
            float z = load(gate, f, bf16);
            store(y, f, bf16, z * sigmoid_f32(z) * load(up, f, bf16));
        }
    }
}

static void swiglu_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        swiglu_span(job->args, begin, end, true);
    } else {
        swiglu_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_swiglu)(haul_stream *stream, const void *args) {
    const haul_swiglu_args *swiglu = args;
    kernel_job job = {.args = swiglu};
    const haul_tensor *const tensors[] = {&swiglu->x, &swiglu->y};
    if (haul_cpu_dtype(stream, HAUL_OP_SWIGLU, tensors, 2, &job.bf16)) {
        int64_t row_bytes = 4 * 4 * haul_tensor_columns(&swiglu->y);
        haul_cpu_parallel(stream, haul_tensor_rows(&swiglu->y), 1, row_bytes, swiglu_rows, &job);
    }
}

HAUL_INLINE void swiglu_backward_span(const haul_swiglu_backward_args *swiglu, int64_t begin,
                                      int64_t end, bool bf16) {
    int64_t width = haul_tensor_columns(&swiglu->dy);
    for (int64_t r = begin; r < end; r++) {
        int64_t row = r * 2 * width;
        const void *gate = element(&swiglu->x, row, bf16);
        const void *up = element(&swiglu->x, row + width, bf16);
        const void *dy = element(&swiglu->dy, r * width, bf16);
        void *d_gate = element(&swiglu->dx, row, bf16);
        void *d_up = element(&swiglu->dx, row + width, bf16);
#pragma omp simd
        for (int64_t f = 0; f < width; f++) {
            float z = load(gate, f, bf16), d = load(dy, f, bf16), s = sigmoid_f32(z);
            float derivative = s * madd(z, 1.0f - s, 1.0f);
            store(d_up, f, bf16, d * (z * s));
            store(d_gate, f, bf16, d * load(up, f, bf16) * derivative);
        }
    }
}

static void swiglu_backward_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        swiglu_backward_span(job->args, begin, end, true);
    } else {
        swiglu_backward_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_swiglu_backward)(haul_stream *stream, const void *args) {
    const haul_swiglu_backward_args *swiglu = args;
    kernel_job job = {.args = swiglu};
    const haul_tensor *const tensors[] = {&swiglu->x, &swiglu->dy, &swiglu->dx};
    if (haul_cpu_dtype(stream, HAUL_OP_SWIGLU_BACKWARD, tensors, 3, &job.bf16)) {
        int64_t row_bytes = 6 * 4 * haul_tensor_columns(&swiglu->dy);
        haul_cpu_parallel(stream, haul_tensor_rows(&swiglu->dy), 1, row_bytes, swiglu_backward_rows,
                          &job);
    }
}

/* e^(-x^2/2) */
HAUL_INLINE float gauss(float x) {
    return exp_f32(-0.5f * x * x);
}

/* The probability that a standard normal number is below x, absolute error below 2^-23; `gauss` is
 * that of x. The tail is e^(-x^2/2) p(1 / (1 + 0.35 |x|)), the polynomial p fitted for the least
 * relative error on |x| <= 14, past which the exponential is 0. */
HAUL_INLINE float normal_below(float x, float gauss_x) {
    float q = 1.0f / madd(0.35f, fabsf(x), 1.0f);
    float p = madd(q, -0x1.dd8658p-6f, 0x1.26da56p-3f);
    p = madd(p, q, -0x1.05d9b0p-2f);
    p = madd(p, q, 0x1.45fc92p-3f);
    p = madd(p, q, -0x1.7a9f2ep-6f);
    p = madd(p, q, 0x1.b028f0p-4f);
    p = madd(p, q, 0x1.ead5eap-4f);
    p = madd(p, q, 0x1.1e6fe6p-3f);
    p = madd(p, q, 0x1.1df1d4p-3f);
    float tail = p * q * gauss_x;
    return x > 0.0f ? 1.0f - tail : tail;
}

/* With t = tanh(u), (1 + t) / 2 = sigmoid(2u), which has no cancellation for negative x. */
static const float twice_root = 1.5957691216f; /* 2 sqrt(2 / pi) */
static const float cubic = 0.044715f;

HAUL_INLINE float gelu(float x, bool use_tanh) {
    if (use_tanh) {
        return x * sigmoid_f32(twice_root * x * madd(cubic, x * x, 1.0f));
    }
    return x * normal_below(x, gauss(x));
}

HAUL_INLINE float gelu_derivative(float x, bool use_tanh) {
    if (use_tanh) {
        float s = sigmoid_f32(twice_root * x * madd(cubic, x * x, 1.0f));
        float inner = twice_root * madd(3.0f * cubic, x * x, 1.0f);
        return s * madd(x * (1.0f - s), inner, 1.0f);
    }
    const float density = 0.3989422804f; /* 1 / sqrt(2 pi) */
    float g = gauss(x);
    return madd(density * x, g, normal_below(x, g));
}

HAUL_INLINE void gelu_span(const haul_gelu_args *args, int64_t begin, int64_t end, bool use_tanh,
                           bool bf16) {
    const void *x = args->x.data;
    void *y = args->y.data;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        store(y, i, bf16, gelu(load(x, i, bf16), use_tanh));
    }
}

static void gelu_elements(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    bool use_tanh = ((const haul_gelu_args *)job->args)->tanh;
    if (job->bf16 && use_tanh) {
        gelu_span(job->args, begin, end, true, true);
    } else if (job->bf16) {
        gelu_span(job->args, begin, end, false, true);
    } else if (use_tanh) {
        gelu_span(job->args, begin, end, true, false);
    } else {
        gelu_span(job->args, begin, end, false, false);
    }
}

void HAUL_ISA(haul_cpu_gelu)(haul_stream *stream, const void *args) {
    const haul_gelu_args *forward = args;
    kernel_job job = {.args = forward};
    const haul_tensor *const tensors[] = {&forward->x, &forward->y};
    if (haul_cpu_dtype(stream, HAUL_OP_GELU, tensors, 2, &job.bf16)) {
        haul_cpu_parallel(stream, haul_tensor_count(&forward->y), LINE, 16, gelu_elements, &job);
    }
}

HAUL_INLINE void gelu_backward_span(const haul_gelu_backward_args *args, int64_t begin, int64_t end,
                                    bool use_tanh, bool bf16) {
    const void *x = args->x.data, *dy = args->dy.data;
    void *dx = args->dx.data;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        float d = gelu_derivative(load(x, i, bf16), use_tanh);
        store(dx, i, bf16, load(dy, i, bf16) * d);
    }
}

static void gelu_backward_elements(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    bool use_tanh = ((const haul_gelu_backward_args *)job->args)->tanh;
    if (job->bf16 && use_tanh) {
        gelu_backward_span(job->args, begin, end, true, true);
    } else if (job->bf16) {
        gelu_backward_span(job->args, begin, end, false, true);
    } else if (use_tanh) {
        gelu_backward_span(job->args, begin, end, true, false);
    } else {
        gelu_backward_span(job->args, begin, end, false, false);
    }
}

void HAUL_ISA(haul_cpu_gelu_backward)(haul_stream *stream, const void *args) {
    const haul_gelu_backward_args *backward = args;
    kernel_job job = {.args = backward};
    const haul_tensor *const tensors[] = {&backward->x, &backward->dy, &backward->dx};
    if (haul_cpu_dtype(stream, HAUL_OP_GELU_BACKWARD, tensors, 3, &job.bf16)) {
        haul_cpu_parallel(stream, haul_tensor_count(&backward->dx), LINE, 20,
                          gelu_backward_elements, &job);
    }
}

/* FILL, COPY, ADD: as fast as memory. */
#include "base/memory.h"
#include "device/cpu/simd/kernels.h"

enum { LINE = 64 }; /* bytes of a cache line; threads write whole ones */

typedef struct fill_job {
    char *data;
    char pattern[LINE]; /* the value over and over */
} fill_job;

static void fill_bytes(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const fill_job *job = context;
    int64_t i = begin;
    for (; i + LINE <= end; i += LINE) {
        memcpy(job->data + i, job->pattern, LINE);
    }
    memcpy(job->data + i, job->pattern, (size_t)(end - i));
}

static void zero_bytes(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    memset((char *)context + begin, 0, (size_t)(end - begin));
}

void HAUL_ISA(haul_cpu_fill)(haul_stream *stream, const void *args) {
    const haul_fill_args *fill = args;
    fill_job job = {.data = fill->y.data};
    for (int64_t i = 0; i < LINE / haul_dtype_size(fill->y.dtype); i++) {
        haul_element_set(job.pattern, fill->y.dtype, i, fill->value);
    }
    bool zero = fill->value == 0.0 && !signbit(fill->value);
    haul_cpu_parallel(stream, haul_tensor_bytes(&fill->y), LINE, 1, zero ? zero_bytes : fill_bytes,
                      zero ? (void *)job.data : &job);
}

static void copy_span(const haul_tensor *x, int64_t x_index, const haul_tensor *y, int64_t y_index,
                      int64_t count) {
    const void *from = haul_tensor_at(x, x_index);
    void *to = haul_tensor_at(y, y_index);
    if (x->dtype == y->dtype) {
        memcpy(to, from, (size_t)(count * haul_dtype_size(x->dtype)));
    } else if (x->dtype == HAUL_F32 && y->dtype == HAUL_BF16) {
        store_row(to, count, true, from);
    } else if (x->dtype == HAUL_BF16 && y->dtype == HAUL_F32) {
        load_row(from, count, true, to);
    } else {
        for (int64_t i = 0; i < count; i++) {
            haul_element_set(to, y->dtype, i, haul_element_get(from, x->dtype, i));
        }
    }
}

static void copy_elements(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const haul_copy_args *copy = context;
    copy_span(&copy->x, begin, &copy->y, begin, end - begin);
}

static void copy_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const haul_copy_args *copy = context;
    int64_t columns = haul_tensor_columns(&copy->y);
    for (int64_t r = begin; r < end; r++) {
        copy_span(&copy->x, r * copy->x_stride, &copy->y, r * copy->y_stride, columns);
    }
}

void HAUL_ISA(haul_cpu_copy)(haul_stream *stream, const void *args) {
    haul_copy_args copy = *(const haul_copy_args *)args;
    int64_t rows = haul_tensor_rows(&copy.y), columns = haul_tensor_columns(&copy.y);
    int64_t bytes = haul_dtype_size(copy.x.dtype) + haul_dtype_size(copy.y.dtype);
    if (copy.x_stride == columns && copy.y_stride == columns) {
        haul_cpu_parallel(stream, rows * columns, LINE, bytes, copy_elements, &copy);
    } else {
        haul_cpu_parallel(stream, rows, 1, columns * bytes, copy_rows, &copy);
    }
}

HAUL_INLINE void add_span(const haul_add_args *add, int64_t begin, int64_t end, bool bf16) {
    const void *a = add->a.data, *b = add->b.data;
    void *y = add->y.data;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        store(y, i, bf16, load(a, i, bf16) + load(b, i, bf16));
    }
}

static void add_elements(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const kernel_job *job = context;
    if (job->bf16) {
        add_span(job->args, begin, end, true);
    } else {
        add_span(job->args, begin, end, false);
    }
}

void HAUL_ISA(haul_cpu_add)(haul_stream *stream, const void *args) {
    const haul_add_args *add = args;
    kernel_job job = {.args = add};
    const haul_tensor *const tensors[] = {&add->y, &add->a, &add->b};
    if (haul_cpu_dtype(stream, HAUL_OP_ADD, tensors, 3, &job.bf16)) {
        haul_cpu_parallel(stream, haul_tensor_count(&add->y), LINE, 12, add_elements, &job);
    }
}

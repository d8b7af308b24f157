#include "device/cpu/launch.h"

/* A core moves this much in about three microseconds; a wake-up takes one to five. */
enum { SERIAL_BYTES = 32 << 10 };

bool haul_cpu_dtype(haul_stream *stream, haul_op op, const haul_tensor *const *tensors, int count,
                    bool *bf16) {
    haul_dtype dtype = tensors[0]->dtype;
    if (dtype != HAUL_F32 && dtype != HAUL_BF16) {
        haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE, "%s on the cpu: dtype is %s, must be %s",
                         haul_op_name(op), haul_dtype_name(dtype), "f32 or bf16");
        return false;
    }
    for (int i = 1; i < count; i++) {
        if (haul_tensor_present(tensors[i]) && tensors[i]->dtype != dtype) {
            haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                             "%s on the cpu: tensors are %s and %s, must be of one dtype",
                             haul_op_name(op), haul_dtype_name(dtype),
                             haul_dtype_name(tensors[i]->dtype));
            return false;
        }
    }
    *bf16 = dtype == HAUL_BF16;
    return true;
}

bool haul_cpu_f32(haul_stream *stream, haul_op op, const haul_tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        if (haul_tensor_present(tensors[i]) && tensors[i]->dtype != HAUL_F32) {
            haul_stream_fail(stream, HAUL_ERROR_UNAVAILABLE,
                             "%s on the cpu: a statistic or gradient is %s, must be f32",
                             haul_op_name(op), haul_dtype_name(tensors[i]->dtype));
            return false;
        }
    }
    return true;
}

bool haul_cpu_indices(haul_stream *stream, haul_op op, const haul_tensor *indices, int64_t limit) {
    const int32_t *index = indices->data;
    int64_t count = haul_tensor_count(indices);
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] >= limit) {
            haul_stream_fail(stream, HAUL_ERROR_DATA,
                             "%s: token of row %lld is %d, must be at least 0 and below %lld",
                             haul_op_name(op), (long long)i, index[i], (long long)limit);
            return false;
        }
    }
    return true;
}

void haul_cpu_parallel(haul_stream *stream, int64_t count, int64_t grain, int64_t unit_bytes,
                       haul_parallel_function *function, void *context) {
    bool serial = count * unit_bytes <= SERIAL_BYTES;
    haul_parallel_for(serial ? 1 : stream->device->threads, count, grain, function, context);
}

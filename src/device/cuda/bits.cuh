/* Groups of 16 bytes (vector.cuh) as they are in memory. Loads that are unpacked later stay under
 * way together, whatever branches lie between them. */
#ifndef HAUL_DEVICE_CUDA_BITS_CUH
#define HAUL_DEVICE_CUDA_BITS_CUH

#include "device/cuda/vector.cuh"

/* Elements [at, at + GROUP) of a row of `count`; 0 beyond its end. */
template <typename T>
static __device__ __forceinline__ uint4 load_bits(const T *row, int64_t at, int64_t count) {
    const int width = group_of<T>::elements;
    uint4 bits = {0, 0, 0, 0};
    if (at + width <= count && aligned16(row + at)) {
        bits = *(const uint4 *)(row + at);
    } else {
        T *values = (T *)&bits;
#pragma unroll
        for (int i = 0; i < width; i++) {
            if (at + i < count) {
                values[i] = row[at + i];
            }
        }
    }
    return bits;
}

template <typename T>
static __device__ __forceinline__ void unpack(uint4 bits, float out[group_of<T>::elements]) {
    const T *values = (const T *)&bits;
#pragma unroll
    for (int i = 0; i < group_of<T>::elements; i++) {
        out[i] = to_float(values[i]);
    }
}

template <typename T>
static __device__ __forceinline__ uint4 pack(const float in[group_of<T>::elements]) {
    uint4 bits;
    T *values = (T *)&bits;
#pragma unroll
    for (int i = 0; i < group_of<T>::elements; i++) {
        values[i] = from_float<T>(in[i]);
    }
    return bits;
}

#endif

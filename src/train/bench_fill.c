#include "train/bench_fill.h"

#include "base/memory.h"
#include "base/philox.h"

#include <math.h>
#include <stdlib.h>

/* A prime, so that the rows of no matrix are alike. */
enum { NUMBERS = 262147, SEED = 1 };

haul_status haul_bench_filler_init(haul_bench_filler *filler, haul_stream *stream) {
    *filler = (haul_bench_filler){.stream = stream};
    filler->numbers = haul_calloc(NUMBERS, sizeof(double));
    if (filler->numbers == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < NUMBERS; i++) {
        filler->numbers[i] = haul_normal(SEED, 0, i);
    }
    return haul_device_allocate_host(stream->device, NUMBERS * (int64_t)sizeof(double),
                                     &filler->staging);
}

void haul_bench_filler_deinit(haul_bench_filler *filler) {
    if (filler->staging != NULL) {
        haul_device_release_host(filler->stream->device, filler->staging);
    }
    free(filler->numbers);
    *filler = (haul_bench_filler){0};
}

static double content_at(const haul_bench_filler *filler, haul_bench_content content,
                         int64_t vocabulary, int64_t i) {
    double normal = filler->numbers[i];
    switch (content) {
    case HAUL_BENCH_POSITIVE:
        return fabs(normal);
    case HAUL_BENCH_ONE:
        return 1;
    case HAUL_BENCH_TEN:
        return 10;
    case HAUL_BENCH_TURN:
        return sqrt(0.5);
    case HAUL_BENCH_TOKEN: /* the normal distribution's own share below the number is uniform */
        return floor(
            fmin(0.5 * erfc(-normal * sqrt(0.5)) * (double)vocabulary, (double)(vocabulary - 1)));
    default:
        return normal;
    }
}

haul_status haul_bench_fill(const haul_bench_filler *filler, const haul_tensor *tensor,
                            int64_t bytes, haul_bench_content content, double scale,
                            int64_t vocabulary) {
    int64_t element = haul_dtype_size(tensor->dtype), filled;
    if (content == HAUL_BENCH_ZERO || content == HAUL_BENCH_PACKED) {
        return HAUL_OK;
    }
    filled = haul_min(bytes, NUMBERS * element);
    double factor = content == HAUL_BENCH_NORMAL ? scale : 1;
    for (int64_t i = 0; i < filled / element; i++) {
        haul_element_set(filler->staging, tensor->dtype, i,
                         factor * content_at(filler, content, vocabulary, i));
    }
    haul_stream_copy(filler->stream, tensor->data, filler->staging, filled);
    while (filled < bytes) {
        int64_t more = haul_min(filled, bytes - filled);
        haul_stream_copy(filler->stream, (char *)tensor->data + filled, tensor->data, more);
        filled += more;
    }
    return haul_stream_wait(filler->stream);
}

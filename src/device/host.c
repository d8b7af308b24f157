#include "device/host.h"

#include <math.h>

void haul_host_verdict(haul_stream *stream, const void *args) {
    const haul_verdict_args *verdict = args;
    const double *squares = verdict->squares.data;
    double sum = 0;
    (void)stream;
    for (int64_t i = 0; i < haul_tensor_count(&verdict->squares); i++) {
        sum += squares[i];
    }
    double norm = sqrt(sum);
    double scale = verdict->clip > 0 ? verdict->clip / (norm + 1e-6) : 1;
    *(double *)verdict->norm.data = norm;
    bool skip = !isfinite(sum);
    uint32_t update = verdict->scalars->update + !skip;
    *verdict->scalars = (haul_step_scalars){.learning_rate = verdict->learning_rate,
                                            .gradient_scale = scale < 1 ? scale : 1,
                                            .bias_correction1 = 1 - pow(verdict->beta1, update),
                                            .bias_correction2 = 1 - pow(verdict->beta2, update),
                                            .update = update,
                                            .skip = skip};
}

/* Where the scale of the first element of a row is, and how far apart those of its blocks are. */
static const float *row_scales(haul_scaling scaling, const haul_tensor *scales, int64_t row,
                               int64_t *step) {
    const float *all = scales->data;
    int64_t columns = haul_tensor_columns(scales);
    switch (scaling) {
    case HAUL_SCALING_ROWS:
        *step = columns;
        return all + row;
    case HAUL_SCALING_BLOCKS:
        *step = 1;
        return all + row / HAUL_SCALING_BLOCK * columns;
    default:
        *step = 0;
        return all;
    }
}

void haul_host_decode_row(const haul_tensor *codes, haul_scaling scaling, const haul_tensor *scales,
                          int64_t row, float *out) {
    int64_t columns = haul_tensor_columns(codes), step;
    const uint8_t *code = (const uint8_t *)codes->data + row * columns;
    const float *scale = row_scales(scaling, scales, row, &step);
    bool e5m2 = codes->dtype == HAUL_E5M2;
    for (int64_t c = 0; c < columns; c++) {
        float value = e5m2 ? haul_e5m2_to_f32(code[c]) : haul_e4m3_to_f32(code[c]);
        out[c] = value * scale[c / HAUL_SCALING_BLOCK * step];
    }
}

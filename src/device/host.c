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
    *verdict->scalars = (haul_step_scalars){.learning_rate = verdict->learning_rate,
                                            .gradient_scale = scale < 1 ? scale : 1,
                                            .bias_correction1 = verdict->bias_correction1,
                                            .bias_correction2 = verdict->bias_correction2,
                                            .skip = !isfinite(sum)};
}

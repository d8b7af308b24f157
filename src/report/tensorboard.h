/* TensorBoard event files: TFRecord framing around protobuf Event messages. */
#ifndef HAUL_REPORT_TENSORBOARD_H
#define HAUL_REPORT_TENSORBOARD_H

#include "base/file.h"
#include "base/status.h"
#include "report/iteration_line.h"

#include <stdint.h>

typedef struct haul_tensorboard {
    haul_file_writer file;
} haul_tensorboard;

/* Creates directory/events.out.tfevents.TIME.HOST.PID (and the directory) and writes the version
 * event. `wall` is in seconds since 1970 UTC, here and below. */
haul_status haul_tensorboard_open(const char *directory, double wall, haul_tensorboard *out);

/* The same with the file's path given. */
haul_status haul_tensorboard_create(const char *path, double wall, haul_tensorboard *out);
void haul_tensorboard_close(haul_tensorboard *board);

/* One point of the curve `tag`. */
haul_status haul_tensorboard_scalar(haul_tensorboard *board, const char *tag, double value,
                                    int64_t step, double wall);

/* A text for the text tab, shown as Markdown; bytes that are not UTF-8 become U+FFFD. */
haul_status haul_tensorboard_text(haul_tensorboard *board, const char *tag, const char *text,
                                  int64_t step, double wall);

/* The curves that Megatron-LM writes for an iteration: "lm loss", "learning-rate", "grad-norm",
 * "batch-size", "loss-scale" (each also with " vs samples"), "iteration-time" (seconds),
 * "throughput". Optional fields that are NAN are left out. */
haul_status haul_tensorboard_iteration(haul_tensorboard *board, const haul_iteration *iteration,
                                       double wall);

/* "lm loss validation", its perplexity and both against samples. */
haul_status haul_tensorboard_validation(haul_tensorboard *board, double loss, int64_t iteration,
                                        int64_t consumed_samples, double wall);

#endif

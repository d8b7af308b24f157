/* What a training leaves for people in its run directory: command.txt, config.json, log.jsonl, and
 * TensorBoard events where asked for. */
#ifndef HAUL_TRAIN_RECORD_H
#define HAUL_TRAIN_RECORD_H

#include "report/run_log.h"
#include "report/tensorboard.h"
#include "train/loop.h"

typedef struct haul_record {
    haul_run_log log;
    haul_tensorboard board;
    bool has_board;
    double ceiling; /* FLOP/s of a large matrix product on this device; 0: unknown */
} haul_record;

/* Creates the directory and writes command.txt and config.json. */
haul_status haul_record_open(haul_record *record, const char *run_directory, const char *command,
                             const haul_config *config);
void haul_record_close(haul_record *record);

/* The start of an attempt with its memory table. `start` has what the caller knows; the model's
 * size, threads and precision are filled in. */
haul_status haul_record_start(haul_record *record, const haul_train *train, haul_log_start start);

haul_status haul_record_interval(haul_record *record, const haul_train *train,
                                 const haul_iteration *means);
haul_status haul_record_evaluation(haul_record *record, const haul_train *train,
                                   const haul_evaluation *evaluation);
haul_status haul_record_sample(haul_record *record, const haul_train *train, const char *prompt,
                               const char *text);
haul_status haul_record_checkpoint(haul_record *record, const haul_train *train, const char *path,
                                   int64_t bytes, double seconds);
haul_status haul_record_end(haul_record *record, const haul_train *train, const char *reason);

/* FLOP/s of a large matrix product of this dtype on a device, measured for about 0.3 s. */
haul_status haul_record_measure_ceiling(haul_device *device, haul_dtype dtype, double *out);

#endif

/* Inside cli/: what both commands of haul bench share. */
#ifndef HAUL_CLI_BENCH_H
#define HAUL_CLI_BENCH_H

#include "cli/cli.h"
#include "train/bench_kernels.h"

#include <jansson.h>

/* Settles and plans the training of a bench, prints what it is, and lets the device measure how to
 * multiply. Deinit the session after a failure, too. */
haul_status haul_bench_plan(haul_config *config, haul_session *session);

/* FLOP/s by the data sheet of bf16 products on this device; 0: not known. */
double haul_bench_peak(const haul_device *device);

/* What both write to --json: command, device, shape. NULL when memory is out. */
json_t *haul_bench_describe(const haul_cli *cli, const haul_session *session);

/* Writes and releases `root`, which may be NULL: then memory was out. Does nothing without
 * --json. */
haul_status haul_bench_write_json(const haul_config *config, json_t *root);

#endif

/* What the fuzz targets share. Each fuzz_PARSER.c hands the bytes of an input to one parser, by
 * LLVMFuzzerTestOneInput, and checks what came of it. Configured with -DHAUL_FUZZ=ON (clang) it is
 * a libFuzzer program; otherwise replay.c runs it on corpus/PARSER. */
#ifndef HAUL_TESTS_FUZZING_H
#define HAUL_TESTS_FUZZING_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FUZZ_PATH_BYTES = 256, FUZZ_INPUT_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with `what` unless `holds`. */
void fuzz_require(bool holds, const char *what);

/* The calls that cannot fail. */
void fuzz_require_ok(haul_status status);

/* True for HAUL_OK. A failure must say something, and must not be one of haul itself. */
bool fuzz_accepted(haul_status status);

/* DIRECTORY/name in a scratch directory, in memory where there is /dev/shm. The process that asked
 * first removes it at its end; those that it starts share it. */
const char *fuzz_path(const char *name, char path[FUZZ_PATH_BYTES]);

/* Puts the bytes into the file of that name, and returns its path as fuzz_path. */
const char *fuzz_put(const char *name, const void *data, size_t size, char path[FUZZ_PATH_BYTES]);

#endif

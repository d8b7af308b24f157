/* What the reader and the writer of .idx files share. */
#ifndef HAUL_DATA_INDEXED_FORMAT_H
#define HAUL_DATA_INDEXED_FORMAT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HAUL_INDEXED_MAGIC_BYTES = 9,
    HAUL_INDEXED_HEADER_BYTES = 34,
    HAUL_INDEXED_VERSION = 1,
    HAUL_INDEXED_CODE_I32 = 4,
    HAUL_INDEXED_CODE_U16 = 8,
    HAUL_INDEXED_PATH_BYTES = 1024
};

static const char haul_indexed_magic[HAUL_INDEXED_MAGIC_BYTES] = "MMIDIDX\0";

/* Sets path[HAUL_INDEXED_PATH_BYTES] to prefix + suffix; HAUL_ERROR_USAGE when it is too long. */
haul_status haul_indexed_path(char *path, const char *prefix, const char *suffix);

#endif

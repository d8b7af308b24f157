/* What the machine is and how fast its parts are, for `haul doctor`. */
#ifndef HAUL_BASE_MACHINE_H
#define HAUL_BASE_MACHINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_machine {
    char processor[128];     /* its name; "" when unknown */
    char huge_pages[32];     /* the kernel's mode: "always", "madvise", "never"; "" when unknown */
    int64_t memory_bytes;    /* 0 when unknown */
    int64_t available_bytes; /* of memory, now; 0 when unknown */
    int64_t page_bytes;
} haul_machine;

void haul_machine_describe(haul_machine *out);

/* Whether /proc/cpuinfo lists a feature, as "avx512_bf16". */
bool haul_machine_has(const char *feature);

typedef struct haul_disk_speed {
    double write_bytes_per_second; /* until it is on the disk, of one large file */
    double sync_seconds;           /* of a small file, whole */
} haul_disk_speed;

/* Writes and syncs a file in a directory for about half a second, and removes it. HAUL_ERROR_CREATE
 * or HAUL_ERROR_IO. */
haul_status haul_machine_measure_disk(const char *directory, haul_disk_speed *out);

#endif

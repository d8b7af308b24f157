#ifndef HAUL_BASE_PROCESS_H
#define HAUL_BASE_PROCESS_H

#include <stdint.h>

/* Bytes of this process that are in memory now; 0 when that cannot be read. */
int64_t haul_process_resident_bytes(void);

/* Bytes that the machine could still give to processes; 0 when that cannot be read. */
int64_t haul_process_available_bytes(void);

#endif

#ifndef HAUL_REPORT_CRC32C_H
#define HAUL_REPORT_CRC32C_H

#include <stdint.h>

/* CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected; RFC 3720 appendix B.4). */
uint32_t haul_crc32c(const void *data, int64_t bytes);

#endif

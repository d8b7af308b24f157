/* Numbers as people read them: three digits and a unit. */
#ifndef HAUL_BASE_FORMAT_H
#define HAUL_BASE_FORMAT_H

#include <stdint.h>

/* Returned by value, so that a call can stand in an argument list:
 * printf("%s\n", haul_format_bytes(n).text). */
typedef struct haul_formatted {
    char text[32];
} haul_formatted;

/* "0 B", "1023 B", "1.50 KiB", "12.3 MiB", "512 GiB". */
haul_formatted haul_format_bytes(int64_t bytes);

/* "999", "1.50k", "12.3M", "124M", "7.00B": thousands, as models and tokens are counted. */
haul_formatted haul_format_count(int64_t count);

/* "850 ms", "4.2 s", "3m 20s", "2h 05m", "3d 04h"; "?" for what is negative or not finite. */
haul_formatted haul_format_duration(double seconds);

#endif

#include "base/process.h"

#include <stdio.h>
#include <unistd.h>

int64_t haul_process_resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    long long pages = 0;
    if (file != NULL) {
        if (fscanf(file, "%*s %lld", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

int64_t haul_process_available_bytes(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    char line[256];
    long long kibibytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemAvailable: %lld", &kibibytes) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kibibytes * 1024;
}

#include "base/machine.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/string.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 8192, PIECE = 4 << 20, MOST_PIECES = 64 };

static const double SECONDS = 0.4;

/* The value of the first line "KEY : VALUE" of a file of /proc, into value[capacity]. */
static bool read_line(const char *path, const char *key, char *value, int64_t capacity) {
    char line[LINE_BYTES];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, key, strlen(key)) == 0) {
            colon += 1 + strspn(colon + 1, " \t");
            colon[strcspn(colon, "\n")] = '\0';
            haul_text_copy(value, capacity, colon);
            found = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* The word in brackets: "always [madvise] never". */
static void read_huge_pages(char *mode, int64_t capacity) {
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL) {
            line[0] = '\0';
        }
        fclose(file);
    }
    const char *begin = strchr(line, '[');
    if (begin != NULL) {
        line[strcspn(line, "]")] = '\0';
        haul_text_copy(mode, capacity, begin + 1);
    }
}

void haul_machine_describe(haul_machine *out) {
    char text[64];
    *out = (haul_machine){.available_bytes = haul_process_available_bytes(),
                          .page_bytes = sysconf(_SC_PAGESIZE)};
    read_line("/proc/cpuinfo", "model name", out->processor, sizeof out->processor);
    read_huge_pages(out->huge_pages, sizeof out->huge_pages);
    if (read_line("/proc/meminfo", "MemTotal", text, sizeof text)) {
        out->memory_bytes = strtoll(text, NULL, 10) * 1024;
    }
}

bool haul_machine_has(const char *feature) {
    char flags[LINE_BYTES];
    size_t length = strlen(feature);
    if (!read_line("/proc/cpuinfo", "flags", flags, sizeof flags) &&
        !read_line("/proc/cpuinfo", "Features", flags, sizeof flags)) { /* of x86, of ARM */
        return false;
    }
    for (const char *at = flags; *at != '\0'; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, feature, word) == 0) {
            return true;
        }
        at += word;
    }
    return false;
}

static haul_status write_synced(const char *path, const char *data, int64_t bytes, int64_t most,
                                int64_t *written) {
    haul_file_writer writer;
    double begin = haul_clock_seconds();
    HAUL_TRY(haul_file_create(path, &writer));
    haul_status status = HAUL_OK;
    do {
        status = haul_file_write(&writer, data, bytes);
    } while (status == HAUL_OK && writer.bytes < most && haul_clock_seconds() - begin < SECONDS);
    *written = writer.bytes;
    if (status == HAUL_OK) {
        status = haul_file_finish(&writer);
    }
    haul_file_abandon(&writer);
    return status;
}

static haul_status measure(const char *path, const char *data, haul_disk_speed *out) {
    int64_t written;
    double begin = haul_clock_seconds();
    HAUL_TRY(write_synced(path, data, 1, 1, &written));
    out->sync_seconds = haul_clock_seconds() - begin;
    begin = haul_clock_seconds();
    HAUL_TRY(write_synced(path, data, PIECE, (int64_t)PIECE * MOST_PIECES, &written));
    out->write_bytes_per_second = (double)written / (haul_clock_seconds() - begin);
    return HAUL_OK;
}

haul_status haul_machine_measure_disk(const char *directory, haul_disk_speed *out) {
    char path[1024];
    haul_disk_speed speed;
    snprintf(path, sizeof path, "%s/.haul-disk-speed-%ld", directory, (long)getpid());
    char *data = haul_calloc(PIECE, 1);
    if (data == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    for (int64_t i = 0; i < PIECE; i++) { /* nothing that a disk could compress away */
        data[i] = (char)((uint64_t)i * 0x9E3779B97F4A7C15u >> 56);
    }
    haul_status status = measure(path, data, &speed);
    unlink(path);
    free(data);
    if (status == HAUL_OK) {
        *out = speed;
    }
    return status;
}

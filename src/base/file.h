/* Files: whole reads, maps, and writes that are either complete or absent after a crash. */
#ifndef HAUL_BASE_FILE_H
#define HAUL_BASE_FILE_H

#include "base/status.h"
#include "base/string.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_file_map {
    const void *data; /* NULL for an empty file */
    int64_t bytes;
} haul_file_map;

bool haul_file_exists(const char *path);

/* Maps a file read-only. HAUL_ERROR_NO_INPUT when it cannot be opened. */
haul_status haul_file_map_open(const char *path, haul_file_map *out);
void haul_file_map_close(haul_file_map *map);

/* Appends the whole file to `out`. */
haul_status haul_file_read(const char *path, haul_string *out);

/* A file being written. Every write, sync and rename checks its result and passes the fault
 * points of base/fault.h. */
typedef struct haul_file_writer {
    int descriptor;
    int64_t bytes;   /* written so far */
    char path[1024]; /* for messages */
} haul_file_writer;

haul_status haul_file_create(const char *path, haul_file_writer *out);
haul_status haul_file_write(haul_file_writer *writer, const void *data, int64_t bytes);

/* Syncs to the disk and closes. The descriptor is closed whatever comes back. */
haul_status haul_file_finish(haul_file_writer *writer);

/* Closes without a sync, for error paths. Legal after finish. */
void haul_file_abandon(haul_file_writer *writer);

/* Writes `path` under a temporary name, syncs it, renames it over `path`, syncs the directory. */
haul_status haul_file_replace(const char *path, const void *data, int64_t bytes);

/* For work whose result goes to `path` in the end: HAUL_ERROR_CREATE when its directory is missing
 * or refuses files, or `path` is a directory. Touches nothing. NULL is fine. */
haul_status haul_file_check_target(const char *path);

/* rename + sync of the parent directory. */
haul_status haul_file_rename(const char *from, const char *to);

/* Creates a directory and its parents. Present already is fine. */
haul_status haul_directory_create(const char *path);
haul_status haul_directory_sync(const char *path);

/* Removes a file or a directory with all below it. Absent is fine. Links are not followed. */
haul_status haul_file_remove(const char *path);

/* Calls `visit` for each name in a directory, sorted, without "." and "..". */
haul_status haul_directory_list(const char *path,
                                haul_status (*visit)(void *context, const char *name),
                                void *context);

#endif

/* One live line on a terminal, or a plain line at each quarter elsewhere:
 *
 *     tokenizing  [########............]  41 %  12.3 MiB of 30.1 MiB  5.20 MiB/s  ETA 3.4 s
 */
#ifndef HAUL_BASE_PROGRESS_H
#define HAUL_BASE_PROGRESS_H

#include "base/format.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct haul_progress {
    FILE *file;
    const char *label, *unit;
    int64_t total, done;
    double started, shown; /* haul_clock_seconds of begin and of the last line */
    bool live;
    int quarters; /* plain lines so far */
    int width;    /* of the live line on the screen */
} haul_progress;

/* Starts a job of `total` units. `unit` names them ("documents"), NULL means bytes; both texts
 * must outlive the job. A NULL file shows nothing. */
void haul_progress_begin(haul_progress *progress, FILE *file, const char *label, const char *unit,
                         int64_t total);

/* `done` units are finished in all. Cheap: draws at most 4 times a second. */
void haul_progress_update(haul_progress *progress, int64_t done);

/* Ends the line with what was done and how long it took. Call it on success and on failure. */
void haul_progress_end(haul_progress *progress);

#endif

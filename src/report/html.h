/* report.html: a training run on one page that needs no network and no scripts. */
#ifndef HAUL_REPORT_HTML_H
#define HAUL_REPORT_HTML_H

#include "base/status.h"

/* Reads command.txt, config.json and log.jsonl of a run directory and writes the page to `path`,
 * whole or not at all. Only log.jsonl must be there (HAUL_ERROR_NO_INPUT); what the others or the
 * log lack is left out of the page. */
haul_status haul_report_write(const char *run_directory, const char *path);

#endif

/* The files of a run that haul report reads: log.jsonl and, behind a NUL, config.json. */
#include "base/file.h"
#include "fuzzing.h"
#include "report/html.h"
#include "report/run_log.h"

#include <string.h>

static void check_history(const haul_run_history *history) {
    for (int64_t i = 0; i < history->attempt_count; i++) {
        const char *command = history->attempts[i].start.command;
        fuzz_require(command == NULL || strlen(command) < FUZZ_INPUT_MAX, "texts end");
    }
}

/* Whatever the log says, the page holds no element that it did not write. */
static void check_page(const char *path) {
    haul_string page = {0};
    fuzz_require_ok(haul_file_read(path, &page));
    fuzz_require(strcasestr(page.data, "<script") == NULL && strcasestr(page.data, "<img") == NULL,
                 "texts of the log are escaped");
    fuzz_require(strstr(page.data, "=\"nan") == NULL && strstr(page.data, "=\"inf") == NULL &&
                     strstr(page.data, "=\"-nan") == NULL,
                 "pictures have finite places");
    haul_string_deinit(&page);
}

/* A run that goes on appends to the log, whatever a crash left there. */
static void check_append(const char *path) {
    haul_run_log log;
    haul_run_history history;
    fuzz_require_ok(haul_run_log_open(path, &log));
    fuzz_require_ok(haul_run_log_end(&log, &(haul_log_end){.iteration = 1, .reason = "finished"}));
    haul_run_log_close(&log);
    fuzz_require_ok(haul_run_history_read(path, &history));
    haul_run_history_deinit(&history);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char log[FUZZ_PATH_BYTES], config[FUZZ_PATH_BYTES], page[FUZZ_PATH_BYTES];
    haul_run_history history;
    const uint8_t *nul = memchr(data, 0, size);
    size_t log_bytes = nul != NULL ? (size_t)(nul - data) : size;
    fuzz_put("log.jsonl", data, log_bytes, log);
    fuzz_put("config.json", data + log_bytes + (nul != NULL),
             nul != NULL ? size - log_bytes - 1 : 0, config);
    if (!fuzz_accepted(haul_run_history_read(log, &history))) {
        return 0;
    }
    check_history(&history);
    haul_run_history_deinit(&history);
    fuzz_path("report.html", page);
    *strrchr(config, '/') = '\0';
    fuzz_require_ok(haul_report_write(config, page));
    check_page(page);
    check_append(log);
    return 0;
}

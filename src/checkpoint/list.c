#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t tensor_elements(const haul_checkpoint_tensor *tensor) {
    int64_t elements = 0;
    haul_shape_bytes(tensor->ndim, tensor->shape, 1, &elements);
    return elements;
}

static haul_status summarise(const haul_checkpoint_candidate *candidate, bool whole,
                             haul_checkpoint_summary *summary) {
    haul_manifest manifest = {0};
    haul_text_copy(summary->path, sizeof summary->path, candidate->path);
    summary->iteration = candidate->iteration;
    haul_status status = haul_manifest_read(candidate->path, &manifest);
    if (status == HAUL_OK) {
        summary->iteration = manifest.iteration;
        summary->bytes = manifest.bytes;
        summary->tensors = manifest.tensor_count;
    }
    for (int64_t i = 0; status == HAUL_OK && i < manifest.tensor_count; i++) {
        summary->elements += tensor_elements(&manifest.tensors[i].tensor);
    }
    for (int64_t i = 0; whole && status == HAUL_OK && i < manifest.file_count; i++) {
        status = haul_manifest_check_file(candidate->path, &manifest.files[i]);
    }
    haul_manifest_deinit(&manifest);
    summary->good = status == HAUL_OK;
    if (!summary->good) {
        haul_text_copy(summary->reason, sizeof summary->reason, haul_error_message());
    }
    return status == HAUL_ERROR_MEMORY ? status : HAUL_OK;
}

haul_status haul_checkpoint_scan(const char *path, bool whole, haul_checkpoint_summary **out,
                                 int64_t *count) {
    haul_checkpoint_candidate *candidates = NULL;
    int64_t found = 0;
    HAUL_TRY(haul_layout_candidates(path, -1, &candidates, &found));
    haul_checkpoint_summary *summaries = haul_calloc(found, sizeof *summaries);
    haul_status status = summaries != NULL ? HAUL_OK : HAUL_ERROR_MEMORY;
    for (int64_t i = 0; status == HAUL_OK && i < found; i++) {
        status = summarise(&candidates[i], whole, &summaries[i]);
    }
    free(candidates);
    if (status != HAUL_OK) {
        free(summaries);
        return status;
    }
    *out = summaries;
    *count = found;
    return HAUL_OK;
}

static void print_bytes(int64_t bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void append_row(haul_string *out, const haul_checkpoint_summary *summary,
                       const char *good_word) {
    char size[32];
    print_bytes(summary->bytes, size);
    haul_string_append_format(out, "%12" PRId64 "%12s%10" PRId64 "%16" PRId64 "  %s\n",
                              summary->iteration, summary->good ? size : "-", summary->tensors,
                              summary->elements, summary->good ? good_word : summary->reason);
}

static haul_status append_table(const char *path, bool whole, haul_string *out, int64_t *bad,
                                int64_t *total) {
    haul_checkpoint_summary *summaries = NULL;
    int64_t count = 0;
    HAUL_TRY(haul_checkpoint_scan(path, whole, &summaries, &count));
    *total = count;
    haul_string_append_format(out, "%12s%12s%10s%16s  %s\n", "iteration", "size", "tensors",
                              "elements", "status");
    *bad = 0;
    for (int64_t i = 0; i < count; i++) {
        append_row(out, &summaries[i], whole ? "good: every byte read" : "complete");
        *bad += summaries[i].good ? 0 : 1;
    }
    free(summaries);
    return haul_string_status(out);
}

haul_status haul_checkpoint_list(const char *path, haul_string *out) {
    int64_t bad = 0, total = 0;
    return append_table(path, false, out, &bad, &total);
}

haul_status haul_checkpoint_verify(const char *path, haul_string *out) {
    int64_t bad = 0, total = 0;
    HAUL_TRY(append_table(path, true, out, &bad, &total));
    if (bad > 0) {
        return haul_fail(HAUL_ERROR_DATA, "%s: %" PRId64 " of %" PRId64 " checkpoints are bad",
                         path, bad, total);
    }
    return HAUL_OK;
}

haul_status haul_checkpoint_show(const char *path, int64_t iteration, haul_string *out) {
    haul_checkpoint *checkpoint = NULL;
    HAUL_TRY(haul_checkpoint_find(path, iteration, &checkpoint, NULL));
    haul_string_append_format(out, "checkpoint %s\niteration  %" PRId64 "\nstate      %s\n",
                              haul_checkpoint_path(checkpoint),
                              haul_checkpoint_iteration(checkpoint),
                              haul_checkpoint_state_json(checkpoint));
    int64_t elements = 0, bytes = 0, count = haul_checkpoint_count(checkpoint);
    for (int64_t i = 0; i < count; i++) {
        const haul_checkpoint_tensor *tensor = haul_checkpoint_at(checkpoint, i);
        elements += tensor_elements(tensor);
        bytes += tensor_elements(tensor) * haul_dtype_size(tensor->dtype);
    }
    char size[32], shape[HAUL_SHAPE_TEXT];
    print_bytes(bytes, size);
    haul_string_append_format(out, "tensors    %" PRId64 " with %" PRId64 " elements, %s\n", count,
                              elements, size);
    for (int64_t i = 0; i < count; i++) {
        const haul_checkpoint_tensor *tensor = haul_checkpoint_at(checkpoint, i);
        haul_shape_print(tensor->dtype, tensor->ndim, tensor->shape, shape);
        haul_string_append_format(out, "  %-24s %s\n", shape, tensor->name);
    }
    haul_checkpoint_close(checkpoint);
    return haul_string_status(out);
}

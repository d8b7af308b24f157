/* Reads traces of PyTorch's profiler (Kineto) and their kin, from Chrome's JSON, plain or
 * compressed by gzip (any number of members) or zstd: an inflate window, a tokenizer over it, and
 * one event at a time to a visitor. Memory is bounded by the window and the longest event, whatever
 * the file's size; dirt is counted, not fatal. */
#ifndef HAUL_TRACE_READER_H
#define HAUL_TRACE_READER_H

#include "base/status.h"
#include "trace/entry.h"

/* Called for each event in the order of the file. A failure ends the reading. */
typedef haul_status haul_trace_visit(void *context, const haul_trace_entry *entry);

/* Reads a file, either {"traceEvents": [...], ...} or a bare list. Sets *file, which
 * haul_trace_file_deinit frees, also when the file turns out to be broken midway: that is HAUL_OK
 * with file->quality saying so. HAUL_ERROR_NO_INPUT: it cannot be opened. HAUL_ERROR_DATA: it is no
 * trace at all (nothing that looks like an event), or a report of Nsight Systems, with a hint. */
haul_status haul_trace_read(const char *path, haul_trace_visit *visit, void *context,
                            haul_trace_file *file);

/* As haul_trace_read, of bytes in memory; `name` is for messages. */
haul_status haul_trace_read_bytes(const char *name, const void *data, int64_t bytes,
                                  haul_trace_visit *visit, void *context, haul_trace_file *file);

void haul_trace_file_deinit(haul_trace_file *file);

#endif

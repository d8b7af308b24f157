#include "trace/writer.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/string.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { TEXT_BYTES = 1 << 16, PACKED_BYTES = 1 << 16, GZIP_WINDOW = 15 + 16 };

static const int64_t quarter_year = INT64_C(90) * 24 * 3600 * 1000000000;

struct haul_trace_writer {
    char path[1024], temporary[1040];
    haul_file_writer file;
    z_stream gzip;
    bool compresses; /* gzip is open */
    haul_string text;
    int64_t base;
    int64_t events;
    haul_status status; /* the first failure */
    unsigned char packed[PACKED_BYTES];
};

static const char *const categories[] = {
    [HAUL_TRACE_CPU_OP] = "cpu_op",
    [HAUL_TRACE_USER_ANNOTATION] = "user_annotation",
    [HAUL_TRACE_GPU_USER_ANNOTATION] = "gpu_user_annotation",
    [HAUL_TRACE_CUDA_RUNTIME] = "cuda_runtime",
    [HAUL_TRACE_CUDA_DRIVER] = "cuda_driver",
    [HAUL_TRACE_KERNEL] = "kernel",
    [HAUL_TRACE_GPU_MEMCPY] = "gpu_memcpy",
    [HAUL_TRACE_GPU_MEMSET] = "gpu_memset",
};

/* Compresses and writes the text so far. */
static haul_status flush(haul_trace_writer *writer, int mode) {
    z_stream *gzip = &writer->gzip;
    HAUL_TRY(haul_string_status(&writer->text));
    gzip->next_in = (unsigned char *)writer->text.data;
    gzip->avail_in = (unsigned)writer->text.length;
    do {
        gzip->next_out = writer->packed;
        gzip->avail_out = PACKED_BYTES;
        if (deflate(gzip, mode) == Z_STREAM_ERROR) {
            return haul_fail(HAUL_ERROR_INTERNAL, "%s: zlib is in no state to compress",
                             writer->path);
        }
        HAUL_TRY(haul_file_write(&writer->file, writer->packed, PACKED_BYTES - gzip->avail_out));
    } while (gzip->avail_out == 0);
    haul_string_clear(&writer->text);
    return HAUL_OK;
}

static void flush_when_full(haul_trace_writer *writer) {
    if (writer->status == HAUL_OK && writer->text.length >= TEXT_BYTES) {
        writer->status = flush(writer, Z_NO_FLUSH);
    }
}

static void append_field(haul_string *out, const haul_trace_field *field) {
    haul_string_append_json(out, field->name);
    switch (field->type) {
    case HAUL_TRACE_INTEGER:
        haul_string_append_format(out, ": %" PRId64, field->integers[0]);
        break;
    case HAUL_TRACE_REAL:
        haul_string_append_format(out, ": %.9g", isfinite(field->real) ? field->real : 0.0);
        break;
    case HAUL_TRACE_TEXT:
        haul_string_append_text(out, ": ");
        haul_string_append_json(out, field->text);
        break;
    case HAUL_TRACE_TRIPLE:
        haul_string_append_format(out, ": [%" PRId64 ", %" PRId64 ", %" PRId64 "]",
                                  field->integers[0], field->integers[1], field->integers[2]);
        break;
    }
}

static void append_fields(haul_string *out, const haul_trace_field *fields, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        haul_string_append_text(out, i > 0 ? ", " : "");
        append_field(out, &fields[i]);
    }
}

/* Nanoseconds as microseconds. */
static void append_time(haul_string *out, const char *name, int64_t time) {
    int64_t positive = haul_max(time, 0);
    haul_string_append_format(out, ", \"%s\": %" PRId64 ".%03d", name, positive / 1000,
                              (int)(positive % 1000));
}

static void append_header(haul_string *out, const haul_trace_header *header) {
    haul_string_append_text(out, "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [");
    if (header->device_count > 0) {
        haul_string_append_text(out, "{\"id\": 0, ");
        append_fields(out, header->device, header->device_count);
        haul_string_append_text(out, "}");
    }
    haul_string_append_format(out,
                              "],\n\"distributedInfo\": {\"backend\": \"haul\", \"rank\": %" PRId64
                              ", \"world_size\": %" PRId64
                              ", \"pg_count\": 0, \"pg_config\": []},\n",
                              header->rank, header->world_size);
    for (int64_t i = 0; i < header->field_count; i++) {
        append_field(out, &header->fields[i]);
        haul_string_append_text(out, ",\n");
    }
    haul_string_append_text(out, "\"traceName\": ");
    haul_string_append_json(out, header->name);
    haul_string_append_format(out,
                              ",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %" PRId64
                              ",\n\"traceEvents\": [",
                              header->base);
}

int64_t haul_trace_base(int64_t time) {
    return time - time % quarter_year;
}

haul_status haul_trace_create(const char *path, const haul_trace_header *header,
                              haul_trace_writer **out) {
    haul_trace_writer *writer = haul_calloc(1, sizeof *writer);
    if (writer == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    haul_text_copy(writer->path, sizeof writer->path, path);
    snprintf(writer->temporary, sizeof writer->temporary, "%s.part", writer->path);
    writer->base = header->base;
    haul_status status = haul_file_create(writer->temporary, &writer->file);
    if (status != HAUL_OK) {
        free(writer);
        return status;
    }
    if (deflateInit2(&writer->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        haul_trace_abandon(writer);
        return haul_fail(HAUL_ERROR_MEMORY, "%s: no memory to compress it", path);
    }
    writer->compresses = true;
    append_header(&writer->text, header);
    *out = writer;
    return HAUL_OK;
}

/* The part of an event that all kinds share; the caller goes on behind it. */
static void begin_event(haul_trace_writer *writer, const char *phase, const char *name,
                        haul_trace_place place, int64_t time) {
    haul_string *out = &writer->text;
    haul_string_append_text(out, writer->events++ > 0 ? ",\n" : "\n");
    haul_string_append_format(out, "{\"ph\": \"%s\", \"name\": ", phase);
    haul_string_append_json(out, name);
    haul_string_append_format(out, ", \"pid\": %" PRId64 ", \"tid\": %" PRId64, place.process,
                              place.thread);
    append_time(out, "ts", time - writer->base);
}

static void end_event(haul_trace_writer *writer) {
    haul_string_append_text(&writer->text, "}");
    flush_when_full(writer);
}

static void add_metadata(haul_trace_writer *writer, const char *name, haul_trace_place place,
                         haul_trace_field field) {
    begin_event(writer, "M", name, place, writer->base);
    haul_string_append_text(&writer->text, ", \"args\": {");
    append_field(&writer->text, &field);
    haul_string_append_text(&writer->text, "}");
    end_event(writer);
}

void haul_trace_name_process(haul_trace_writer *writer, int64_t process, const char *name,
                             const char *label, int64_t order) {
    haul_trace_place place = {process, 0};
    add_metadata(writer, "process_name", place, haul_trace_text("name", name));
    add_metadata(writer, "process_labels", place, haul_trace_text("labels", label));
    add_metadata(writer, "process_sort_index", place, haul_trace_integer("sort_index", order));
}

void haul_trace_name_thread(haul_trace_writer *writer, haul_trace_place place, const char *name) {
    add_metadata(writer, "thread_name", place, haul_trace_text("name", name));
    add_metadata(writer, "thread_sort_index", place,
                 haul_trace_integer("sort_index", place.thread));
}

void haul_trace_add(haul_trace_writer *writer, const haul_trace_event *event) {
    haul_string *out = &writer->text;
    begin_event(writer, "X", event->name, event->place, event->begin);
    append_time(out, "dur", event->end - event->begin);
    haul_string_append_format(out, ", \"cat\": \"%s\", \"args\": {", categories[event->category]);
    append_fields(out, event->fields, event->field_count);
    haul_string_append_text(out, "}");
    end_event(writer);
}

void haul_trace_add_flow(haul_trace_writer *writer, bool arrives, int64_t id,
                         haul_trace_place place, int64_t time) {
    begin_event(writer, arrives ? "f" : "s", "ac2g", place, time);
    haul_string_append_format(&writer->text, ", \"id\": %" PRId64 ", \"cat\": \"ac2g\"%s", id,
                              arrives ? ", \"bp\": \"e\"" : "");
    end_event(writer);
}

static void release(haul_trace_writer *writer) {
    haul_file_abandon(&writer->file);
    if (writer->compresses) {
        deflateEnd(&writer->gzip);
    }
    haul_string_deinit(&writer->text);
    free(writer);
}

static haul_status finish(haul_trace_writer *writer) {
    HAUL_TRY(writer->status);
    haul_string_append_text(&writer->text, "\n]\n}\n");
    HAUL_TRY(flush(writer, Z_FINISH));
    HAUL_TRY(haul_file_finish(&writer->file));
    return haul_file_rename(writer->temporary, writer->path);
}

haul_status haul_trace_finish(haul_trace_writer *writer) {
    haul_status status = finish(writer);
    if (status != HAUL_OK) {
        haul_trace_abandon(writer);
        return status;
    }
    release(writer);
    return HAUL_OK;
}

void haul_trace_abandon(haul_trace_writer *writer) {
    if (writer == NULL) {
        return;
    }
    haul_file_abandon(&writer->file);
    haul_file_remove(writer->temporary); /* what failed before is what counts */
    release(writer);
}

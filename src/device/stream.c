#include "device/device.h"

#include <stdarg.h>
#include <stdio.h>

void haul_stream_fail(haul_stream *stream, haul_status status, const char *format, ...) {
    if (stream->status != HAUL_OK) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(stream->message, sizeof stream->message, format, arguments);
    va_end(arguments);
    stream->status = status;
}

haul_status haul_stream_status(const haul_stream *stream) {
    return stream->status == HAUL_OK ? HAUL_OK : haul_fail(stream->status, "%s", stream->message);
}

#include "checkpoint/path.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

haul_status haul_path_join(char out[HAUL_PATH_BYTES], const char *directory, const char *name) {
    if (snprintf(out, HAUL_PATH_BYTES, "%s/%s", directory, name) >= HAUL_PATH_BYTES) {
        return haul_fail(HAUL_ERROR_CREATE, "the path %s/%s is too long", directory, name);
    }
    return HAUL_OK;
}

haul_status haul_path_write(const char *directory, const char *name, const void *data,
                            int64_t bytes) {
    char path[HAUL_PATH_BYTES];
    haul_file_writer writer;
    HAUL_TRY(haul_path_join(path, directory, name));
    HAUL_TRY(haul_file_create(path, &writer));
    haul_status status = haul_file_write(&writer, data, bytes);
    if (status == HAUL_OK) {
        status = haul_file_finish(&writer);
    }
    haul_file_abandon(&writer);
    return status;
}

void haul_path_clear(const char *path) {
    char message[512], hint[512];
    haul_text_copy(message, sizeof message, haul_error_message());
    haul_text_copy(hint, sizeof hint, haul_error_hint());
    haul_status status = haul_file_remove(path);
    if (status != HAUL_OK) {
        haul_fail(status, "%s", message);
        haul_hint("%s", hint);
    }
}

bool haul_path_is_plain_name(const char *name) {
    return name[0] != '\0' && name[0] != '.' && strpbrk(name, "/\\") == NULL &&
           haul_text_is_printable(name);
}

bool haul_text_is_printable(const char *text) {
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

const char *haul_text_for_message(const char *text) {
    return text != NULL && haul_text_is_printable(text) ? text : "?";
}

/* What a training takes of memory: as planned, and as a device with memory of its own saw it. */
#include "cli/train.h"

#include "base/format.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>

enum { LINES = 3 }; /* of a category */

haul_status haul_train_print_memory(const haul_train_command *command) {
    const haul_session *session = &command->session;
    haul_string text = {0};
    haul_status status = haul_memory_table_render(&session->memory, LINES, &text);
    if (status == HAUL_OK && session->host_memory.count > 0) {
        haul_string_append_text(&text, "and of the host's memory:\n");
        status = haul_memory_table_render(&session->host_memory, LINES, &text);
    }
    if (status == HAUL_OK) {
        haul_cli_print(&text);
    }
    haul_string_deinit(&text);
    return status;
}

void haul_train_note_memory(haul_train_command *command, haul_train_stage stage) {
    int64_t used = haul_device_used_bytes(&command->session.device);
    command->used[stage] = haul_max(command->used[stage], used);
}

void haul_train_print_used(const haul_train_command *command) {
    const haul_device *device = &command->session.device;
    const int64_t *used = command->used;
    int64_t planned = command->session.memory.bytes;
    if (device->backend->used_bytes == NULL || used[HAUL_TRAIN_RUNNING] == 0) {
        return;
    }
    double most = (double)used[HAUL_TRAIN_RUNNING], difference = (double)planned - most;
    printf("%s memory taken: %s once open, %s when tuned, %s with tensors, %s at most; planned %s, "
           "%.2f %% %s\n",
           device->backend->name, haul_format_bytes(used[HAUL_TRAIN_OPEN]).text,
           haul_format_bytes(used[HAUL_TRAIN_TUNED]).text,
           haul_format_bytes(used[HAUL_TRAIN_ALLOCATED]).text,
           haul_format_bytes(used[HAUL_TRAIN_RUNNING]).text, haul_format_bytes(planned).text,
           100 * fabs(difference) / most, difference < 0 ? "less" : "more");
}

/* Paths of files that belong together in one directory. */
#ifndef HAUL_CHECKPOINT_PATH_H
#define HAUL_CHECKPOINT_PATH_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { HAUL_PATH_BYTES = 1024 };

/* "directory/name"; HAUL_ERROR_CREATE when it does not fit. */
haul_status haul_path_join(char out[HAUL_PATH_BYTES], const char *directory, const char *name);

/* Creates directory/name with this content and syncs it. */
haul_status haul_path_write(const char *directory, const char *name, const void *data,
                            int64_t bytes);

/* Removes a file or directory after a failure, whose message stays. */
void haul_path_clear(const char *path);

/* True for a name that stays inside its directory: not empty, no slash or control character, no
 * leading dot. What a file says about other files is checked with this. */
bool haul_path_is_plain_name(const char *name);

/* False when text holds control characters, which a terminal would obey. */
bool haul_text_is_printable(const char *text);

/* What a file said, for a message: the text itself, or "?" when it is NULL or not printable. */
const char *haul_text_for_message(const char *text);

#endif

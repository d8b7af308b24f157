/* A config as the config.json of a run: one key a field, named as the field. */
#ifndef HAUL_CONFIG_JSON_H
#define HAUL_CONFIG_JSON_H

#include "base/string.h"
#include "config/config.h"

/* Appends every setting as one JSON object. HAUL_ERROR_USAGE for a text that is no UTF-8. */
haul_status haul_config_to_json(const haul_config *config, haul_string *out);

/* Sets what the object in `text` says, with HAUL_SOURCE_FILE; absent keys and null leave a field
 * alone. HAUL_ERROR_DATA, with `name` and the line or key, for what no haul has written. */
haul_status haul_config_from_json(haul_config *config, const char *text, int64_t length,
                                  const char *name);

/* The same from a file; HAUL_ERROR_NO_INPUT when it cannot be read. */
haul_status haul_config_read_json(haul_config *config, const char *path);

#endif

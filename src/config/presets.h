#ifndef HAUL_CONFIG_PRESETS_H
#define HAUL_CONFIG_PRESETS_H

#include "config/config.h"

enum { HAUL_PRESET_SETTINGS_MAX = 32 };

typedef struct haul_preset_setting {
    const char *flag;
    const char *value; /* "true" for a switch */
} haul_preset_setting;

typedef struct haul_preset {
    const char *name;
    const char *summary;
    haul_preset_setting settings[HAUL_PRESET_SETTINGS_MAX + 1]; /* then a NULL flag */
} haul_preset;

/* Preset `index` from 0, NULL after the last one. */
const haul_preset *haul_preset_at(int64_t index);

/* Sets what the preset says wherever nothing stronger has been said. A setting is left out, too,
 * when the command line chose its rival (--train-samples against --train-iters).
 * HAUL_ERROR_USAGE for an unknown name, with the known ones as the hint. */
haul_status haul_preset_apply(haul_config *config, const char *name);

#endif

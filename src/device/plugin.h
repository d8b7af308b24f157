/* A plugin is a shared library beside the program that brings one more backend, so that the program
 * itself depends on no vendor's libraries. It exports haul_plugin_open and is never unloaded. */
#ifndef HAUL_DEVICE_PLUGIN_H
#define HAUL_DEVICE_PLUGIN_H

#include "device/device.h"

/* What the program lends a plugin, whose copy of base/ has error messages of its own. */
typedef struct haul_plugin_host {
    haul_status (*fail)(haul_status status, const char *message);
    void (*hint)(const char *text);
} haul_plugin_host;

/* `build` is the caller's HAUL_BUILD_ID, a hash of the headers that both were compiled with:
 * another one is refused. */
typedef haul_status haul_plugin_open_function(const char *build, const haul_plugin_host *host,
                                              const haul_backend **out);

/* Loads libhaul_NAME.so from the program's directory or ../lib/haul beside it.
 * HAUL_ERROR_UNAVAILABLE, with the reason, when it is missing or of another build. */
haul_status haul_plugin_load(const char *name, const haul_backend **out);

#endif

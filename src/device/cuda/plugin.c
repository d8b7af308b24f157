#include "device/cuda/plugin.h"

#include <stdio.h>
#include <string.h>

static const haul_plugin_host *host; /* set once, before any other call */

haul_status haul_cuda_report(haul_status status) {
    if (status != HAUL_OK) {
        host->fail(status, haul_error_message());
        if (haul_error_hint()[0] != 0) {
            host->hint(haul_error_hint());
        }
    }
    return status;
}

__attribute__((visibility("default"))) haul_plugin_open_function haul_plugin_open;

haul_status haul_plugin_open(const char *build, const haul_plugin_host *lent,
                             const haul_backend **out) {
    host = lent;
    if (strcmp(build, HAUL_BUILD_ID) != 0) {
        haul_fail(HAUL_ERROR_UNAVAILABLE,
                  "libhaul_cuda.so is of another build: %.12s, must be %.12s", HAUL_BUILD_ID,
                  build);
        haul_hint("install the plugin that was built with this program");
        return haul_cuda_report(HAUL_ERROR_UNAVAILABLE);
    }
    *out = &haul_cuda_backend;
    return HAUL_OK;
}

#include "device/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static haul_status fail(haul_status status, const char *message) {
    return haul_fail(status, "%s", message);
}

static void hint(const char *text) {
    haul_hint("%s", text);
}

static haul_status unavailable(const char *name, const char *reason) {
    haul_fail(HAUL_ERROR_UNAVAILABLE, "the device %s cannot be used: %s", name, reason);
    haul_hint("use --device cpu, or build the plugin where nvcc is installed: make cuda");
    return HAUL_ERROR_UNAVAILABLE;
}

/* The directory of the running program, with a slash at its end. */
static bool program_directory(char directory[PATH_BYTES]) {
    ssize_t length = readlink("/proc/self/exe", directory, PATH_BYTES - 1);
    if (length <= 0) {
        return false;
    }
    directory[length] = 0;
    char *slash = strrchr(directory, '/');
    if (slash == NULL) {
        return false;
    }
    slash[1] = 0;
    return true;
}

static void *open_library(const char *name) {
    static const char *const places[] = {"", "../lib/haul/"};
    char directory[PATH_BYTES], path[PATH_BYTES + 128];
    if (!program_directory(directory)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s%slibhaul_%s.so", directory, places[i], name);
        if (access(path, R_OK) == 0) {
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return NULL;
}

haul_status haul_plugin_load(const char *name, const haul_backend **out) {
    static const haul_plugin_host host = {.fail = fail, .hint = hint};
    dlerror();
    void *library = open_library(name);
    if (library == NULL) {
        const char *reason = dlerror();
        return unavailable(name, reason != NULL ? reason : "this build has no plugin for it");
    }
    void *symbol = dlsym(library, "haul_plugin_open");
    if (symbol == NULL) {
        return unavailable(name, "its plugin has no haul_plugin_open");
    }
    haul_plugin_open_function *open;
    memcpy(&open, &symbol, sizeof open);
    return open(HAUL_BUILD_ID, &host, out);
}

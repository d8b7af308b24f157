#include "fuzzing.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void fuzz_require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "fuzz: broken promise: %s\n", what);
        abort();
    }
}

void fuzz_require_ok(haul_status status) {
    if (status != HAUL_OK) {
        fuzz_require(false, haul_error_message());
    }
}

bool fuzz_accepted(haul_status status) {
    if (status == HAUL_OK) {
        return true;
    }
    fuzz_require(haul_error_message()[0] != '\0', "a failure has a message");
    fuzz_require(status != HAUL_ERROR_INTERNAL, "no input shows a bug of haul");
    fuzz_require(status != HAUL_ERROR_MEMORY, "no small input takes all memory");
    haul_fail(HAUL_OK, "%s", ""); /* so that the next failure needs a message of its own */
    return false;
}

static char directory[FUZZ_PATH_BYTES];
static pid_t owner;

static void remove_directory(void) {
    if (getpid() == owner) {
        haul_file_remove(directory);
    }
}

const char *fuzz_path(const char *name, char path[FUZZ_PATH_BYTES]) {
    if (directory[0] == '\0') {
        const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(directory, sizeof directory, "%s/haul-fuzz-XXXXXX", base);
        fuzz_require(mkdtemp(directory) != NULL, "a scratch directory can be made");
        owner = getpid();
        atexit(remove_directory);
    }
    int length = snprintf(path, FUZZ_PATH_BYTES, "%s/%s", directory, name);
    fuzz_require(length < FUZZ_PATH_BYTES, "the path is short");
    return path;
}

const char *fuzz_put(const char *name, const void *data, size_t size, char path[FUZZ_PATH_BYTES]) {
    int file = open(fuzz_path(name, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(file >= 0, "a scratch file can be made");
    fuzz_require(write(file, data, size) == (ssize_t)size, "a scratch file can be written");
    close(file);
    return path;
}

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/retain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct haul_checkpoint_writer {
    int descriptor;
};

/* What the holder of the lock wrote about itself. */
static void read_holder(int descriptor, char out[256]) {
    ssize_t count = pread(descriptor, out, 255, 0);
    out[count > 0 ? count : 0] = '\0';
    if (count <= 0 || !haul_text_is_printable(out)) {
        haul_text_copy(out, 256, "another job");
    }
}

static haul_status write_holder(int descriptor, const char *path) {
    char host[128] = "", text[256];
    gethostname(host, sizeof host - 1);
    int length = snprintf(text, sizeof text, "process %ld on %s", (long)getpid(), host);
    if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text, (size_t)length, 0) != length) {
        return haul_fail(HAUL_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    return HAUL_OK;
}

/* An open file description lock goes with the descriptor, so a killed job never leaves one, and
 * two holders in one process exclude each other too. */
static haul_status take_lock(int descriptor, const char *directory, const char *path) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(descriptor, F_OFD_SETLK, &lock) == 0) {
        return write_holder(descriptor, path);
    }
    if (errno == EAGAIN || errno == EACCES) {
        char holder[256];
        read_holder(descriptor, holder);
        haul_fail(HAUL_ERROR_CREATE, "%s is in use: %s saves checkpoints there", directory, holder);
        haul_hint("wait until it ends, or give another directory with --save");
        return HAUL_ERROR_CREATE;
    }
    haul_fail(HAUL_ERROR_CREATE, "cannot lock %s: %s", path, strerror(errno));
    haul_hint("give a directory on a file system with locks with --save");
    return HAUL_ERROR_CREATE;
}

static haul_status open_lock(const char *directory, int *descriptor) {
    char path[HAUL_PATH_BYTES];
    HAUL_TRY(haul_directory_create(directory));
    HAUL_TRY(haul_path_join(path, directory, HAUL_CHECKPOINT_LOCK));
    *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (*descriptor < 0) {
        haul_fail(HAUL_ERROR_CREATE, "cannot create %s: %s", path, strerror(errno));
        haul_hint("check the permissions, or give another directory with --save");
        return HAUL_ERROR_CREATE;
    }
    return take_lock(*descriptor, directory, path);
}

haul_status haul_checkpoint_lock(const char *directory, haul_checkpoint_writer **out) {
    haul_checkpoint_writer *writer = haul_calloc(1, sizeof *writer);
    if (writer == NULL) {
        return HAUL_ERROR_MEMORY;
    }
    writer->descriptor = -1;
    haul_status status = open_lock(directory, &writer->descriptor);
    if (status == HAUL_OK) {
        status = haul_checkpoint_clean(directory);
    }
    if (status != HAUL_OK) {
        haul_checkpoint_unlock(writer);
        return status;
    }
    *out = writer;
    return HAUL_OK;
}

void haul_checkpoint_unlock(haul_checkpoint_writer *writer) {
    if (writer != NULL) {
        if (writer->descriptor >= 0) {
            close(writer->descriptor);
        }
        free(writer);
    }
}

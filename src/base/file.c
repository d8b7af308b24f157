#include "base/file.h"

#include "base/fault.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

static haul_status fail_errno(haul_status status, const char *verb, const char *path) {
    int code = errno;
    haul_fail(status, "cannot %s %s: %s", verb, path, strerror(code));
    if (code == ENOSPC || code == EDQUOT) {
        haul_hint("free some space on that disk, or choose another directory");
    } else if (code == EACCES || code == EROFS || code == EPERM) {
        haul_hint("check the permissions, or choose another directory");
    }
    return status;
}

bool haul_file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

haul_status haul_file_map_open(const char *path, haul_file_map *out) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return fail_errno(HAUL_ERROR_NO_INPUT, "open", path);
    }
    haul_status status = HAUL_OK;
    struct stat info;
    void *data = NULL;
    if (fstat(descriptor, &info) != 0) {
        status = fail_errno(HAUL_ERROR_NO_INPUT, "open", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = haul_fail(HAUL_ERROR_NO_INPUT, "%s is not a regular file", path);
    } else if (info.st_size > 0) {
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED) {
            status = fail_errno(HAUL_ERROR_IO, "map", path);
        }
    }
    close(descriptor);
    if (status == HAUL_OK) {
        *out = (haul_file_map){.data = data, .bytes = info.st_size};
    }
    return status;
}

void haul_file_map_close(haul_file_map *map) {
    if (map->data != NULL) {
        munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    }
    *map = (haul_file_map){0};
}

haul_status haul_file_read(const char *path, haul_string *out) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return fail_errno(HAUL_ERROR_NO_INPUT, "open", path);
    }
    char buffer[65536];
    size_t count;
    while ((count = fread(buffer, 1, sizeof buffer, file)) > 0) {
        haul_string_append(out, buffer, (int64_t)count);
    }
    haul_status status = ferror(file) ? fail_errno(HAUL_ERROR_IO, "read", path) : HAUL_OK;
    fclose(file);
    return status == HAUL_OK ? haul_string_status(out) : status;
}

haul_status haul_file_create(const char *path, haul_file_writer *out) {
    *out = (haul_file_writer){.descriptor = -1};
    haul_text_copy(out->path, sizeof out->path, path);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) {
        return fail_errno(HAUL_ERROR_CREATE, "create", path);
    }
    out->descriptor = descriptor;
    return HAUL_OK;
}

haul_status haul_file_write(haul_file_writer *writer, const void *data, int64_t bytes) {
    const char *at = data;
    if (haul_fault_hit(HAUL_FAULT_WRITE)) {
        errno = ENOSPC;
        return fail_errno(HAUL_ERROR_IO, "write", writer->path);
    }
    while (bytes > 0) {
        ssize_t count = write(writer->descriptor, at, (size_t)haul_min(bytes, 1 << 24));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return fail_errno(HAUL_ERROR_IO, "write", writer->path);
        }
        at += count;
        bytes -= count;
        writer->bytes += count;
    }
    return HAUL_OK;
}

haul_status haul_file_finish(haul_file_writer *writer) {
    haul_status status = HAUL_OK;
    if (haul_fault_hit(HAUL_FAULT_SYNC)) {
        errno = EIO;
        status = fail_errno(HAUL_ERROR_IO, "sync", writer->path);
    } else if (fsync(writer->descriptor) != 0) {
        status = fail_errno(HAUL_ERROR_IO, "sync", writer->path);
    }
    if (close(writer->descriptor) != 0 && status == HAUL_OK) {
        status = fail_errno(HAUL_ERROR_IO, "close", writer->path);
    }
    writer->descriptor = -1;
    return status;
}

void haul_file_abandon(haul_file_writer *writer) {
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
        writer->descriptor = -1;
    }
}

haul_status haul_directory_sync(const char *path) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        return fail_errno(HAUL_ERROR_IO, "open", path);
    }
    haul_status status = HAUL_OK;
    if (fsync(descriptor) != 0 && errno != EINVAL) {
        status = fail_errno(HAUL_ERROR_IO, "sync", path);
    }
    close(descriptor);
    return status;
}

haul_status haul_file_rename(const char *from, const char *to) {
    char parent[PATH_BYTES];
    if (strlen(to) >= sizeof parent) {
        return haul_fail(HAUL_ERROR_CREATE, "a path is longer than %d bytes: %s", PATH_BYTES - 1,
                         to);
    }
    haul_text_copy(parent, sizeof parent, to);
    if (haul_fault_hit(HAUL_FAULT_RENAME)) {
        errno = EIO;
        return fail_errno(HAUL_ERROR_IO, "rename", to);
    }
    if (rename(from, to) != 0) {
        return fail_errno(HAUL_ERROR_CREATE, "rename", to);
    }
    return haul_directory_sync(dirname(parent));
}

haul_status haul_file_replace(const char *path, const void *data, int64_t bytes) {
    char temporary[PATH_BYTES];
    if (snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid()) >=
        (int)sizeof temporary) {
        return haul_fail(HAUL_ERROR_CREATE, "a path is longer than %d bytes: %s", PATH_BYTES - 1,
                         path);
    }
    haul_file_writer writer;
    HAUL_TRY(haul_file_create(temporary, &writer));
    haul_status status = haul_file_write(&writer, data, bytes);
    if (status == HAUL_OK) {
        status = haul_file_finish(&writer);
    }
    haul_file_abandon(&writer);
    if (status == HAUL_OK) {
        status = haul_file_rename(temporary, path);
    }
    if (status != HAUL_OK) {
        unlink(temporary);
    }
    return status;
}

haul_status haul_file_check_target(const char *path) {
    char directory[PATH_BYTES];
    struct stat info;
    if (path == NULL) {
        return HAUL_OK;
    }
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        return haul_fail(HAUL_ERROR_CREATE, "%s is a directory, not a file to write", path);
    }
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    if (length >= PATH_BYTES) {
        return haul_fail(HAUL_ERROR_CREATE, "a path is longer than %d bytes: %s", PATH_BYTES - 1,
                         path);
    }
    snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : path);
    if (access(directory, W_OK | X_OK) != 0) {
        bool absent = errno == ENOENT;
        fail_errno(HAUL_ERROR_CREATE, "write into", directory);
        if (absent) {
            haul_hint("mkdir -p %s", directory);
        }
        return HAUL_ERROR_CREATE;
    }
    return HAUL_OK;
}

haul_status haul_directory_create(const char *path) {
    char partial[PATH_BYTES];
    if (strlen(path) >= sizeof partial) {
        return haul_fail(HAUL_ERROR_CREATE, "a path is longer than %d bytes: %s", PATH_BYTES - 1,
                         path);
    }
    haul_text_copy(partial, sizeof partial, path);
    for (char *at = partial; *at != '\0'; at++) {
        if (*at == '/' && at > partial) {
            *at = '\0';
            if (mkdir(partial, 0755) != 0 && errno != EEXIST) {
                return fail_errno(HAUL_ERROR_CREATE, "create", partial);
            }
            *at = '/';
        }
    }
    struct stat info;
    if (mkdir(partial, 0755) != 0 && errno != EEXIST) {
        return fail_errno(HAUL_ERROR_CREATE, "create", path);
    }
    if (stat(partial, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return haul_fail(HAUL_ERROR_CREATE, "cannot create %s: a file has that name", path);
    }
    return HAUL_OK;
}

static haul_status remove_child(void *context, const char *name) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", (const char *)context, name) >= (int)sizeof path) {
        return haul_fail(HAUL_ERROR_IO, "a path is longer than %d bytes: %s", PATH_BYTES - 1, path);
    }
    return haul_file_remove(path);
}

haul_status haul_file_remove(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? HAUL_OK : fail_errno(HAUL_ERROR_IO, "remove", path);
    }
    if (S_ISDIR(info.st_mode)) {
        char copy[PATH_BYTES];
        haul_text_copy(copy, sizeof copy, path);
        HAUL_TRY(haul_directory_list(path, remove_child, copy));
        if (rmdir(path) != 0) {
            return fail_errno(HAUL_ERROR_IO, "remove", path);
        }
        return HAUL_OK;
    }
    return unlink(path) == 0 ? HAUL_OK : fail_errno(HAUL_ERROR_IO, "remove", path);
}

haul_status haul_directory_list(const char *path,
                                haul_status (*visit)(void *context, const char *name),
                                void *context) {
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        return fail_errno(HAUL_ERROR_NO_INPUT, "list", path);
    }
    haul_status status = HAUL_OK;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (status == HAUL_OK && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            status = visit(context, name);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

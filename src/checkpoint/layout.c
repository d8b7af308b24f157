#include "checkpoint/layout.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "iter_";
enum { PREFIX_LENGTH = 5, MAX_DIGITS = 18 };

haul_status haul_layout_path(char out[HAUL_PATH_BYTES], const char *directory, int64_t iteration,
                             const char *suffix) {
    char name[128];
    snprintf(name, sizeof name, "%s%07lld%s", prefix, (long long)iteration, suffix);
    return haul_path_join(out, directory, name);
}

bool haul_layout_parse(const char *name, int64_t *iteration, const char **suffix) {
    if (strncmp(name, prefix, PREFIX_LENGTH) != 0) {
        return false;
    }
    const char *digits = name + PREFIX_LENGTH;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > MAX_DIGITS) {
        return false;
    }
    *iteration = strtoll(digits, NULL, 10);
    *suffix = digits + count;
    return true;
}

typedef struct candidate_list {
    const char *directory;
    int64_t iteration;
    haul_checkpoint_candidate *items;
    int64_t count;
    int64_t capacity;
} candidate_list;

static haul_status add_candidate(candidate_list *list, const char *path, int64_t iteration,
                                 bool old) {
    haul_status status =
        haul_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items);
    HAUL_TRY(status);
    haul_checkpoint_candidate *item = &list->items[list->count++];
    item->iteration = iteration;
    item->old = old;
    haul_text_copy(item->path, sizeof item->path, path);
    return HAUL_OK;
}

static haul_status visit(void *context, const char *name) {
    candidate_list *list = context;
    int64_t iteration = -1;
    const char *suffix = NULL;
    char path[HAUL_PATH_BYTES];
    if (!haul_layout_parse(name, &iteration, &suffix) ||
        (suffix[0] != '\0' && strcmp(suffix, ".old") != 0) ||
        (list->iteration >= 0 && iteration != list->iteration)) {
        return HAUL_OK;
    }
    HAUL_TRY(haul_path_join(path, list->directory, name));
    return add_candidate(list, path, iteration, suffix[0] != '\0');
}

static int newest_first(const void *a, const void *b) {
    const haul_checkpoint_candidate *left = a, *right = b;
    if (left->iteration != right->iteration) {
        return left->iteration > right->iteration ? -1 : 1;
    }
    return (int)left->old - (int)right->old;
}

/* A directory that was copied elsewhere under another name is still a checkpoint. */
static bool is_checkpoint_itself(const char *path, int64_t *iteration) {
    const char *slash = strrchr(path, '/');
    const char *suffix = "";
    char commit[HAUL_PATH_BYTES];
    *iteration = -1;
    bool named = haul_layout_parse(slash != NULL ? slash + 1 : path, iteration, &suffix);
    return named || (haul_path_join(commit, path, HAUL_CHECKPOINT_COMMIT) == HAUL_OK &&
                     haul_file_exists(commit));
}

haul_status haul_layout_candidates(const char *path, int64_t iteration,
                                   haul_checkpoint_candidate **out, int64_t *count) {
    char trimmed[HAUL_PATH_BYTES];
    haul_text_copy(trimmed, sizeof trimmed, path);
    for (size_t end = strlen(trimmed); end > 1 && trimmed[end - 1] == '/'; end--) {
        trimmed[end - 1] = '\0';
    }
    candidate_list list = {.directory = trimmed, .iteration = iteration};
    int64_t own = -1;
    haul_status status = HAUL_OK;
    if (!haul_file_exists(trimmed)) {
        status = haul_fail(HAUL_ERROR_NO_INPUT, "the checkpoint directory %s does not exist", path);
    } else if (is_checkpoint_itself(trimmed, &own)) {
        status = add_candidate(&list, trimmed, own, false);
    } else {
        status = haul_directory_list(trimmed, visit, &list);
    }
    if (status == HAUL_OK && list.count == 0 && iteration >= 0) {
        status = haul_fail(HAUL_ERROR_NO_INPUT, "%s holds no checkpoint of iteration %lld", path,
                           (long long)iteration);
        haul_hint("haul checkpoint list %s", path);
    } else if (status == HAUL_OK && list.count == 0) {
        status = haul_fail(HAUL_ERROR_NO_INPUT, "%s holds no checkpoint", path);
    }
    if (status != HAUL_OK) {
        free(list.items);
        return status;
    }
    if (list.count > 1) {
        qsort(list.items, (size_t)list.count, sizeof *list.items, newest_first);
    }
    *out = list.items;
    *count = list.count;
    return HAUL_OK;
}

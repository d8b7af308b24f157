/* ctest: unit */
#include "testing.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

static const char *path_of(char path[PATH_BYTES], const char *name) {
    snprintf(path, PATH_BYTES, "%s/%s", haul_test_directory(), name);
    return path;
}

static void assert_content(const char *path, const char *expected) {
    haul_string content = {0};
    assert_ok(haul_file_read(path, &content));
    assert_int_equal(content.length, strlen(expected));
    assert_memory_equal(content.data != NULL ? content.data : "", expected, strlen(expected));
    haul_string_deinit(&content);
}

static haul_status append_name(void *names, const char *name) {
    haul_string_append_format(names, "%s ", name);
    return HAUL_OK;
}

static void assert_names(const char *directory, const char *expected) {
    haul_string names = {0};
    haul_string_append_text(&names, "");
    assert_ok(haul_directory_list(directory, append_name, &names));
    assert_string_equal(names.data, expected);
    haul_string_deinit(&names);
}

static void writer_counts_and_reader_sees(void **state) {
    (void)state;
    char path[PATH_BYTES];
    haul_file_writer writer;
    assert_false(haul_file_exists(path_of(path, "written")));
    assert_ok(haul_file_create(path, &writer));
    assert_ok(haul_file_write(&writer, "abc", 3));
    assert_ok(haul_file_write(&writer, "", 0));
    assert_ok(haul_file_write(&writer, "def", 3));
    assert_int_equal(writer.bytes, 6);
    assert_ok(haul_file_finish(&writer));
    haul_file_abandon(&writer);
    assert_true(haul_file_exists(path));
    assert_content(path, "abcdef");
}

static void reads_append_large_files(void **state) {
    (void)state;
    char path[PATH_BYTES];
    enum { BYTES = 200001 };
    char *bytes = haul_calloc(BYTES, 1);
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (char)(i * 7);
    }
    assert_ok(haul_file_replace(path_of(path, "large"), bytes, BYTES));
    haul_string content = {0};
    haul_string_append_text(&content, "+");
    assert_ok(haul_file_read(path, &content));
    assert_int_equal(content.length, BYTES + 1);
    assert_memory_equal(content.data + 1, bytes, BYTES);
    haul_string_deinit(&content);
    haul_file_map map;
    assert_ok(haul_file_map_open(path, &map));
    assert_int_equal(map.bytes, BYTES);
    assert_memory_equal(map.data, bytes, BYTES);
    haul_file_map_close(&map);
    assert_null(map.data);
    free(bytes);
}

static void maps_of_odd_files(void **state) {
    (void)state;
    char path[PATH_BYTES];
    haul_file_map map;
    assert_ok(haul_file_replace(path_of(path, "empty"), NULL, 0));
    assert_ok(haul_file_map_open(path, &map));
    assert_null(map.data);
    assert_int_equal(map.bytes, 0);
    haul_file_map_close(&map);
    haul_test_assert_fails(haul_file_map_open(haul_test_directory(), &map), HAUL_ERROR_NO_INPUT,
                           "is not a regular file");
    haul_test_assert_fails(haul_file_map_open(path_of(path, "absent"), &map), HAUL_ERROR_NO_INPUT,
                           "absent: No such file");
    haul_string content = {0};
    haul_test_assert_fails(haul_file_read(path, &content), HAUL_ERROR_NO_INPUT, "cannot open");
    haul_test_assert_fails(haul_file_read(haul_test_directory(), &content), HAUL_ERROR_IO,
                           "cannot read");
    haul_string_deinit(&content);
}

static void a_full_disk_is_named(void **state) {
    (void)state;
    haul_file_writer writer;
    assert_ok(haul_file_create("/dev/full", &writer));
    haul_test_assert_fails(haul_file_write(&writer, "x", 1), HAUL_ERROR_IO,
                           "cannot write /dev/full: No space left");
    assert_non_null(strstr(haul_error_hint(), "free some space"));
    haul_file_abandon(&writer);
    char path[PATH_BYTES];
    haul_test_assert_fails(haul_file_create(path_of(path, "absent/file"), &writer),
                           HAUL_ERROR_CREATE, "cannot create");
    haul_file_abandon(&writer);
}

static void a_failed_replace_leaves_the_old_file(void **state) {
    (void)state;
    static const haul_fault_kind kinds[] = {HAUL_FAULT_WRITE, HAUL_FAULT_SYNC, HAUL_FAULT_RENAME};
    char directory[PATH_BYTES], path[PATH_BYTES];
    assert_ok(haul_directory_create(path_of(directory, "replace")));
    assert_ok(haul_file_replace(path_of(path, "replace/file"), "old", 3));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        haul_fault_arm(kinds[i], 1, false);
        assert_int_equal(haul_file_replace(path, "new", 3), HAUL_ERROR_IO);
        assert_content(path, "old");
        assert_names(directory, "file ");
    }
    assert_ok(haul_file_replace(path, "newer", 5));
    assert_content(path, "newer");
    assert_names(directory, "file ");
}

static void a_killed_replace_leaves_the_old_file(void **state) {
    (void)state;
    static const haul_fault_kind kinds[] = {HAUL_FAULT_WRITE, HAUL_FAULT_SYNC, HAUL_FAULT_RENAME};
    char path[PATH_BYTES];
    assert_ok(haul_file_replace(path_of(path, "killed"), "old", 3));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pid_t child = fork();
        if (child == 0) {
            haul_fault_arm(kinds[i], 1, true);
            haul_file_replace(path, "new", 3);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_content(path, "old");
    }
}

static void directories_come_with_their_parents(void **state) {
    (void)state;
    char path[PATH_BYTES];
    struct stat info;
    assert_ok(haul_directory_create(path_of(path, "a/b//c/")));
    assert_ok(haul_directory_create(path));
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_ok(haul_directory_sync(path));
    assert_ok(haul_file_replace(path_of(path, "a/file"), "", 0));
    haul_test_assert_fails(haul_directory_create(path), HAUL_ERROR_CREATE, "a file has that name");
    haul_test_assert_fails(haul_directory_create(path_of(path, "a/file/d")), HAUL_ERROR_CREATE,
                           "cannot create");
    haul_test_assert_fails(haul_directory_create(""), HAUL_ERROR_CREATE, "cannot create");
}

static haul_status refuse(void *calls, const char *name) {
    ++*(int *)calls;
    return haul_fail(HAUL_ERROR_DATA, "refused %s", name);
}

static void lists_are_sorted_and_stop_at_a_failure(void **state) {
    (void)state;
    char directory[PATH_BYTES], path[PATH_BYTES];
    assert_ok(haul_directory_create(path_of(directory, "list")));
    assert_names(directory, "");
    static const char *const names[] = {"list/b", "list/a10", "list/.hidden", "list/a2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_ok(haul_file_replace(path_of(path, names[i]), "", 0));
    }
    assert_names(directory, ".hidden a10 a2 b ");
    int calls = 0;
    haul_test_assert_fails(haul_directory_list(directory, refuse, &calls), HAUL_ERROR_DATA,
                           "refused .hidden");
    assert_int_equal(calls, 1);
    haul_test_assert_fails(haul_directory_list(path_of(path, "absent"), refuse, &calls),
                           HAUL_ERROR_NO_INPUT, "cannot list");
}

static void removal_is_deep_and_follows_no_link(void **state) {
    (void)state;
    char kept[PATH_BYTES], directory[PATH_BYTES], path[PATH_BYTES];
    assert_ok(haul_directory_create(path_of(kept, "kept")));
    assert_ok(haul_file_replace(path_of(path, "kept/file"), "x", 1));
    assert_ok(haul_directory_create(path_of(path, "removed/deep/deeper")));
    assert_ok(haul_file_replace(path_of(path, "removed/deep/file"), "x", 1));
    assert_int_equal(symlink(kept, path_of(path, "removed/link")), 0);
    assert_ok(haul_file_remove(path_of(directory, "removed")));
    assert_false(haul_file_exists(directory));
    assert_content(path_of(path, "kept/file"), "x");
    assert_ok(haul_file_remove(directory));
    assert_ok(haul_file_remove(path));
    assert_names(kept, "");
}

static void long_paths_are_refused(void **state) {
    (void)state;
    char path[3000], other[PATH_BYTES];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    haul_test_assert_fails(haul_file_replace(path, "", 0), HAUL_ERROR_CREATE,
                           "a path is longer than 1023 bytes");
    haul_test_assert_fails(haul_directory_create(path), HAUL_ERROR_CREATE,
                           "a path is longer than 1023 bytes");
    assert_ok(haul_file_replace(path_of(other, "source"), "x", 1));
    haul_test_assert_fails(haul_file_rename(other, path), HAUL_ERROR_CREATE,
                           "a path is longer than 1023 bytes");
    assert_content(other, "x");
}

static void targets_are_checked_before_the_work(void **state) {
    (void)state;
    char path[PATH_BYTES], long_path[3000];
    assert_ok(haul_directory_create(path_of(path, "targets")));
    haul_test_assert_fails(haul_file_check_target(path), HAUL_ERROR_CREATE, "is a directory");
    assert_ok(haul_file_check_target(path_of(path, "targets/new.json")));
    assert_false(haul_file_exists(path));
    haul_test_assert_fails(haul_file_check_target(path_of(path, "targets/absent/new.json")),
                           HAUL_ERROR_CREATE, "No such file or directory");
    assert_non_null(strstr(haul_error_hint(), "mkdir -p"));
    assert_ok(haul_file_check_target("beside-me.json"));
    assert_ok(haul_file_check_target(NULL));
    memset(long_path, 'p', sizeof long_path - 1);
    long_path[sizeof long_path - 3] = '/';
    long_path[sizeof long_path - 1] = '\0';
    haul_test_assert_fails(haul_file_check_target(long_path), HAUL_ERROR_CREATE,
                           "a path is longer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_counts_and_reader_sees),
        cmocka_unit_test(reads_append_large_files),
        cmocka_unit_test(maps_of_odd_files),
        cmocka_unit_test(a_full_disk_is_named),
        cmocka_unit_test(a_failed_replace_leaves_the_old_file),
        cmocka_unit_test(a_killed_replace_leaves_the_old_file),
        cmocka_unit_test(directories_come_with_their_parents),
        cmocka_unit_test(lists_are_sorted_and_stop_at_a_failure),
        cmocka_unit_test(removal_is_deep_and_follows_no_link),
        cmocka_unit_test(long_paths_are_refused),
        cmocka_unit_test(targets_are_checked_before_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

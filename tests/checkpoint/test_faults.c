/* Saves that fail or die at every write, sync, rename and allocation. */
#include "fixture.h"

#include "base/fault.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OLDER = 10, NEWER = 20 };

/* What is being saved over what: a new iteration, the same one again, and one that ends the life
 * of another. */
static const struct scenario {
    const char *name;
    int64_t iteration;
    int64_t keep;
} scenarios[] = {{"new", NEWER, 0}, {"again", OLDER, 0}, {"last", NEWER, 1}};

enum { SCENARIOS = 3, NTH_LIMIT = 500 };

static haul_status count_leftover(void *context, const char *name) {
    int *count = context;
    *count += strstr(name, ".tmp-") != NULL || strstr(name, ".trash-") != NULL ||
              strstr(name, ".old") != NULL;
    return HAUL_OK;
}

static int leftovers(const char *save) {
    int count = 0;
    assert_ok(haul_directory_list(save, count_leftover, &count));
    return count;
}

/* The older or the newer checkpoint is found, whole; the older one too where it has to stay. */
static void check_survivors(const char *save, const struct scenario *scenario) {
    int64_t newest = fixture_newest(save);
    assert_true(newest == OLDER || newest == scenario->iteration);
    if (scenario->keep == 0) {
        haul_checkpoint *checkpoint = NULL;
        assert_ok(haul_checkpoint_find(save, OLDER, &checkpoint, NULL));
        fixture_check(checkpoint);
        haul_checkpoint_close(checkpoint);
    }
}

/* The next job cleans up and saves as if nothing had happened. */
static void check_recovery(const char *save) {
    assert_ok(fixture_save(save, NEWER + 1, 1));
    assert_int_equal(leftovers(save), 0);
    assert_int_equal(fixture_newest(save), NEWER + 1);
}

/* Whether a fault that was armed for the nth call is still waiting; disarms it. */
static bool fault_waits(haul_fault_kind kind, long nth) {
    bool waits = false;
    for (long i = 0; i < nth; i++) {
        waits = haul_fault_hit(kind) || waits;
    }
    haul_fault_arm(kind, 0, false);
    return waits;
}

static const char *fresh_directory(char save[FIXTURE_PATH], const char *name) {
    fixture_directory(save, name);
    assert_ok(haul_file_remove(save));
    assert_ok(fixture_save(save, OLDER, 0));
    return save;
}

/* Fails the nth call for n = 1, 2, ... until a save needs fewer; returns how many there were. */
static long sweep_failures(const struct scenario *scenario, haul_fault_kind kind) {
    for (long nth = 1; nth < NTH_LIMIT; nth++) {
        char save[FIXTURE_PATH];
        fresh_directory(save, scenario->name);
        haul_fault_arm(kind, nth, false);
        haul_status status = fixture_save(save, scenario->iteration, scenario->keep);
        if (fault_waits(kind, nth)) {
            assert_ok(status);
            return nth - 1;
        }
        if (kind == HAUL_FAULT_WRITE) {
            haul_test_assert_fails(status, HAUL_ERROR_IO, "No space left on device");
            assert_non_null(strstr(haul_error_hint(), "free some space"));
            assert_int_equal(leftovers(save), 0);
        } else if (kind == HAUL_FAULT_ALLOC) {
            assert_true(status == HAUL_OK || status == HAUL_ERROR_MEMORY);
        } else {
            haul_test_assert_fails(status, HAUL_ERROR_IO, "Input/output error");
        }
        check_survivors(save, scenario);
        check_recovery(save);
    }
    return NTH_LIMIT;
}

static void test_every_failure_leaves_the_older_checkpoint(void **state) {
    (void)state;
    static const struct {
        haul_fault_kind kind;
        long at_least;
    } kinds[] = {{HAUL_FAULT_WRITE, 12},
                 {HAUL_FAULT_SYNC, 8},
                 {HAUL_FAULT_RENAME, 2},
                 {HAUL_FAULT_ALLOC, 5}};
    for (int s = 0; s < SCENARIOS; s++) {
        for (int k = 0; k < 4; k++) {
            long calls = sweep_failures(&scenarios[s], kinds[k].kind);
            assert_true(calls >= kinds[k].at_least && calls < NTH_LIMIT);
        }
    }
}

/* Saves in a child that dies at the nth call; false when it lived to the end. */
static bool save_and_die(const char *save, const struct scenario *scenario, haul_fault_kind kind,
                         long nth) {
    pid_t child = fork();
    if (child == 0) {
        haul_fault_arm(kind, nth, true);
        _exit(fixture_save(save, scenario->iteration, scenario->keep) == HAUL_OK ? 0 : 1);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    if (WIFSIGNALED(result)) {
        assert_int_equal(WTERMSIG(result), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(result), 0);
    return false;
}

static void test_every_kill_leaves_a_checkpoint(void **state) {
    (void)state;
    static const haul_fault_kind kinds[] = {HAUL_FAULT_WRITE, HAUL_FAULT_SYNC, HAUL_FAULT_RENAME};
    for (int s = 0; s < SCENARIOS; s++) {
        for (int k = 0; k < 3; k++) {
            char save[FIXTURE_PATH];
            for (long nth = 1; nth < NTH_LIMIT; nth++) {
                fresh_directory(save, scenarios[s].name);
                if (!save_and_die(save, &scenarios[s], kinds[k], nth)) {
                    assert_true(nth > 2);
                    break;
                }
                check_survivors(save, &scenarios[s]);
                check_recovery(save);
            }
        }
    }
}

static int lock_status(const char *save) {
    haul_checkpoint_writer *writer = NULL;
    int status = (int)haul_checkpoint_lock(save, &writer);
    haul_checkpoint_unlock(writer);
    return status;
}

static void test_second_job_is_refused(void **state) {
    (void)state;
    char save[FIXTURE_PATH], holder[64];
    haul_checkpoint_writer *writer = NULL;
    fixture_directory(save, "lock");
    assert_ok(haul_checkpoint_lock(save, &writer));
    snprintf(holder, sizeof holder, "process %ld on ", (long)getpid());
    haul_test_assert_fails(lock_status(save), HAUL_ERROR_CREATE, holder);
    haul_test_assert_fails(fixture_save(save, 1, 0), HAUL_ERROR_CREATE, "is in use");
    pid_t child = fork();
    if (child == 0) {
        _exit(lock_status(save));
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(WEXITSTATUS(result), HAUL_ERROR_CREATE);
    fixture run;
    haul_checkpoint_request request = fixture_request(&run, save, 1);
    request.writer = writer;
    assert_ok(haul_checkpoint_save(&request));
    assert_ok(haul_checkpoint_save(&request));
    haul_checkpoint_unlock(writer);
    assert_ok(lock_status(save));
}

static void test_cleaning_takes_only_what_is_ours(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool stays;
    } entries[] = {{"iter_0000005.tmp-77", false},
                   {".trash-iter_0000004", false},
                   {"latest_checkpointed_iteration.txt.tmp-3", false},
                   {"iter_best", true},
                   {"notes.tmp-1", true},
                   {"iter_0000005-backup", true},
                   {".trash", true}};
    char save[FIXTURE_PATH], path[FIXTURE_PATH], file[FIXTURE_PATH];
    enum { ENTRIES = sizeof entries / sizeof entries[0] };
    fixture_directory(save, "clean");
    for (int i = 0; i < ENTRIES; i++) {
        assert_ok(haul_directory_create(fixture_path(path, save, entries[i].name)));
        fixture_put(fixture_path(file, path, "file"), "x", 1);
    }
    /* A link among the leftovers is removed, not followed. */
    char outside[FIXTURE_PATH], link_path[FIXTURE_PATH];
    fixture_directory(outside, "outside");
    fixture_put(outside, "x", 1);
    fixture_path(link_path, save, "iter_0000006.tmp-1");
    assert_int_equal(symlink(outside, link_path), 0);
    assert_ok(lock_status(save));
    for (int i = 0; i < ENTRIES; i++) {
        assert_int_equal(fixture_exists(save, entries[i].name), entries[i].stays);
    }
    struct stat info;
    assert_int_not_equal(lstat(link_path, &info), 0);
    assert_true(haul_file_exists(outside));
}

/* In a child that is not root, since root may write anywhere. */
static void test_read_only_directory(void **state) {
    (void)state;
    char save[FIXTURE_PATH];
    fixture_directory(save, "read-only");
    assert_ok(fixture_save(save, OLDER, 0));
    assert_int_equal(chmod(haul_test_directory(), 0755), 0);
    char lock[FIXTURE_PATH];
    assert_int_equal(chmod(fixture_path(lock, save, "LOCK"), 0444), 0);
    assert_int_equal(chmod(save, 0555), 0);
    pid_t child = fork();
    if (child == 0) {
        if (getuid() == 0 && setuid(65534) != 0) {
            _exit(1);
        }
        haul_status status = fixture_save(save, NEWER, 0);
        bool clear = strstr(haul_error_message(), "Permission denied") != NULL &&
                     strstr(haul_error_hint(), "permissions") != NULL;
        _exit(status == HAUL_ERROR_CREATE && clear ? 0 : 1);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(chmod(save, 0755), 0);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_int_equal(fixture_newest(save), OLDER);
    char file[FIXTURE_PATH];
    fixture_put(fixture_directory(file, "file"), "x", 1);
    haul_test_assert_fails(fixture_save(file, 1, 0), HAUL_ERROR_CREATE, "file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_failure_leaves_the_older_checkpoint),
        cmocka_unit_test(test_every_kill_leaves_a_checkpoint),
        cmocka_unit_test(test_second_job_is_refused),
        cmocka_unit_test(test_cleaning_takes_only_what_is_ours),
        cmocka_unit_test(test_read_only_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ctest: unit */
#include "testing.h"

#include "base/fault.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void only_the_nth_call_fails(void **state) {
    (void)state;
    haul_fault_arm(HAUL_FAULT_WRITE, 3, false);
    assert_false(haul_fault_hit(HAUL_FAULT_WRITE));
    assert_false(haul_fault_hit(HAUL_FAULT_SYNC));
    assert_false(haul_fault_hit(HAUL_FAULT_WRITE));
    assert_true(haul_fault_hit(HAUL_FAULT_WRITE));
    for (int i = 0; i < 10; i++) {
        assert_false(haul_fault_hit(HAUL_FAULT_WRITE));
    }
}

static void zero_disarms(void **state) {
    (void)state;
    haul_fault_arm(HAUL_FAULT_RENAME, 1, true);
    haul_fault_arm(HAUL_FAULT_RENAME, 0, false);
    assert_false(haul_fault_hit(HAUL_FAULT_RENAME));
}

static void *hit_elsewhere(void *hit) {
    *(bool *)hit = haul_fault_hit(HAUL_FAULT_ALLOC);
    return NULL;
}

static void other_threads_stay_unarmed(void **state) {
    (void)state;
    pthread_t thread;
    bool hit = true;
    haul_fault_arm(HAUL_FAULT_ALLOC, 1, false);
    assert_int_equal(pthread_create(&thread, NULL, hit_elsewhere, &hit), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(hit);
    assert_true(haul_fault_hit(HAUL_FAULT_ALLOC));
}

static void kill_ends_the_process_at_once(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        haul_fault_arm(HAUL_FAULT_SYNC, 2, true);
        haul_fault_hit(HAUL_FAULT_SYNC);
        haul_fault_hit(HAUL_FAULT_SYNC);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_nth_call_fails),
        cmocka_unit_test(zero_disarms),
        cmocka_unit_test(other_threads_stay_unarmed),
        cmocka_unit_test(kill_ends_the_process_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The machine is whichever runs the tests: what must hold on all of them. */
#include "testing.h"

#include "base/file.h"
#include "base/machine.h"

#include <unistd.h>

static void test_describe(void **state) {
    (void)state;
    haul_machine machine;
    haul_machine_describe(&machine);
    assert_int_equal(machine.page_bytes, sysconf(_SC_PAGESIZE));
    assert_true(machine.memory_bytes >= machine.available_bytes);
    assert_true(machine.memory_bytes <=
                (int64_t)sysconf(_SC_PHYS_PAGES) * machine.page_bytes + (1 << 20));
}

/* A feature is a whole word. */
static void test_features(void **state) {
    (void)state;
    assert_false(haul_machine_has("no_such_feature"));
    assert_false(haul_machine_has(""));
#ifdef __x86_64__
    assert_true(haul_machine_has("sse2"));
    assert_true(haul_machine_has("fpu"));
    assert_false(haul_machine_has("sse4")); /* sse4_1 is one */
#endif
}

static haul_status count(void *context, const char *name) {
    (void)name;
    ++*(int *)context;
    return HAUL_OK;
}

static void test_disk(void **state) {
    (void)state;
    haul_disk_speed speed;
    int left = 0;
    assert_ok(haul_machine_measure_disk(haul_test_directory(), &speed));
    assert_true(speed.write_bytes_per_second > 0);
    assert_true(speed.sync_seconds > 0);
    assert_ok(haul_directory_list(haul_test_directory(), count, &left));
    assert_int_equal(left, 0);
    haul_test_assert_fails(haul_machine_measure_disk("/no/such/directory", &speed),
                           HAUL_ERROR_CREATE, "/no/such/directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

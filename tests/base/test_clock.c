/* ctest: unit */
#include "testing.h"

#include "base/clock.h"

#include <unistd.h>

static void the_clock_goes_forward_in_seconds(void **state) {
    (void)state;
    double start = haul_clock_seconds();
    usleep(20000);
    double elapsed = haul_clock_seconds() - start;
    assert_true(elapsed >= 0.019 && elapsed < 60);
}

static void the_wall_clock_knows_the_century(void **state) {
    (void)state;
    assert_true(haul_clock_wall() > 1.7e9 && haul_clock_wall() < 4e9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_goes_forward_in_seconds),
        cmocka_unit_test(the_wall_clock_knows_the_century),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

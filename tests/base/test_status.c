/* ctest: unit */
#include "testing.h"

#include <pthread.h>
#include <string.h>

static void message_and_hint_are_the_last_ones(void **state) {
    (void)state;
    assert_int_equal(haul_fail(HAUL_ERROR_DATA, "line %d", 7), HAUL_ERROR_DATA);
    assert_string_equal(haul_error_message(), "line 7");
    assert_string_equal(haul_error_hint(), "");
    haul_hint("run %s", "this");
    assert_string_equal(haul_error_hint(), "run this");
    haul_fail(HAUL_ERROR_IO, "other");
    assert_string_equal(haul_error_message(), "other");
    assert_string_equal(haul_error_hint(), "");
}

static void context_goes_in_front_and_keeps_the_hint(void **state) {
    (void)state;
    haul_fail(HAUL_ERROR_DATA, "bad magic");
    haul_hint("rebuild it");
    haul_fail_context("reading %s", "a.idx");
    assert_string_equal(haul_error_message(), "reading a.idx: bad magic");
    assert_string_equal(haul_error_hint(), "rebuild it");
}

static void a_message_may_quote_the_last_one(void **state) {
    (void)state;
    haul_fail(HAUL_ERROR_DATA, "inner");
    haul_fail(HAUL_ERROR_CONFIG, "outer (%s)", haul_error_message());
    assert_string_equal(haul_error_message(), "outer (inner)");
}

static void long_messages_are_cut(void **state) {
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    haul_fail(HAUL_ERROR_DATA, "%s", text);
    assert_int_equal(strlen(haul_error_message()), 1023);
    haul_fail(HAUL_ERROR_DATA, "short");
    haul_fail_context("%s", text);
    assert_int_equal(strlen(haul_error_message()), 1023);
    haul_fail_context("again");
    assert_int_equal(strlen(haul_error_message()), 1023);
    assert_int_equal(strncmp(haul_error_message(), "again: xxx", 10), 0);
}

static haul_status try_twice(int *calls, haul_status first) {
    ++*calls;
    HAUL_TRY(first);
    ++*calls;
    return HAUL_OK;
}

static void try_returns_the_first_failure(void **state) {
    (void)state;
    int calls = 0;
    assert_int_equal(try_twice(&calls, HAUL_ERROR_MEMORY), HAUL_ERROR_MEMORY);
    assert_int_equal(calls, 1);
    assert_ok(try_twice(&calls, HAUL_OK));
    assert_int_equal(calls, 3);
}

static void *fail_elsewhere(void *context) {
    (void)context;
    haul_fail(HAUL_ERROR_IO, "of another thread");
    return NULL;
}

static void threads_have_their_own_message(void **state) {
    (void)state;
    pthread_t thread;
    haul_fail(HAUL_ERROR_DATA, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(haul_error_message(), "mine");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_and_hint_are_the_last_ones),
        cmocka_unit_test(context_goes_in_front_and_keeps_the_hint),
        cmocka_unit_test(a_message_may_quote_the_last_one),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(try_returns_the_first_failure),
        cmocka_unit_test(threads_have_their_own_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

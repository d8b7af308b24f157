/* ctest: unit cuda */
/* The memory table against the memory that is taken, to the byte where haul allocates it. */
#include "testing.h"

#include "config/validate.h"
#include "device/compare.h"
#include "train/session.h"

#include <string.h>

static const char *backend = "cpu";

static void plan(haul_config *config, haul_session *session) {
    const char *const flags[][2] = {{"num-layers", "2"},          {"hidden-size", "256"},
                                    {"num-attention-heads", "2"}, {"seq-length", "128"},
                                    {"vocab-size", "8000"},       {"micro-batch-size", "2"},
                                    {"global-batch-size", "4"},   {"train-iters", "1"},
                                    {"mock-data", "true"},        {"lr", "0.001"},
                                    {"device", backend}};
    assert_ok(haul_config_init(config));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        assert_ok(haul_config_set(config, flags[i][0], &flags[i][1], 1, HAUL_SOURCE_COMMAND_LINE));
    }
    assert_ok(haul_config_finalize(config));
    assert_ok(haul_session_plan(session, config, true));
}

static int64_t bytes_of(const haul_memory_table *table, const char *category) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < table->count; i++) {
        bool counts = strcmp(table->lines[i].category, category) == 0;
        bytes += counts ? table->lines[i].bytes : 0;
    }
    return bytes;
}

static void test_table(void **state) {
    (void)state;
    const int64_t page = INT64_C(2) << 20; /* of a card: what an allocation is rounded up to */
    haul_config config;
    haul_session session;
    plan(&config, &session);
    haul_device *device = &session.device;
    int64_t code = bytes_of(&session.memory, "code and libraries");
    int64_t tensors = session.memory.bytes - code;
    assert_true(code > 0);
    if (haul_device_in_host_memory(device)) {
        assert_int_equal(session.host_memory.count, 0);
    } else {
        assert_true(bytes_of(&session.host_memory, "code and libraries") > 0);
        assert_int_equal(bytes_of(&session.host_memory, "page-locked"),
                         haul_executor_host_bytes(&session.trainer) +
                             haul_executor_host_bytes(&session.evaluator));
    }
    int64_t before = haul_device_used_bytes(device);
    assert_ok(haul_session_allocate(&session));
    assert_int_equal(tensors, session.store.bytes + session.trainer.bytes);
    if (device->backend->used_bytes != NULL) {
        int64_t taken = haul_device_used_bytes(device) - before;
        print_message("planned %lld, taken %lld\n", (long long)tensors, (long long)taken);
        assert_true(taken > tensors - page && taken <= tensors + 3 * page);
    }
    haul_session_deinit(&session);
    haul_config_deinit(&config);
}

int main(int argc, char **argv) {
    backend = haul_test_backend(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

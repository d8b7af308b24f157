/* The file that the writer leaves, read by jansson and zlib. */
#include "reading.h"
#include "testing.h"

#include "base/fault.h"
#include "base/file.h"
#include "trace/writer.h"

#include <stdio.h>

static const int64_t moment = INT64_C(1796100000123456789);

static const char *path_of(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", haul_test_directory(), name);
    return path;
}

static haul_trace_writer *create(const char *path) {
    const haul_trace_field device[] = {haul_trace_text("name", "a card"),
                                       haul_trace_integer("numSms", 132)};
    const haul_trace_field fields[] = {haul_trace_integer("cupti_version", 130001)};
    const haul_trace_header header = {.name = "a \"name\"",
                                      .base = haul_trace_base(moment),
                                      .rank = 3,
                                      .world_size = 8,
                                      .device = device,
                                      .device_count = 2,
                                      .fields = fields,
                                      .field_count = 1};
    haul_trace_writer *writer = NULL;
    assert_ok(haul_trace_create(path, &header, &writer));
    return writer;
}

static void add_kernel(haul_trace_writer *writer, int64_t begin, int64_t end) {
    const int32_t grid[3] = {7, 8, 9};
    const haul_trace_field fields[] = {haul_trace_integer("stream", 7),
                                       haul_trace_triple("grid", grid),
                                       haul_trace_real("memory bandwidth (GB/s)", 0.5)};
    const haul_trace_event event = {.category = HAUL_TRACE_KERNEL,
                                    .name = "void kernel<\"\\\n>()",
                                    .place = {0, 7},
                                    .begin = begin,
                                    .end = end,
                                    .fields = fields,
                                    .field_count = 3};
    haul_trace_add(writer, &event);
}

static void test_fields(void **state) {
    (void)state;
    const char *path = path_of("fields.json.gz");
    haul_trace_writer *writer = create(path);
    haul_trace_name_process(writer, 0, "haul", "GPU 0", 5000000);
    haul_trace_name_thread(writer, (haul_trace_place){0, 7}, "stream 7");
    add_kernel(writer, moment, moment + 1001);
    add_kernel(writer, moment + 2000, moment + 1000); /* as some drivers report */
    haul_trace_add_flow(writer, false, 12, (haul_trace_place){40, 41}, moment);
    haul_trace_add_flow(writer, true, 12, (haul_trace_place){0, 7}, moment);
    assert_ok(haul_trace_finish(writer));

    json_t *trace = trace_read(path);
    const json_t *distributed = json_object_get(trace, "distributedInfo");
    const json_t *device = json_array_get(json_object_get(trace, "deviceProperties"), 0);
    const json_t *events = json_object_get(trace, "traceEvents");
    assert_int_equal(trace_integer(trace, "schemaVersion"), 1);
    assert_int_equal(trace_integer(trace, "cupti_version"), 130001);
    assert_string_equal(trace_text(trace, "traceName"), "a \"name\"");
    assert_int_equal(trace_integer(distributed, "rank"), 3);
    assert_int_equal(trace_integer(distributed, "world_size"), 8);
    assert_string_equal(trace_text(device, "name"), "a card");
    assert_int_equal(trace_integer(device, "numSms"), 132);
    assert_int_equal(json_array_size(events), 9);

    const json_t *kernel = json_array_get(events, 5);
    assert_true(trace_is(kernel, "kernel"));
    assert_string_equal(trace_text(kernel, "name"), "void kernel<\"\\\n>()");
    assert_int_equal(trace_integer(trace, "baseTimeNanoseconds") + trace_begin(kernel), moment);
    assert_int_equal(trace_time(kernel, "dur"), 1001);
    const json_t *args = json_object_get(kernel, "args");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(args, "grid"), 2)), 9);
    assert_true(json_real_value(json_object_get(args, "memory bandwidth (GB/s)")) == 0.5);
    assert_int_equal(trace_time(json_array_get(events, 6), "dur"), 0);
    assert_int_equal(trace_check_flows(events), 1);
    json_decref(trace);
}

/* Many times what the buffers hold. */
static void test_large(void **state) {
    (void)state;
    enum { EVENTS = 20000 };
    const char *path = path_of("large.json.gz");
    haul_trace_writer *writer = create(path);
    for (int64_t i = 0; i < EVENTS; i++) {
        add_kernel(writer, moment + 1000 * i, moment + 1000 * i + 1 + i % 1000);
    }
    assert_ok(haul_trace_finish(writer));
    json_t *trace = trace_read(path);
    const json_t *events = json_object_get(trace, "traceEvents");
    assert_int_equal(trace_count(events, "kernel"), EVENTS);
    trace_check_nested(events);
    json_decref(trace);
}

/* A disk that is full leaves no file, neither whole nor in parts. */
static void test_failures(void **state) {
    (void)state;
    const haul_fault_kind kinds[] = {HAUL_FAULT_WRITE, HAUL_FAULT_SYNC, HAUL_FAULT_RENAME};
    char path[512];
    snprintf(path, sizeof path, "%s", path_of("failing.json.gz"));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        haul_trace_writer *writer = create(path);
        haul_fault_arm(kinds[i], 1, false);
        for (int64_t event = 0; event < 5000; event++) {
            add_kernel(writer, moment + event, moment + event);
        }
        assert_int_equal(haul_trace_finish(writer), HAUL_ERROR_IO);
        haul_fault_arm(kinds[i], 0, false);
        assert_false(haul_file_exists(path));
        assert_false(haul_file_exists(path_of("failing.json.gz.part")));
    }
    haul_trace_writer *none = NULL;
    const haul_trace_header header = {.name = ""};
    assert_int_equal(haul_trace_create("/no/such/place", &header, &none), HAUL_ERROR_CREATE);
    assert_null(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

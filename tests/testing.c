#include "testing.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void haul_test_assert_ok(haul_status status, const char *expression, const char *file, int line) {
    if (status != HAUL_OK) {
        print_error("%s -> %d: %s (%s)\n", expression, (int)status, haul_error_message(),
                    haul_error_hint());
    }
    _assert_int_equal((uintmax_t)status, HAUL_OK, file, line);
}

void haul_test_assert_fails(haul_status status, haul_status expected, const char *text) {
    assert_int_equal(status, expected);
    if (strstr(haul_error_message(), text) == NULL) {
        print_error("message without '%s': %s\n", text, haul_error_message());
        fail();
    }
}

static char directory[256];
static pid_t owner;

static void remove_directory(void) {
    if (getpid() == owner) {
        haul_file_remove(directory);
    }
}

const char *haul_test_directory(void) {
    if (directory[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(directory, sizeof directory, "%s/haul-test-XXXXXX", base ? base : "/tmp");
        assert_non_null(mkdtemp(directory));
        owner = getpid();
        atexit(remove_directory);
    }
    return directory;
}

double haul_test_relative_error(const double *a, const double *b, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    if (difference == 0) {
        return 0;
    }
    return norm > 0 ? sqrt(difference / norm) : (double)INFINITY;
}

/* What every test shares: cmocka, a scratch directory, and comparisons with derived bounds. */
#ifndef HAUL_TESTS_TESTING_H
#define HAUL_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"

/* Fails the test with haul's message when a call does not return HAUL_OK. */
#define assert_ok(expression) haul_test_assert_ok((expression), #expression, __FILE__, __LINE__)
void haul_test_assert_ok(haul_status status, const char *expression, const char *file, int line);

/* Fails unless the call returns `expected` and leaves a message that contains `text`. */
void haul_test_assert_fails(haul_status status, haul_status expected, const char *text);

/* A fresh directory, removed when the process ends. */
const char *haul_test_directory(void);

/* ||a - b|| / ||b|| over n doubles; 0 when both are zero. */
double haul_test_relative_error(const double *a, const double *b, int64_t n);

#endif

#include "report/axis.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOG_FROM_RATIO = 4;
static const double LOG_LIMIT = 1e100; /* beyond it powers of ten could overflow */

/* The smallest of 1, 2, 5 times a power of ten that cuts `span` into at most `pieces`. */
static double round_step(double span, int pieces) {
    static const double factors[] = {1, 2, 5};
    double power = pow(10, floor(log10(span / pieces)));
    for (int i = 0; i < 3; i++) {
        if (span / (factors[i] * power) <= pieces) {
            return factors[i] * power;
        }
    }
    return 10 * power;
}

static void add_tick(haul_axis *axis, double value) {
    double slack = 1e-9 * (axis->high - axis->low);
    if (value >= axis->low - slack && value <= axis->high + slack &&
        axis->tick_count < HAUL_AXIS_TICKS) {
        axis->ticks[axis->tick_count++] = value;
    }
}

static void add_linear_ticks(haul_axis *axis, int ticks) {
    double step = round_step(axis->high - axis->low, ticks - 1);
    double first = ceil(axis->low / step - 1e-9);
    for (int i = 0; i < HAUL_AXIS_TICKS; i++) {
        add_tick(axis, (first + i) * step);
    }
}

/* Ticks within a decade, from dense to sparse; the first set that stays within the limit is used.
 */
static const double log_sets[][12] = {
    {1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 7},
    {1, 1.5, 2, 3, 4, 5, 7},
    {1, 2, 3, 5},
    {1, 2, 5},
    {1, 3},
    {1},
};

static void add_log_ticks(haul_axis *axis, int ticks) {
    int first = (int)floor(log10(axis->low));
    int last = (int)ceil(log10(axis->high));
    for (size_t set = 0; set < sizeof log_sets / sizeof log_sets[0]; set++) {
        axis->tick_count = 0;
        for (int exponent = first; exponent <= last; exponent++) {
            for (const double *factor = log_sets[set]; *factor != 0; factor++) {
                add_tick(axis, *factor * pow(10, exponent));
            }
        }
        if (axis->tick_count <= ticks) {
            return;
        }
    }
    /* Many decades: every second, third ... of them. */
    int stride = (last - first) / (ticks - 1) + 1;
    axis->tick_count = 0;
    for (int exponent = first; exponent <= last; exponent += stride) {
        add_tick(axis, pow(10, exponent));
    }
}

haul_axis haul_axis_create(double low, double high, haul_scale scale, double margin, int ticks) {
    haul_axis axis = {0};
    if (scale == HAUL_SCALE_LINEAR_FROM_ZERO) {
        low = fmin(low, 0);
        high = fmax(high, 0);
    }
    if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high)))) {
        double half = high == 0 ? 1 : fabs(high) * 0.1;
        low -= half;
        high += half;
    }
    axis.logarithmic = scale == HAUL_SCALE_AUTO && low > 1 / LOG_LIMIT && high < LOG_LIMIT &&
                       high / low >= LOG_FROM_RATIO;
    if (axis.logarithmic) {
        double widen = pow(high / low, margin);
        axis.low = low / widen;
        axis.high = high * widen;
        add_log_ticks(&axis, ticks);
        return axis;
    }
    double widen = (high - low) * margin;
    axis.low = scale == HAUL_SCALE_LINEAR_FROM_ZERO && low == 0 ? 0 : low - widen;
    axis.high = high + widen;
    add_linear_ticks(&axis, ticks);
    return axis;
}

double haul_axis_position(const haul_axis *axis, double value) {
    if (axis->logarithmic) {
        return log(value / axis->low) / log(axis->high / axis->low);
    }
    return (value - axis->low) / (axis->high - axis->low);
}

haul_axis_label haul_axis_integer(int64_t value) {
    haul_axis_label label = {""};
    char digits[32];
    int length =
        snprintf(digits, sizeof digits, "%" PRIu64, value < 0 ? -(uint64_t)value : (uint64_t)value);
    char *at = label.text;
    if (value < 0) {
        *at++ = '-';
    }
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *at++ = ',';
        }
        *at++ = digits[i];
    }
    *at = '\0';
    return label;
}

haul_axis_label haul_axis_number(double value) {
    haul_axis_label label = {"0"};
    double size = fabs(value);
    if (size >= 99999.5) {
        static const char *const units[] = {"k", "M", "G", "T", "P"};
        int unit = 0;
        double scaled = value / 1000;
        for (; fabs(scaled) >= 999.5 && unit < 4; unit++) {
            scaled /= 1000;
        }
        snprintf(label.text, sizeof label.text, "%.3g%s", scaled, units[unit]);
    } else if (size >= 999.5) {
        return haul_axis_integer(llround(value));
    } else if (size > 0 && size < 0.000995) {
        char digits[24];
        snprintf(digits, sizeof digits, "%.1e", value);
        int exponent = atoi(strchr(digits, 'e') + 1);
        double mantissa = atof(digits);
        snprintf(label.text, sizeof label.text, "%.2ge%d", mantissa / pow(10, exponent), exponent);
    } else if (size > 0) {
        snprintf(label.text, sizeof label.text, "%.3g", value);
    }
    return label;
}

/* The axis of a chart: its range, its ticks and how their numbers are written. */
#ifndef HAUL_REPORT_AXIS_H
#define HAUL_REPORT_AXIS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum haul_scale {
    HAUL_SCALE_LINEAR,
    HAUL_SCALE_LINEAR_FROM_ZERO,
    HAUL_SCALE_AUTO /* logarithmic where the data is positive and spans a factor of 4 */
} haul_scale;

enum { HAUL_AXIS_TICKS = 12 };

typedef struct haul_axis {
    bool logarithmic;
    double low, high; /* low < high; > 0 when logarithmic */
    double ticks[HAUL_AXIS_TICKS];
    int tick_count;
} haul_axis;

typedef struct haul_axis_label {
    char text[32];
} haul_axis_label;

/* An axis for finite data between low and high, with `margin` of its length free at both ends and
 * at most `ticks` (2 to 12) ticks at round numbers. */
haul_axis haul_axis_create(double low, double high, haul_scale scale, double margin, int ticks);

/* Where a value lies: 0 at the low end, 1 at the high end. */
double haul_axis_position(const haul_axis *axis, double value);

/* A value as short as reads well: "0.25", "1,200", "40k", "3e-4". Tick labels are exact. */
haul_axis_label haul_axis_number(double value);

/* All digits, in groups of three: "1,234,567". */
haul_axis_label haul_axis_integer(int64_t value);

#endif

#include "base/format.h"

#include <math.h>
#include <stdio.h>

/* Three significant digits of `value`, divided by `step` until it stays below `step` when
 * printed: 999.6 of a step of 1000 would print as four digits. */
static haul_formatted format_scaled(int64_t value, double step, const char *const *units) {
    haul_formatted out;
    double scaled = fabs((double)value);
    int unit = 0;
    while (scaled >= (unit == 0 ? step : step - 0.5) && units[unit + 1] != NULL) {
        scaled /= step;
        unit++;
    }
    int decimals = unit == 0 || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
    snprintf(out.text, sizeof out.text, "%s%.*f%s", value < 0 ? "-" : "", decimals, scaled,
             units[unit]);
    return out;
}

haul_formatted haul_format_bytes(int64_t bytes) {
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB", NULL};
    return format_scaled(bytes, 1024, units);
}

haul_formatted haul_format_count(int64_t count) {
    static const char *const units[] = {"", "k", "M", "B", "T", NULL};
    return format_scaled(count, 1000, units);
}

haul_formatted haul_format_duration(double seconds) {
    haul_formatted out = {"?"};
    if (!(seconds >= 0) || seconds > 1e12) {
        return out;
    }
    if (seconds < 0.9995) {
        snprintf(out.text, sizeof out.text, "%.0f ms", seconds * 1e3);
        return out;
    }
    if (seconds < 59.95) {
        snprintf(out.text, sizeof out.text, "%.1f s", seconds);
        return out;
    }
    static const struct {
        long long large, small;
        char large_unit, small_unit;
    } scales[] = {{86400, 3600, 'd', 'h'}, {3600, 60, 'h', 'm'}, {60, 1, 'm', 's'}};
    long long whole = llround(seconds);
    int i = whole >= 86400 ? 0 : whole >= 3600 ? 1 : 2;
    snprintf(out.text, sizeof out.text, "%lld%c %02lld%c", whole / scales[i].large,
             scales[i].large_unit, whole % scales[i].large / scales[i].small, scales[i].small_unit);
    return out;
}

#include "report/svg.h"

#include "report/text.h"

#include <math.h>
#include <stdio.h>

enum { LEFT = 52, TOP = 10, BOTTOM = 30, LABEL_HEIGHT = 15, MAX_SERIES = 8 };

/* The chart's plot area in user units, and the two axes. */
typedef struct plot {
    const haul_svg_chart *chart;
    haul_string *out;
    haul_axis x, y;
    double left, right, top, bottom;
} plot;

static double x_at(const plot *p, double x) {
    return p->left + haul_axis_position(&p->x, x) * (p->right - p->left);
}

static double y_at(const plot *p, double y) {
    return p->bottom - haul_axis_position(&p->y, y) * (p->bottom - p->top);
}

static void append_text(const plot *p, double x, double y, const char *style, const char *text) {
    haul_string_append_format(p->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, style);
    haul_text_append_html(p->out, text);
    haul_string_append_text(p->out, "</text>");
}

static void append_rule(const plot *p, double x1, double y1, double x2, double y2,
                        const char *style) {
    haul_string_append_format(p->out,
                              "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\""
                              " class=\"%s\"/>",
                              x1, y1, x2, y2, style);
}

static void append_axes(const plot *p) {
    for (int i = 0; i < p->y.tick_count; i++) {
        double y = y_at(p, p->y.ticks[i]);
        append_rule(p, p->left, y, p->right, y, "grid");
        append_text(p, p->left - 8, y + 4, "tick end", haul_axis_number(p->y.ticks[i]).text);
    }
    append_rule(p, p->left, p->bottom, p->right, p->bottom, "axis");
    for (int i = 0; i < p->x.tick_count; i++) {
        double x = x_at(p, p->x.ticks[i]);
        append_rule(p, x, p->bottom, x, p->bottom + 4, "axis");
        append_text(p, x, p->bottom + 17, "tick middle", haul_axis_number(p->x.ticks[i]).text);
    }
    if (p->chart->x_label != NULL) {
        append_text(p, p->chart->width, p->bottom + 17, "tick end", p->chart->x_label);
    }
    for (int64_t i = 0; i < p->chart->mark_count; i++) {
        double x = x_at(p, p->chart->marks[i]);
        append_rule(p, x, p->top, x, p->bottom, "mark");
    }
}

/* One point of a path: the first moves there, the others draw a line. */
static void append_point(const plot *p, double x, double y, bool *begun) {
    haul_string_append_format(p->out, "%s%.1f %.1f", *begun ? "L" : "M", x_at(p, x), y_at(p, y));
    *begun = true;
}

/* Where many points share a half unit of width, only the lowest and the highest of them are drawn:
 * the picture is the same, spikes included, and the file stays small. */
static void append_path(const plot *p, const haul_svg_series *s) {
    haul_string_append_format(p->out, "<path class=\"line %s\" d=\"", s->style);
    bool begun = false;
    for (int64_t i = 0; i < s->count;) {
        double column = floor(2 * x_at(p, s->x[i]));
        int64_t low = -1, high = -1;
        for (; i < s->count && floor(2 * x_at(p, s->x[i])) <= column; i++) {
            if (isfinite(s->y[i])) {
                low = low < 0 || s->y[i] < s->y[low] ? i : low;
                high = high < 0 || s->y[i] > s->y[high] ? i : high;
            }
        }
        if (low >= 0) {
            int64_t first = low < high ? low : high;
            int64_t second = low < high ? high : low;
            append_point(p, s->x[first], s->y[first], &begun);
            if (second != first) {
                append_point(p, s->x[second], s->y[second], &begun);
            }
        }
    }
    haul_string_append_text(p->out, "\"/>");
}

static void append_dots(const plot *p, const haul_svg_series *s) {
    for (int64_t i = 0; i < s->count; i++) {
        if (isfinite(s->y[i])) {
            haul_string_append_format(p->out,
                                      "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\">"
                                      "<title>",
                                      s->style, x_at(p, s->x[i]), y_at(p, s->y[i]));
            haul_string_append_format(p->out, "%s %s: %.4g</title></circle>", p->chart->x_label,
                                      haul_axis_number(s->x[i]).text, s->y[i]);
        }
    }
}

static int64_t last_finite(const haul_svg_series *s) {
    int64_t last = s->count - 1;
    while (last >= 0 && !isfinite(s->y[last])) {
        last--;
    }
    return last;
}

/* Names and last values beside the lines' ends, pushed apart where they would overlap. */
static void append_labels(const plot *p) {
    struct {
        const haul_svg_series *series;
        double value, y;
    } labels[MAX_SERIES];
    int count = 0;
    for (int i = 0; i < p->chart->series_count && count < MAX_SERIES; i++) {
        const haul_svg_series *s = &p->chart->series[i];
        int64_t last = last_finite(s);
        if (s->name == NULL || last < 0) {
            continue;
        }
        int at = count++;
        double y = y_at(p, s->y[last]);
        for (; at > 0 && labels[at - 1].y > y; at--) {
            labels[at] = labels[at - 1];
        }
        labels[at].series = s;
        labels[at].value = s->y[last];
        labels[at].y = y;
    }
    for (int i = 1; i < count; i++) {
        labels[i].y = fmax(labels[i].y, labels[i - 1].y + LABEL_HEIGHT);
    }
    for (int i = count - 1; i >= 0; i--) {
        double limit = i == count - 1 ? p->bottom - 6 : labels[i + 1].y - LABEL_HEIGHT;
        labels[i].y = fmin(labels[i].y, limit);
        const char *name = labels[i].series->name;
        char text[64], style[64];
        snprintf(text, sizeof text, "%s%s%s", name, name[0] == '\0' ? "" : " ",
                 haul_axis_number(labels[i].value).text);
        snprintf(style, sizeof style, "label %s", labels[i].series->style);
        append_text(p, p->right + 10, labels[i].y + 4, style, text);
    }
}

/* The bounds of all finite points; false when there are none. */
static bool find_bounds(const haul_svg_chart *chart, double x[2], double y[2]) {
    x[0] = y[0] = (double)INFINITY;
    x[1] = y[1] = -(double)INFINITY;
    for (int i = 0; i < chart->series_count; i++) {
        const haul_svg_series *s = &chart->series[i];
        for (int64_t j = 0; j < s->count; j++) {
            if (isfinite(s->y[j])) {
                x[0] = fmin(x[0], s->x[j]);
                x[1] = fmax(x[1], s->x[j]);
                y[0] = fmin(y[0], s->y[j]);
                y[1] = fmax(y[1], s->y[j]);
            }
        }
    }
    return x[0] <= x[1];
}

bool haul_svg_append(const haul_svg_chart *chart, haul_string *out) {
    double x[2], y[2];
    if (!find_bounds(chart, x, y)) {
        return false;
    }
    plot p = {
        .chart = chart,
        .out = out,
        .left = LEFT,
        .right = chart->width - chart->label_width,
        .top = TOP,
        .bottom = chart->height - BOTTOM,
    };
    /* Iterations are whole: no more ticks than there are of them. */
    int x_ticks = (int)fmax(2, fmin((p.right - p.left) / 75 + 2, x[1] + 1));
    p.x = haul_axis_create(x[0], x[1], HAUL_SCALE_LINEAR_FROM_ZERO, 0, x_ticks);
    p.y = haul_axis_create(y[0], y[1], chart->y_scale, 0.05, (int)(p.bottom - p.top) / 36 + 2);
    haul_string_append_format(out,
                              "<svg class=\"chart %s\" viewBox=\"0 0 %d %d\" role=\"img\""
                              " aria-label=\"",
                              chart->style, chart->width, chart->height);
    haul_text_append_html(out, chart->title);
    haul_string_append_text(out, "\">");
    append_axes(&p);
    for (int i = 0; i < chart->series_count; i++) {
        append_path(&p, &chart->series[i]);
        if (chart->series[i].dots) {
            append_dots(&p, &chart->series[i]);
        }
    }
    append_labels(&p);
    haul_string_append_text(out, "</svg>\n");
    return true;
}

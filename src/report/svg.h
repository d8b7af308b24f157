/* Line charts as inline SVG. Colours and fonts come from the page's style sheet through classes,
 * so that a chart follows light and dark. */
#ifndef HAUL_REPORT_SVG_H
#define HAUL_REPORT_SVG_H

#include "base/string.h"
#include "report/axis.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct haul_svg_series {
    const char *name;  /* written at the line's end with the last value; NULL: no label */
    const char *style; /* class: "raw", "train", "eval" */
    const double *x;   /* ascending */
    const double *y;   /* values that are not finite are passed over */
    int64_t count;
    bool dots; /* mark each point */
} haul_svg_series;

typedef struct haul_svg_chart {
    const char *title;   /* what is drawn, for screen readers */
    const char *x_label; /* at the right end of the axis; NULL: none */
    const char *style;   /* class of the svg element */
    int width, height;
    int label_width; /* right margin that holds the labels */
    haul_scale y_scale;
    const haul_svg_series *series; /* drawn in this order */
    int series_count;
    const double *marks; /* x of vertical rules */
    int64_t mark_count;
} haul_svg_chart;

/* Appends the chart. Returns false, with nothing appended, when no series has a finite point. */
bool haul_svg_append(const haul_svg_chart *chart, haul_string *out);

#endif

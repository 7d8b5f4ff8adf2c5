/* Plots as inline SVG, coloured by the page's style sheet (html.h) so that they follow its theme.
 *
 * Used by the HTML reports of measure and compare. */
#ifndef OUTRIDER_APPS_SVG_H
#define OUTRIDER_APPS_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

typedef struct axis {
    double least, most;
    bool log;
    bool whole;        /* ticks at whole numbers only */
    const char *label; /* NULL: neither label nor ticks */
} axis;

typedef struct plot {
    text *t;
    axis x, y;
    int width, height;
    int left; /* margin, for the y axis or names */
} plot;

/* `about` is what a screen reader says. */
void plot_begin(const plot *p, const char *about);
void plot_end(const plot *p);
double plot_x(const plot *p, double value); /* in the picture, kept inside the frame */
double plot_y(const plot *p, double value);

/* series: 0 to 7, the colour and dashes of the style sheet. Points that aren't finite break the line. */
void plot_line(const plot *p, int series, const double *x, const double *y, size_t n);
void plot_dot(const plot *p, int series, double x, double y);
/* A dot that is hollow. */
void plot_ring(const plot *p, int series, double x, double y);
/* From low to high, at a height y in the picture; ends outside the frame become arrows. */
void plot_range(const plot *p, int series, double low, double high, double y);
void plot_mark_x(const plot *p, double value); /* a line across the frame */
void plot_mark_y(const plot *p, double value, const char *label);
/* Below a plot; dashes as in its lines. */
void plot_legend(text *t, const char *const *names, const int *series, size_t n);

#endif

/* Plots as inline SVG: see svg.h. */
#include "svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "html.h"

#define TOP 10
#define RIGHT 12
#define BOTTOM 40

static double place(const axis *a, double value)
{
    double at = a->log ? log(value / a->least) / log(a->most / a->least)
                       : (value - a->least) / (a->most - a->least);

    return at < 0 || isnan(at) ? 0 : at > 1 ? 1 : at;
}

static int bottom(const plot *p)
{
    return p->height - (p->x.label ? BOTTOM : TOP);
}

double plot_x(const plot *p, double value)
{
    return p->left + place(&p->x, value) * (p->width - RIGHT - p->left);
}

double plot_y(const plot *p, double value)
{
    return bottom(p) - place(&p->y, value) * (bottom(p) - TOP);
}

/* 1, 2 or 5 times a power of ten, for about five ticks. */
static double tick_step(const axis *a)
{
    double rough = (a->most - a->least) / 5, power = pow(10, floor(log10(rough)));
    double m = rough / power;

    if (a->whole && rough < 1)
        return 1;
    return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void add_tick(const plot *p, bool is_x, double value)
{
    value = value == 0 ? 0 : value; /* no -0 */
    if (is_x) {
        double x = plot_x(p, value);

        text_printf(p->t,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                    "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>",
                    x, x, TOP, bottom(p), x, bottom(p) + 15, value);
    } else {
        double y = plot_y(p, value);

        text_printf(p->t,
                    "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>",
                    p->left, p->width - RIGHT, y, y, p->left - 6, y + 4, value);
    }
}

/* A decade's 1, 2 and 5 where there is room, else its 1 alone. */
static void add_log_ticks(const plot *p, const axis *a, bool is_x)
{
    static const double steps[] = {1, 2, 5};
    double decades = log10(a->most / a->least);
    size_t n = decades < 2.5 ? 3 : 1;

    for (int power = (int)floor(log10(a->least)); power <= (int)ceil(log10(a->most)); power++)
        for (size_t i = 0; i < n; i++) {
            double value = steps[i] * pow(10, power);

            if (value >= a->least * 0.999 && value <= a->most * 1.001)
                add_tick(p, is_x, value);
        }
    if (decades < 1) /* finer, so that there are some */
        for (double value = ceil(a->least * 10) / 10; value <= a->most; value += 0.1) {
            static const double fine[] = {0.6, 0.7, 0.8, 0.9, 1.2, 1.5};

            for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
                if (fabs(value - fine[i]) < 0.01)
                    add_tick(p, is_x, fine[i]);
        }
}

static void add_ticks(const plot *p, const axis *a, bool is_x)
{
    if (!a->label)
        return;
    if (a->log) {
        add_log_ticks(p, a, is_x);
    } else {
        double step = tick_step(a);

        for (double i = ceil(a->least / step - 0.001); i * step <= a->most + step / 1000; i++)
            add_tick(p, is_x, i * step);
    }
}

void plot_begin(const plot *p, const char *about)
{
    text_printf(p->t, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", p->width, p->height);
    html_escape(p->t, about);
    text_printf(p->t, "\">");
    add_ticks(p, &p->x, true);
    add_ticks(p, &p->y, false);
    text_printf(p->t, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
                p->left, TOP, p->width - RIGHT - p->left, bottom(p) - TOP);
    if (p->x.label) {
        text_printf(p->t, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                    (p->left + p->width - RIGHT) / 2, p->height - 6);
        html_escape(p->t, p->x.label);
        text_printf(p->t, "</text>");
    }
    if (p->y.label) {
        text_printf(p->t,
                    "<text class=\"label\" transform=\"translate(12,%d) rotate(-90)\" "
                    "text-anchor=\"middle\">",
                    (TOP + bottom(p)) / 2);
        html_escape(p->t, p->y.label);
        text_printf(p->t, "</text>");
    }
}

void plot_end(const plot *p)
{
    text_printf(p->t, "</svg>\n");
}

void plot_line(const plot *p, int series, const double *x, const double *y, size_t n)
{
    bool begins = true;

    text_printf(p->t, "<path class=\"line s%d\" d=\"", series);
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i]) && isfinite(y[i]))
            text_printf(p->t, "%s%.1f %.1f", begins ? "M" : "L", plot_x(p, x[i]), plot_y(p, y[i]));
        begins = !isfinite(x[i]) || !isfinite(y[i]);
    }
    text_printf(p->t, "\"/>");
}

static void add_circle(const plot *p, const char *class, int series, double x, double y)
{
    if (isfinite(x) && isfinite(y))
        text_printf(p->t, "<circle class=\"%s s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", class,
                    series, plot_x(p, x), plot_y(p, y));
}

void plot_dot(const plot *p, int series, double x, double y)
{
    add_circle(p, "dot", series, x, y);
}

void plot_ring(const plot *p, int series, double x, double y)
{
    add_circle(p, "ring", series, x, y);
}

void plot_range(const plot *p, int series, double low, double high, double y)
{
    double from = plot_x(p, low), to = plot_x(p, high);

    if (!isfinite(low) || !isfinite(high))
        return;
    text_printf(p->t, "<path class=\"whisker s%d\" d=\"M%.1f %.1fL%.1f %.1f", series, from, y, to,
                y);
    if (low < p->x.least)
        text_printf(p->t, "M%.1f %.1fl5 -4m-5 4l5 4", from, y);
    else
        text_printf(p->t, "M%.1f %.1fv8", from, y - 4);
    if (high > p->x.most)
        text_printf(p->t, "M%.1f %.1fl-5 -4m5 4l-5 4", to, y);
    else
        text_printf(p->t, "M%.1f %.1fv8", to, y - 4);
    text_printf(p->t, "\"/>");
}

void plot_mark_x(const plot *p, double value)
{
    double x = plot_x(p, value);

    if (value >= p->x.least && value <= p->x.most)
        text_printf(p->t, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x,
                    x, TOP, bottom(p));
}

void plot_mark_y(const plot *p, double value, const char *label)
{
    double y = plot_y(p, value);

    text_printf(p->t, "<line class=\"mark\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", p->left,
                p->width - RIGHT, y, y);
    if (label)
        text_printf(p->t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                    p->width - RIGHT - 4, y - 4, label);
}

void plot_legend(text *t, const char *const *names, const int *series, size_t n)
{
    text_printf(t, "<p class=\"legend\">");
    for (size_t i = 0; i < n; i++) {
        text_printf(t,
                    "<span><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"line "
                    "s%d\" d=\"M1 5L27 5\"/><circle class=\"dot s%d\" cx=\"14\" cy=\"5\" "
                    "r=\"3.5\"/></svg><bdi>",
                    series[i], series[i]);
        html_escape(t, names[i]);
        text_printf(t, "</bdi></span> ");
    }
    text_printf(t, "</p>\n");
}

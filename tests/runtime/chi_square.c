/* Chi-square test (chi_square.h). */
#include "chi_square.h"

#include <math.h>

/* Regularised upper incomplete gamma function Q(a, x): below a + 1 by the series of its complement,
 * above by the continued fraction, evaluated from the front (Lentz). */
static double upper_gamma(double a, double x)
{
    double scale = exp(a * log(x) - x - lgamma(a));

    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (int i = 1; i < 10000 && term > 1e-17 * sum; i++)
            sum += term *= x / (a + i);
        return 1 - scale * sum;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d;
    for (int i = 1; i < 10000; i++) {
        double numerator = -i * (i - a);
        b += 2;
        d = 1 / (numerator * d + b);
        c = b + numerator / c;
        fraction *= c * d;
        if (fabs(c * d - 1) < 1e-15)
            break;
    }
    return scale * fraction;
}

double chi_square_tail(double statistic, double freedom)
{
    return statistic > 0 ? upper_gamma(freedom / 2, statistic / 2) : 1;
}

double chi_square_p(const uint64_t *counts, const double *probabilities, uint32_t n_cells)
{
    uint64_t n = 0;
    double statistic = 0;
    uint32_t n_used = 0;

    for (uint32_t i = 0; i < n_cells; i++)
        n += counts[i];
    for (uint32_t i = 0; i < n_cells; i++) {
        double expected = (double)n * probabilities[i];
        if (expected > 0) {
            double off = (double)counts[i] - expected;
            statistic += off * off / expected;
            n_used++;
        } else if (counts[i]) {
            return 0;
        }
    }
    return chi_square_tail(statistic, n_used - 1);
}

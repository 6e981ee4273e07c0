#ifndef BX_STATISTICS_H
#define BX_STATISTICS_H

#include <stddef.h>

/* The quantile q in [0, 1] of values[count], which are sorted in place; NaN of none (local). */
double bx_statistics_quantile(double *values, size_t count, double q);

#endif

/* Statistics of samples. */
#ifndef BX_STATISTICS_H
#define BX_STATISTICS_H

#include <stddef.h>

/* Returns the quantile `q`, from 0 to 1, of values[count], interpolated between order statistics
 * (R. J. Hyndman, Y. Fan, Am. Stat. 50, 361 (1996), type 7); NaN if count is 0.  Sorts the values
 * in place.  Local. */
double bx_statistics_quantile(double *values, size_t count, double q);

#endif

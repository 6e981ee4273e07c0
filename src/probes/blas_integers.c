/* The bytes of BLAS's integers: to one of 8 bytes, the count is negative. */
#include <stdio.h>

double ddot_(const void *count, const double *x, const void *x_step, const double *y,
             const void *y_step);

int main(void)
{
    const int count[2] = {2, -1}, step[2] = {1, 0};
    const double x[2] = {3, 4};
    puts(ddot_(count, x, step, x, step) == 25 ? "4" : "8");
    return 0;
}

/* The clock's chain, built without optimisation and with all of it, takes equally long. */
#include "host.h"
#include "unit.h"

#include <math.h>

double bx_chain_plain(int turns, bool *right);     /* -O0 */
double bx_chain_optimised(int turns, bool *right); /* -O3 */

int main(void)
{
    /* In turn, and the shortest of many short ones: what else runs here spares some of both. */
    enum { TURNS = 2500, ATTEMPTS = 5000 };
    double plain = INFINITY, optimised = INFINITY;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        bool right = false;
        plain = fmin(plain, bx_chain_plain(TURNS, &right));
        CHECK(right);
        right = false;
        optimised = fmin(optimised, bx_chain_optimised(TURNS, &right));
        CHECK(right);
    }
    printf("%.3f GHz without optimisation, %.3f GHz with it\n",
           1e-9 * BX_CHAIN_LINKS * TURNS / plain, 1e-9 * BX_CHAIN_LINKS * TURNS / optimised);
    CHECK(fabs(plain / optimised - 1) < 0.05);
    return unit_failures != 0;
}

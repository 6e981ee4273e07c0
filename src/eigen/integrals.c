#include "integrals.h"

#include "bx.h"
#include "charge.h"

/* Points of a task: n times a number from 4 to 20. */
static int points_of(int n, int task)
{
    return n * (4 + (int)(bx_random_hash(3, (uint64_t)task) % 17));
}

static double argument_of(int n, int matrix, int task)
{
    uint64_t index = (uint64_t)matrix * (uint64_t)n + (uint64_t)task;
    return 0.5 + 10 * (1 + bx_random_uniform(4, index));
}

void bx_integrals_run(int n, int matrix, int rank, int ranks, double *values)
{
    for (int task = rank; task < n; task += ranks) {
        int points = points_of(n, task);
        double x = argument_of(n, matrix, task), step = 1.0 / points, sum = 0;
        bx_charge(BX_PAIRS, 25.0 * points, true); /* an exponential is about 20 flop */
        for (int i = 0; i < points && !bx_charge_is_hollow(); i++) {
            double t = (i + 0.5) * step;
            sum += exp(-x * t * t);
        }
        values[task] = sum * step;
    }
}

double bx_integrals_error(int n, int matrix, int rank, int ranks, const double *values)
{
    static const double PI = 3.14159265358979323846, ROUNDING = 1e-14;
    double most = 0;
    for (int task = rank; task < n; task += ranks) {
        double x = argument_of(n, matrix, task), points = points_of(n, task);
        double exact = sqrt(PI / x) / 2 * erf(sqrt(x));
        double bound = 2 * x / (24 * points * points) + ROUNDING; /* |f''| is at most 2 x */
        most = bx_verification_worse(most, fabs(values[task] - exact) / bound);
    }
    return most;
}

double bx_integrals_imbalance(int n, int ranks)
{
    double all = 0, busiest = 0;
    for (int rank = 0; rank < ranks; rank++) {
        double mine = 0;
        for (int task = rank; task < n; task += ranks) mine += points_of(n, task);
        all += mine;
        busiest = fmax(busiest, mine);
    }
    return busiest * ranks / all;
}

/* The fields of a transpose plan, and the planes of alltoallw: each thread is the first to touch
 * its part, which so lies in its memory.  Page faults of threads show it. */
#include "run.h"
#include "transform.h"
#include "unit.h"

#include <omp.h>
#include <sys/resource.h>

enum { THREADS = 2, BANDS = 16 };

static void count_faults(long faults[THREADS])
{
#pragma omp parallel num_threads(THREADS)
    {
        struct rusage usage;
        getrusage(RUSAGE_THREAD, &usage);
        faults[omp_get_thread_num()] = usage.ru_minflt;
    }
}

static void check_faults(const long before[THREADS])
{
    long after[THREADS], sum = 0;
    count_faults(after);
    for (int t = 0; t < THREADS; t++) sum += after[t] - before[t];
    for (int t = 0; t < THREADS; t++)
        CHECK((double)(after[t] - before[t]) > 0.8 * (double)sum / THREADS);
}

static void test_first_touch(int exchanges)
{
    const int64_t grid[3] = {64, 64, 64};
    long before[THREADS];
    bx_run run = {.world = MPI_COMM_WORLD, .host = MPI_COMM_WORLD, .size = 1, .threads = THREADS};
    bx_geometry *geometry = bx_geometry_create(grid, 32 * 32, exchanges, 1, NULL, 1);
    count_faults(before);
    bx_plan *plan = bx_plan_create(&run, MPI_COMM_WORLD, geometry, BANDS, FFTW_ESTIMATE);
    check_faults(before);
    count_faults(before);
    bx_exchange *x = bx_exchange_create(plan, &bx_transpose_method_alltoallw, 0);
    check_faults(before);
    bx_exchange_free(x);
    bx_plan_free(plan);
    bx_geometry_free(geometry);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    omp_set_num_threads(THREADS);
    fftw_init_threads();
    for (int exchanges = 1; exchanges <= 2; exchanges++) test_first_touch(exchanges);
    MPI_Finalize();
    return unit_failures > 0;
}

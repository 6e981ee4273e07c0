#include "run.h"

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    int code = bx_harness_run(MPI_COMM_WORLD, argc, argv, bx_kernel_get());
    MPI_Finalize();
    return code;
}

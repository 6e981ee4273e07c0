/* Where server.c enters a kernel. */
#include "run.h"

int bx_main(MPI_Comm world, int argc, char **argv)
{
    return bx_harness_run(world, argc, argv, bx_kernel_get());
}

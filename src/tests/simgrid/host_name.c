/* The simulated host's name, in place of gethostname, which SMPI leaves alone. */
#include <mpi.h>
#include <stdio.h>

int bx_simulated_gethostname(char *name, size_t size)
{
    char full[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(full, &length);
    return snprintf(name, size, "%s", full) < (int)size ? 0 : -1;
}

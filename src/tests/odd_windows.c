/* Preloaded: windows of another MPI library than this one.  BX_WINDOWS=fail: shared memory cannot
 * be had on the last rank of a communicator.  BX_WINDOWS=intel: the library has Intel's name. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int is_library(const char *name)
{
    const char *library = getenv("BX_WINDOWS");
    return library && strcmp(library, name) == 0;
}

int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory,
                            MPI_Win *window)
{
    int rank, size, code = PMPI_Win_allocate_shared(bytes, unit, info, comm, memory, window);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    if (code != MPI_SUCCESS || rank < size - 1 || !is_library("fail")) return code;
    PMPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
    return MPI_ERR_NO_MEM;
}

int MPI_Get_library_version(char *text, int *length)
{
    int code = PMPI_Get_library_version(text, length);
    if (is_library("intel")) *length = (int)strlen(strcpy(text, "Intel(R) MPI Library"));
    return code;
}

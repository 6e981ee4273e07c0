/* BX_NODES=turn: emulated nodes get ranks in turn, as a launcher may place them. */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int __real_PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part);
int __wrap_PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part);
int __wrap_PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
    static bool split; /* the first call is for nodes: node `color` of the last + 1 */
    const char *given = getenv("BX_NODES");
    int nodes, rank;
    if (!split && given && strcmp(given, "turn") == 0) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Allreduce(&color, &nodes, 1, MPI_INT, MPI_MAX, comm);
        color = rank % (nodes + 1);
    }
    split = true;
    return __real_PMPI_Comm_split(comm, color, key, part);
}

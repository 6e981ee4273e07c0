#include "shared.h"

enum { SLACK = 16, UNIT = 16 }; /* bytes: a window is never empty */

bx_shared bx_shared_create(MPI_Comm node, size_t bytes)
{
    bx_shared memory;
    int rank, unit;
    MPI_Aint size;
    MPI_Comm_rank(node, &rank);
    MPI_Aint mine = rank == 0 ? (MPI_Aint)(bytes + SLACK) : 0;
    MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate_shared(mine, UNIT, MPI_INFO_NULL, node, &memory.base, &memory.window) !=
        MPI_SUCCESS) {
        if (rank == 0)
            fprintf(stderr, "no room for %zu bytes of shared memory on this node (/dev/shm?)\n",
                    bytes);
        MPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
    }
    MPI_Comm_set_errhandler(node, MPI_ERRORS_ARE_FATAL);
    MPI_Win_shared_query(memory.window, 0, &size, &unit, &memory.base);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, memory.window);
    return memory;
}

void bx_shared_free(bx_shared *memory)
{
    MPI_Win_unlock_all(memory->window);
    MPI_Win_free(&memory->window);
}

void bx_shared_sync(const bx_shared *memory, MPI_Comm node)
{
    MPI_Win_sync(memory->window);
    MPI_Barrier(node);
    MPI_Win_sync(memory->window);
}

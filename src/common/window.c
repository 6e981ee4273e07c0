#include "window.h"

/* Parts are whole cache lines: MPICH 4.0.2 gets wrong words, without an error, of a part on its
 * node that begins behind one whose size is no multiple of 16 bytes. */
enum { LINE = 64 };

static MPI_Win make(MPI_Comm comm, bool allocate, void **memory, size_t bytes, int unit)
{
    MPI_Win window;
    MPI_Errhandler of_comm, of_world;
    MPI_Comm_get_errhandler(comm, &of_comm);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &of_world);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Aint given = (MPI_Aint)bytes, whole = (given + LINE - 1) / LINE * LINE;
    int code = allocate ? MPI_Win_allocate(whole, unit, MPI_INFO_NULL, comm, memory, &window)
                        : MPI_Win_create(*memory, given, unit, MPI_INFO_NULL, comm, &window);
    int failed = code != MPI_SUCCESS;
    MPI_Comm_set_errhandler(comm, of_comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_world);
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_world);
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm);
    /* where it was made, it cannot be freed by some ranks alone */
    return failed ? MPI_WIN_NULL : window;
}

MPI_Win bx_window_create(MPI_Comm comm, void *buffer, size_t bytes, int unit)
{
    return make(comm, false, &buffer, bytes, unit);
}

bool bx_window_open(MPI_Comm comm, uint64_t **memory, size_t bytes, MPI_Win *window)
{
    void *part = *memory;
    *window = make(comm, !part, &part, bytes, sizeof **memory);
    if (*window == MPI_WIN_NULL) return false;
    *memory = part;
    MPI_Win_lock_all(0, *window);
    return true;
}

void bx_window_close(MPI_Win *window)
{
    if (*window == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(*window);
    MPI_Win_free(window);
}

static void sync_each(const MPI_Win *windows, int count)
{
    for (int i = 0; i < count; i++) MPI_Win_sync(windows[i]);
}

void bx_window_sync(MPI_Comm comm, const MPI_Win *windows, int count)
{
    sync_each(windows, count);
    MPI_Barrier(comm);
    sync_each(windows, count);
}

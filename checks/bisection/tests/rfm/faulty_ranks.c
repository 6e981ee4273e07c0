// A program of which the last rank has the fault that is its argument.
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef LINKED
int elsewhere(void);
#endif
int main(int argc, char **argv)
{
    int rank, size, number[100] = {0}, sum;
    const char *fault = argc > 1 ? argv[1] : "";
    char *memory;
    MPI_Win window;
#ifdef LINKED
    elsewhere();
#endif
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) {
        if (!strcmp(fault, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
        if (!strcmp(fault, "kill")) raise(SIGKILL);
        if (!strcmp(fault, "crash")) raise(SIGSEGV);
        if (!strcmp(fault, "exit")) _Exit(1);
        if (!strcmp(fault, "truncate"))
            MPI_Recv(number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(fault, "truncate") && rank == 0) {
        MPI_Send(number, 100, MPI_INT, size - 1, 0, MPI_COMM_WORLD);
    }
    if (!strcmp(fault, "memory")) {
        MPI_Win_allocate_shared(8 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        memset(memory, 1, 8 << 20);
        MPI_Win_free(&window);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

/* MPI that flips a bit in what arrives, of the exchange that BX_FAULT names, from its call number
 * BX_FAULT_FROM on; with BX_FAULT_ONCE in that call alone.  The files of the kernel are compiled to
 * call these.
 *
 * With BX_FAULT=slow MPI_Wtime is a made-up clock, which no other process disturbs.  Each rank
 * takes a time of its own, of seconds, to write what it sends. */
#include "faulty.h"

#include <mpi.h>

static void *last;         /* where the last message that was asked for arrives */
static MPI_Comm last_comm; /* and among whom */
static double clock_now;   /* s, made up */

double bx_faulty_clock(void) { return faulty("slow") ? clock_now += 1e-5 : PMPI_Wtime(); }

void bx_faulty_clear(const void *buffer, int byte, void *at, size_t bytes)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    clock_now += 1 + rank;
    memset(at, byte, bytes);
}

/* Ranks that wait for each other go on when the last has come.  Returns MPI_SUCCESS. */
int bx_faulty_barrier(MPI_Comm comm)
{
    return PMPI_Allreduce(MPI_IN_PLACE, &clock_now, 1, MPI_DOUBLE, MPI_MAX, comm);
}

static void arrived(const char *exchange, void *buffer)
{
    static long calls;
    if (faulty(exchange) && faulty_call(calls++)) ((unsigned char *)buffer)[5] ^= 16;
}

int bx_faulty_allreduce(const void *sent, void *received, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm)
{
    int code = MPI_Allreduce(sent, received, count, type, op, comm);
    arrived("allreduce", received);
    bx_faulty_barrier(comm);
    return code;
}

int bx_faulty_alltoallv(const void *sent, const int *counts, const int *offsets, MPI_Datatype type,
                        void *received, const int *their_counts, const int *their_offsets,
                        MPI_Datatype their_type, MPI_Comm comm)
{
    int code = MPI_Alltoallv(sent, counts, offsets, type, received, their_counts, their_offsets,
                             their_type, comm);
    arrived("alltoallv", received);
    bx_faulty_barrier(comm);
    return code;
}

int bx_faulty_alltoall(const void *sent, int count, MPI_Datatype type, void *received,
                       int their_count, MPI_Datatype their_type, MPI_Comm comm)
{
    int code = MPI_Alltoall(sent, count, type, received, their_count, their_type, comm);
    arrived("alltoall", received);
    return code;
}

int bx_faulty_broadcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int rank, code = MPI_Bcast(buffer, count, type, root, comm);
    MPI_Comm_rank(comm, &rank);
    if (rank != root) arrived("broadcast", buffer);
    return code;
}

int bx_faulty_irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                    MPI_Request *request)
{
    last = buffer;
    last_comm = comm;
    return MPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int bx_faulty_halo(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int code = MPI_Waitall(count, requests, statuses);
    arrived("halo", last);
    bx_faulty_barrier(last_comm);
    return code;
}

int bx_faulty_incast(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int code = MPI_Waitall(count, requests, statuses);
    arrived("incast", last);
    return code;
}

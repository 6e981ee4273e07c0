/* MPI that flips a bit in what arrives, of the exchange that BX_FAULT names, from its call number
 * BX_FAULT_FROM on; with BX_FAULT_ONCE in that call alone.  The files of the kernel are compiled to
 * call these. */
#include "faulty.h"

#include <mpi.h>

static void *last; /* where the last message that was asked for arrives */

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
    return code;
}

int bx_faulty_alltoallv(const void *sent, const int *counts, const int *offsets, MPI_Datatype type,
                        void *received, const int *their_counts, const int *their_offsets,
                        MPI_Datatype their_type, MPI_Comm comm)
{
    int code = MPI_Alltoallv(sent, counts, offsets, type, received, their_counts, their_offsets,
                             their_type, comm);
    arrived("alltoallv", received);
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
    return MPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int bx_faulty_halo(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int code = MPI_Waitall(count, requests, statuses);
    arrived("halo", last);
    return code;
}

int bx_faulty_incast(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int code = MPI_Waitall(count, requests, statuses);
    arrived("incast", last);
    return code;
}

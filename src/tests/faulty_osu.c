/* The loops of bisection-osu on a made-up clock: each look at it adds one second on rank 0, two on
 * rank 1, and so on.  From look BX_FAULT_FROM on, messages and calls are as BX_FAULT says:
 *
 *   byte  a byte of what arrives is another
 *   skip  nothing is sent, and nothing arrives
 *   slower  each look adds the square of its number
 *
 * The values and the verification are under test. */
#include <mpi.h>

#include "faulty.h"

static long looks;
static double clock_now;
static struct {
    void *received;
    int bytes;
    const MPI_Request *request;
} last; /* receive of a window */

static bool now(const char *fault) { return faulty(fault) && faulty_call(looks); }

static int peer_of(int rank) { return now("skip") ? MPI_PROC_NULL : rank; }

static void spoil(void *received, int bytes)
{
    if (now("byte")) ((char *)received)[bytes / 2] ^= 1;
}

double bx_faulty_wtime(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    looks++;
    return clock_now += (rank + 1) * (now("slower") ? (double)looks * (double)looks : 1);
}

int bx_faulty_send(const void *sent, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    return MPI_Send(sent, count, type, peer_of(to), tag, comm);
}

int bx_faulty_recv(void *received, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                   MPI_Status *status)
{
    int code = MPI_Recv(received, count, type, peer_of(from), tag, comm, status);
    spoil(received, count);
    return code;
}

int bx_faulty_isend(const void *sent, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                    MPI_Request *request)
{
    return MPI_Isend(sent, count, type, peer_of(to), tag, comm, request);
}

int bx_faulty_irecv(void *received, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                    MPI_Request *request)
{
    last.received = received;
    last.bytes = count;
    last.request = request;
    return MPI_Irecv(received, count, type, peer_of(from), tag, comm, request);
}

int bx_faulty_waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    int code = MPI_Waitall(count, requests, statuses);
    if (last.request >= requests && last.request < requests + count)
        spoil(last.received, last.bytes);
    return code;
}

int bx_faulty_alltoall(const void *sent, int count, MPI_Datatype type, void *received,
                       int received_count, MPI_Datatype received_type, MPI_Comm comm)
{
    if (now("skip")) return MPI_SUCCESS;
    int code = MPI_Alltoall(sent, count, type, received, received_count, received_type, comm);
    spoil(received, received_count);
    return code;
}

int bx_faulty_allreduce(const void *sent, void *received, int count, MPI_Datatype type,
                        MPI_Op operation, MPI_Comm comm)
{
    if (now("skip")) return MPI_SUCCESS;
    int code = MPI_Allreduce(sent, received, count, type, operation, comm);
    spoil(received, count);
    return code;
}

/* The pairs on messages broken on purpose, those from rank 0 to the last rank, as BX_FAULT says:
 * `byte` (the last one is another), `swap` (two words change places), `stale` (what the buffer held
 * before is left), `latency` (a word of a round trip), `slow` (they come 20 ms late), `hang` (the
 * last rank stops in its meeting with rank 0).  BX_FAULT_FROM: so many messages are sound.  One
 * rank per node. */
#include "faulty.h"

#include <mpi.h>
#include <stdint.h>
#include <unistd.h>

static struct {
    uint64_t *buffer, *before;
    int words, calls;
    bool slow; /* the message that is waited for next */
} next;

enum { LATE = 20000 }; /* us */

static bool has(const char *fault, int source, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (!faulty(fault) || source != 0 || rank != size - 1) return false;
    return next.calls++ >= faulty_number("BX_FAULT_FROM");
}

static int faulty_recv(void *buffer, int count, MPI_Datatype type, int source, int tag,
                       MPI_Comm comm, MPI_Status *status)
{
    if (has("hang", source, comm))
        for (;;) pause();
    if (has("slow", source, comm)) usleep(LATE);
    int code = MPI_Recv(buffer, count, type, source, tag, comm, status);
    if (has("latency", source, comm)) *(uint64_t *)buffer ^= 1;
    return code;
}

static int faulty_irecv(void *buffer, int count, MPI_Datatype type, int source, int tag,
                        MPI_Comm comm, MPI_Request *request)
{
    size_t bytes = (size_t)count * sizeof(uint64_t);
    bool broken =
        has("byte", source, comm) || has("swap", source, comm) || has("stale", source, comm);
    next.buffer = broken ? buffer : NULL;
    next.slow = has("slow", source, comm);
    if (broken) next.before = memcpy(malloc(bytes), buffer, bytes);
    next.words = count;
    return MPI_Irecv(buffer, count, type, source, tag, comm, request);
}

static int faulty_waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
    if (next.slow) usleep(LATE);
    next.slow = false;
    int code = MPI_Waitall(count, requests, statuses);
    if (!next.buffer) return code;
    uint64_t *last = &next.buffer[next.words - 1], kept = *last;
    if (faulty("byte")) *last ^= UINT64_C(0x5a) << 56;
    if (faulty("swap")) {
        *last = next.buffer[0];
        next.buffer[0] = kept;
    }
    if (faulty("stale")) memcpy(next.buffer, next.before, (size_t)next.words * sizeof *last);
    free(next.before);
    next.buffer = NULL;
    return code;
}

#define MPI_Recv faulty_recv
#define MPI_Irecv faulty_irecv
#define MPI_Waitall faulty_waitall
#include "../network/pairs_measure.c"

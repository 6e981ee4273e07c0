/* MPI's C routines, wrapped: those of profile.def, and some that only C has wrapped. */
#include "calls.h"

static int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

/* Types of parameters, and how they are read. */
#define CBUF const void *
#define BUF void *
#define INT int
#define INTS const int *
#define OUT int *
#define TYPE MPI_Datatype
#define OP MPI_Op
#define COMM MPI_Comm
#define REQUEST MPI_Request *
#define STATUS MPI_Status *
#define GROUP MPI_Group
#define AINT MPI_Aint
#define WIN MPI_Win
#define INT_OF(a) (a)
#define TYPE_OF(a) (a)
#define COMM_OF(a) (a)
#define WIN_OF(a) (a)
#define AT(list, i) (list)[i]
#define BYTES(count, type) bx_count_bytes(count, type)
#define EITHER(buffer, sent, received) ((buffer) == MPI_IN_PLACE ? (received) : (sent))
#define NOTHING (void)0
#define OPENED bx_calls_open(1, *q == MPI_REQUEST_NULL)

#define BARE(...) __VA_ARGS__
/* `sends` is counted before the call; `then` follows it. */
#define WRAP(name, class, comm, blocking, parameters, arguments, sends, then)                      \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static bx_routine self = {#name, {{0}}};                                                   \
        bx_traffic *row = bx_calls_enter(&self, class);                                            \
        if (row) sends;                                                                            \
        double start = bx_calls_start(row, comm, blocking);                                        \
        int status = PMPI_##name arguments;                                                        \
        bx_calls_leave(row, start);                                                                \
        if (row) then;                                                                             \
        return status;                                                                             \
    }
/* Macros of profile.def take parameters and arguments from one macro, as SEND. */
#define P2P(name, small, ...) P2P_(name, __VA_ARGS__)
#define P2P_(name, parameters, arguments, sends)                                                   \
    WRAP(name, BX_P2P, MPI_COMM_NULL, false, parameters, arguments, sends, NOTHING)
#define OPENS(name, small, ...) OPENS_(name, __VA_ARGS__)
#define OPENS_(name, parameters, arguments, sends)                                                 \
    WRAP(name, BX_P2P, MPI_COMM_NULL, false, parameters, arguments, sends, OPENED)
#define BARRIER(name, small, then, parameters, arguments)                                          \
    WRAP(name, BX_BARRIER, MPI_COMM_NULL, false, parameters, arguments, NOTHING, then)
#define COLLECTIVE(name, small, ...) COLLECTIVE_(name, small, __VA_ARGS__)
#define COLLECTIVE_(name, small, parameters, arguments, sends)                                     \
    WRAP(name, BX_COLLECTIVE, comm, true, parameters, arguments, sends, NOTHING)                   \
    WRAP(I##small, BX_COLLECTIVE, comm, false, (BARE parameters, MPI_Request * q),                 \
         (BARE arguments, q), sends, (OPENED, bx_calls_remember(*q)))
#define RMA(name, small, parameters, arguments, sends)                                             \
    WRAP(name, BX_ONE_SIDED, MPI_COMM_NULL, false, parameters, arguments, sends, NOTHING)
/* Completion: of a collective's request it is the collective's time.  `active`: requests that were
 * under way before. */
#define WAITING(name, small, count, ended, parameters, arguments)                                  \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static bx_routine self = {#name, {{0}}};                                                   \
        bx_traffic *row =                                                                          \
            bx_calls_enter(&self, bx_calls.requests ? bx_calls_class_of(count, q) : BX_P2P);       \
        int active = row ? bx_calls_active(count, q) : 0;                                          \
        (void)active;                                                                              \
        double start = bx_calls_start(row, MPI_COMM_NULL, false);                                  \
        int status = PMPI_##name arguments;                                                        \
        bx_calls_leave(row, start);                                                                \
        if (row && bx_calls.requests) bx_calls_forget(count, q);                                   \
        if (row) bx_calls_close(ended);                                                            \
        return status;                                                                             \
    }

#include "profile.def"

/* clang-format off */

/* Persistent requests of receives need no wrapper: nothing is sent, and their time is in the wait. */
#define INIT(name, ...) INIT_(name, __VA_ARGS__)
#define INIT_(name, parameters, arguments, then)                                                   \
    WRAP(name, BX_P2P, MPI_COMM_NULL, false, parameters, arguments, NOTHING, then)
INIT(Send_init, ISEND, bx_count_to(bx_count_bind(*q, BX_P2P), comm, peer, BYTES(n, t)))
#ifdef BX_MPI_4
INIT(Psend_init,
    (CBUF b, int parts, MPI_Count n, TYPE t, int peer, int tag, COMM comm, MPI_Info info, REQUEST q),
    (b, parts, n, t, peer, tag, comm, info, q),
    bx_count_to(bx_count_bind(*q, BX_P2P), comm, peer, (double)parts * (double)n * BYTES(1, t)))
P2P(Pready, pready, (int part, MPI_Request q), (part, q), NOTHING)
#define SUM_INIT (CBUF b, BUF rb, INT n, TYPE t, OP op, COMM comm, MPI_Info info, REQUEST q), \
    (b, rb, n, t, op, comm, info, q)
INIT(Allreduce_init, SUM_INIT,
    bx_count_ring(bx_count_bind(*q, BX_COLLECTIVE), comm, BYTES(n, t)))
INIT(Alltoallv_init,
    (CBUF b, INTS n, INTS d, TYPE t, BUF rb, INTS rn, INTS rd, TYPE rt, COMM comm, MPI_Info info,
     REQUEST q),
    (b, n, d, t, rb, rn, rd, rt, comm, info, q),
    bx_count_alltoallv(bx_count_bind(*q, BX_COLLECTIVE), comm, EITHER(b, n, rn), EITHER(b, t, rt)))
#endif
#define STARTS(name, count, parameters, arguments)                                                 \
    WRAP(name, bx_calls.bound ? bx_count_class_of(count, q) : BX_P2P, MPI_COMM_NULL, false,        \
         parameters, arguments,                                                                    \
         bx_count_started(row, count, q), bx_calls_open(count, 0))
STARTS(Start, 1, (MPI_Request *q), (q))
STARTS(Startall, n, (int n, MPI_Request *q), (n, q))
int MPI_Request_free(MPI_Request *q)
{
    bx_count_unbind(*q);
    return PMPI_Request_free(q);
}

COLLECTIVE(Alltoallw, alltoallw,
    (CBUF b, INTS n, INTS d, const TYPE *t, BUF rb, INTS rn, INTS rd, const TYPE *rt, COMM comm),
    (b, n, d, t, rb, rn, rd, rt, comm),
    bx_count_alltoallw(row, comm, EITHER(b, n, rn), EITHER(b, t, rt)))
#ifndef SMPI_H /* which has no neighbourhoods, no disks, another signature of MPI_Compare_and_swap */
COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv,
    (CBUF b, INTS n, INTS d, TYPE t, BUF rb, INTS rn, INTS rd, TYPE rt, COMM comm),
    (b, n, d, t, rb, rn, rd, rt, comm), bx_count_neighbours(row, comm, n, t))
RMA(Compare_and_swap, compare_and_swap,
    (CBUF b, CBUF cb, BUF rb, TYPE t, INT target, AINT d, WIN win),
    (b, cb, rb, t, target, d, win), bx_count_to_window(row, win, target, BYTES(1, t)))

/* Files: HDF5's too. */
#define FILES(name, ...) FILES_(name, __VA_ARGS__)
#define FILES_(name, parameters, arguments)                                                        \
    WRAP(name, BX_FILE, MPI_COMM_NULL, false, parameters, arguments, NOTHING, NOTHING)
#define PLACE (MPI_File f, MPI_Offset at, BUF b, INT n, TYPE t, STATUS s), (f, at, b, n, t, s)
#define CPLACE (MPI_File f, MPI_Offset at, CBUF b, INT n, TYPE t, STATUS s), (f, at, b, n, t, s)
#define VIEWED (MPI_File f, BUF b, INT n, TYPE t, STATUS s), (f, b, n, t, s)
#define CVIEWED (MPI_File f, CBUF b, INT n, TYPE t, STATUS s), (f, b, n, t, s)
FILES(File_open, (COMM comm, const char *name, INT mode, MPI_Info info, MPI_File *f),
    (comm, name, mode, info, f))
FILES(File_close, (MPI_File *f), (f))
WRAP(File_sync, BX_FILE, MPI_COMM_NULL, false, (MPI_File f), (f), bx_file_note_sync(), NOTHING)
FILES(File_read, VIEWED)
FILES(File_read_all, VIEWED)
FILES(File_read_at, PLACE)
FILES(File_read_at_all, PLACE)
FILES(File_write, CVIEWED)
FILES(File_write_all, CVIEWED)
FILES(File_write_at, CPLACE)
FILES(File_write_at_all, CPLACE)
#endif

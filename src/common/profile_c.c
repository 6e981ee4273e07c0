/* MPI's C routines, wrapped.  One line a routine: name, parameters, arguments, and what it sends.
 */
#include "profile.h"

static int comm_rank(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

#define WRAP(class, comm, blocking, name, parameters, arguments, sends)                            \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static bx_routine self = {#name, {{0}}};                                                   \
        bx_call call = bx_profile_enter(&self, class, comm, blocking);                             \
        int status = PMPI_##name arguments;                                                        \
        bx_profile_leave(&call);                                                                   \
        if (call.row) sends;                                                                       \
        return status;                                                                             \
    }
#define P2P(name, parameters, arguments, sends)                                                    \
    WRAP(BX_P2P, MPI_COMM_NULL, false, name, parameters, arguments, sends)
#define COLL(name, parameters, arguments, sends)                                                   \
    WRAP(BX_COLLECTIVE, comm, true, name, parameters, arguments, sends)
#define ICOLL(name, parameters, arguments, sends)                                                  \
    WRAP(BX_COLLECTIVE, comm, false, name, parameters, arguments, (sends, bx_profile_remember(*q)))
/* Completion: of a collective's request it is the collective's time. */
#define WAITING(name, count, parameters, arguments)                                                \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static bx_routine self = {#name, {{0}}};                                                   \
        bx_call call =                                                                             \
            bx_profile_enter(&self, bx_profile_class_of(count, q), MPI_COMM_NULL, false);          \
        int status = PMPI_##name arguments;                                                        \
        bx_profile_leave(&call);                                                                   \
        bx_profile_forget(count, q);                                                               \
        return status;                                                                             \
    }
#define RMA(name, parameters, arguments, sends)                                                    \
    WRAP(BX_ONE_SIDED, MPI_COMM_NULL, false, name, parameters, arguments, sends)
#define NOTHING (void)0
#define BYTES(count, type) bx_profile_bytes(count, type)
/* With MPI_IN_PLACE the send count and type are ignored. */
#define SENT(b, n, t, rn, rt) ((b) == MPI_IN_PLACE ? BYTES(rn, rt) : BYTES(n, t))

/* clang-format off */

/* ---- point-to-point ---- */
#define SEND_PARAMETERS (const void *b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm)
#define ISEND_PARAMETERS (const void *b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request *q)
#define SENDS_ONE bx_profile_to(&call, comm, peer, BYTES(n, t))
P2P(Send, SEND_PARAMETERS, (b, n, t, peer, tag, comm), SENDS_ONE)
P2P(Ssend, SEND_PARAMETERS, (b, n, t, peer, tag, comm), SENDS_ONE)
P2P(Rsend, SEND_PARAMETERS, (b, n, t, peer, tag, comm), SENDS_ONE)
P2P(Bsend, SEND_PARAMETERS, (b, n, t, peer, tag, comm), SENDS_ONE)
P2P(Isend, ISEND_PARAMETERS, (b, n, t, peer, tag, comm, q), SENDS_ONE)
P2P(Issend, ISEND_PARAMETERS, (b, n, t, peer, tag, comm, q), SENDS_ONE)
P2P(Irsend, ISEND_PARAMETERS, (b, n, t, peer, tag, comm, q), SENDS_ONE)
P2P(Recv, (void *b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Status *s), (b, n, t, peer, tag, comm, s), NOTHING)
P2P(Irecv, (void *b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm comm, MPI_Request *q), (b, n, t, peer, tag, comm, q), NOTHING)
P2P(Sendrecv, (const void *b, int n, MPI_Datatype t, int peer, int tag, void *rb, int rn, MPI_Datatype rt, int source, int rtag, MPI_Comm comm, MPI_Status *s), (b, n, t, peer, tag, rb, rn, rt, source, rtag, comm, s), SENDS_ONE)
P2P(Sendrecv_replace, (void *b, int n, MPI_Datatype t, int peer, int tag, int source, int rtag, MPI_Comm comm, MPI_Status *s), (b, n, t, peer, tag, source, rtag, comm, s), SENDS_ONE)
WAITING(Wait, 1, (MPI_Request *q, MPI_Status *s), (q, s))
WAITING(Waitall, n, (int n, MPI_Request q[], MPI_Status s[]), (n, q, s))
WAITING(Waitany, n, (int n, MPI_Request q[], int *i, MPI_Status *s), (n, q, i, s))
WAITING(Waitsome, n, (int n, MPI_Request q[], int *m, int i[], MPI_Status s[]), (n, q, m, i, s))
WAITING(Test, 1, (MPI_Request *q, int *f, MPI_Status *s), (q, f, s))
WAITING(Testall, n, (int n, MPI_Request q[], int *f, MPI_Status s[]), (n, q, f, s))
WAITING(Testany, n, (int n, MPI_Request q[], int *i, int *f, MPI_Status *s), (n, q, i, f, s))
WAITING(Testsome, n, (int n, MPI_Request q[], int *m, int i[], MPI_Status s[]), (n, q, m, i, s))
P2P(Probe, (int peer, int tag, MPI_Comm comm, MPI_Status *s), (peer, tag, comm, s), NOTHING)
P2P(Iprobe, (int peer, int tag, MPI_Comm comm, int *f, MPI_Status *s), (peer, tag, comm, f, s), NOTHING)

/* Persistent requests of receives need no wrapper: nothing is sent, and their time is in the wait. */
P2P(Send_init, ISEND_PARAMETERS, (b, n, t, peer, tag, comm, q), bx_profile_bind(*q, comm, peer, BYTES(n, t)))
P2P(Start, (MPI_Request *q), (q), bx_profile_started(&call, 1, q))
P2P(Startall, (int n, MPI_Request q[]), (n, q), bx_profile_started(&call, n, q))
int MPI_Request_free(MPI_Request *q)
{
    bx_profile_unbind(*q);
    return PMPI_Request_free(q);
}

/* ---- barrier ---- */
WRAP(BX_BARRIER, MPI_COMM_NULL, false, Barrier, (MPI_Comm comm), (comm), NOTHING)
WRAP(BX_BARRIER, MPI_COMM_NULL, false, Ibarrier, (MPI_Comm comm, MPI_Request *q), (comm, q), NOTHING)

/* ---- collective; each blocking one with its non-blocking sibling ---- */
COLL(Bcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm comm), (b, n, t, root, comm), bx_profile_from_root(&call, comm, root, BYTES(n, t)))
ICOLL(Ibcast, (void *b, int n, MPI_Datatype t, int root, MPI_Comm comm, MPI_Request *q), (b, n, t, root, comm, q), bx_profile_from_root(&call, comm, root, BYTES(n, t)))
COLL(Reduce, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm), (b, rb, n, t, op, root, comm), bx_profile_to(&call, comm, root, BYTES(n, t)))
ICOLL(Ireduce, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm, MPI_Request *q), (b, rb, n, t, op, root, comm, q), bx_profile_to(&call, comm, root, BYTES(n, t)))
COLL(Allreduce, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), (b, rb, n, t, op, comm), bx_profile_ring(&call, comm, BYTES(n, t)))
ICOLL(Iallreduce, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *q), (b, rb, n, t, op, comm, q), bx_profile_ring(&call, comm, BYTES(n, t)))
COLL(Scan, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), (b, rb, n, t, op, comm), bx_profile_ring(&call, comm, BYTES(n, t)))
ICOLL(Iscan, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *q), (b, rb, n, t, op, comm, q), bx_profile_ring(&call, comm, BYTES(n, t)))
COLL(Exscan, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), (b, rb, n, t, op, comm), bx_profile_ring(&call, comm, BYTES(n, t)))
ICOLL(Iexscan, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *q), (b, rb, n, t, op, comm, q), bx_profile_ring(&call, comm, BYTES(n, t)))
COLL(Gather, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int root, MPI_Comm comm), (b, n, t, rb, rn, rt, root, comm), bx_profile_to(&call, comm, root, BYTES(n, t)))
ICOLL(Igather, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int root, MPI_Comm comm, MPI_Request *q), (b, n, t, rb, rn, rt, root, comm, q), bx_profile_to(&call, comm, root, BYTES(n, t)))
COLL(Gatherv, (const void *b, int n, MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, int root, MPI_Comm comm), (b, n, t, rb, rn, rd, rt, root, comm), bx_profile_to(&call, comm, root, BYTES(n, t)))
ICOLL(Igatherv, (const void *b, int n, MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, int root, MPI_Comm comm, MPI_Request *q), (b, n, t, rb, rn, rd, rt, root, comm, q), bx_profile_to(&call, comm, root, BYTES(n, t)))
COLL(Scatter, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int root, MPI_Comm comm), (b, n, t, rb, rn, rt, root, comm), bx_profile_from_root(&call, comm, root, BYTES(n, t)))
ICOLL(Iscatter, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int root, MPI_Comm comm, MPI_Request *q), (b, n, t, rb, rn, rt, root, comm, q), bx_profile_from_root(&call, comm, root, BYTES(n, t)))
COLL(Scatterv, (const void *b, const int n[], const int d[], MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int root, MPI_Comm comm), (b, n, d, t, rb, rn, rt, root, comm), bx_profile_scatterv(&call, comm, root, n, t))
ICOLL(Iscatterv, (const void *b, const int n[], const int d[], MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int root, MPI_Comm comm, MPI_Request *q), (b, n, d, t, rb, rn, rt, root, comm, q), bx_profile_scatterv(&call, comm, root, n, t))
COLL(Allgather, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, MPI_Comm comm), (b, n, t, rb, rn, rt, comm), bx_profile_to_all(&call, comm, SENT(b, n, t, rn, rt)))
ICOLL(Iallgather, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, MPI_Comm comm, MPI_Request *q), (b, n, t, rb, rn, rt, comm, q), bx_profile_to_all(&call, comm, SENT(b, n, t, rn, rt)))
COLL(Allgatherv, (const void *b, int n, MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm), (b, n, t, rb, rn, rd, rt, comm), bx_profile_to_all(&call, comm, SENT(b, n, t, rn[comm_rank(comm)], rt)))
ICOLL(Iallgatherv, (const void *b, int n, MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm, MPI_Request *q), (b, n, t, rb, rn, rd, rt, comm, q), bx_profile_to_all(&call, comm, SENT(b, n, t, rn[comm_rank(comm)], rt)))
COLL(Alltoall, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, MPI_Comm comm), (b, n, t, rb, rn, rt, comm), bx_profile_to_all(&call, comm, SENT(b, n, t, rn, rt)))
ICOLL(Ialltoall, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, MPI_Comm comm, MPI_Request *q), (b, n, t, rb, rn, rt, comm, q), bx_profile_to_all(&call, comm, SENT(b, n, t, rn, rt)))
COLL(Alltoallv, (const void *b, const int n[], const int d[], MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm), (b, n, d, t, rb, rn, rd, rt, comm), bx_profile_alltoallv(&call, comm, b == MPI_IN_PLACE ? rn : n, b == MPI_IN_PLACE ? rt : t))
ICOLL(Ialltoallv, (const void *b, const int n[], const int d[], MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm, MPI_Request *q), (b, n, d, t, rb, rn, rd, rt, comm, q), bx_profile_alltoallv(&call, comm, b == MPI_IN_PLACE ? rn : n, b == MPI_IN_PLACE ? rt : t))
COLL(Alltoallw, (const void *b, const int n[], const int d[], const MPI_Datatype t[], void *rb, const int rn[], const int rd[], const MPI_Datatype rt[], MPI_Comm comm), (b, n, d, t, rb, rn, rd, rt, comm), bx_profile_alltoallw(&call, comm, b == MPI_IN_PLACE ? rn : n, b == MPI_IN_PLACE ? rt : t))
ICOLL(Ialltoallw, (const void *b, const int n[], const int d[], const MPI_Datatype t[], void *rb, const int rn[], const int rd[], const MPI_Datatype rt[], MPI_Comm comm, MPI_Request *q), (b, n, d, t, rb, rn, rd, rt, comm, q), bx_profile_alltoallw(&call, comm, b == MPI_IN_PLACE ? rn : n, b == MPI_IN_PLACE ? rt : t))
COLL(Reduce_scatter_block, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm), (b, rb, n, t, op, comm), bx_profile_to_all(&call, comm, BYTES(n, t)))
ICOLL(Ireduce_scatter_block, (const void *b, void *rb, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *q), (b, rb, n, t, op, comm, q), bx_profile_to_all(&call, comm, BYTES(n, t)))
COLL(Reduce_scatter, (const void *b, void *rb, const int n[], MPI_Datatype t, MPI_Op op, MPI_Comm comm), (b, rb, n, t, op, comm), bx_profile_alltoallv(&call, comm, n, t))
ICOLL(Ireduce_scatter, (const void *b, void *rb, const int n[], MPI_Datatype t, MPI_Op op, MPI_Comm comm, MPI_Request *q), (b, rb, n, t, op, comm, q), bx_profile_alltoallv(&call, comm, n, t))

#ifndef SMPI_H /* which has no neighbourhoods */
#define NEIGHBOURS_PARAMETERS const void *b, const int n[], const int d[], MPI_Datatype t, void *rb, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm
COLL(Neighbor_alltoallv, (NEIGHBOURS_PARAMETERS), (b, n, d, t, rb, rn, rd, rt, comm), bx_profile_neighbours(&call, comm, n, t))
ICOLL(Ineighbor_alltoallv, (NEIGHBOURS_PARAMETERS, MPI_Request *q), (b, n, d, t, rb, rn, rd, rt, comm, q), bx_profile_neighbours(&call, comm, n, t))
#endif

/* ---- one-sided ---- */
#define TO_TARGET bx_profile_to_window(&call, win, target, BYTES(n, t))
RMA(Put, (const void *b, int n, MPI_Datatype t, int target, MPI_Aint d, int tn, MPI_Datatype tt, MPI_Win win), (b, n, t, target, d, tn, tt, win), TO_TARGET)
RMA(Get, (void *b, int n, MPI_Datatype t, int target, MPI_Aint d, int tn, MPI_Datatype tt, MPI_Win win), (b, n, t, target, d, tn, tt, win), TO_TARGET)
RMA(Accumulate, (const void *b, int n, MPI_Datatype t, int target, MPI_Aint d, int tn, MPI_Datatype tt, MPI_Op op, MPI_Win win), (b, n, t, target, d, tn, tt, op, win), TO_TARGET)
RMA(Get_accumulate, (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int target, MPI_Aint d, int tn, MPI_Datatype tt, MPI_Op op, MPI_Win win), (b, n, t, rb, rn, rt, target, d, tn, tt, op, win), TO_TARGET)
RMA(Fetch_and_op, (const void *b, void *rb, MPI_Datatype t, int target, MPI_Aint d, MPI_Op op, MPI_Win win), (b, rb, t, target, d, op, win), bx_profile_to_window(&call, win, target, BYTES(1, t)))
#ifndef SMPI_H /* whose signature differs */
RMA(Compare_and_swap, (const void *b, const void *cb, void *rb, MPI_Datatype t, int target, MPI_Aint d, MPI_Win win), (b, cb, rb, t, target, d, win), bx_profile_to_window(&call, win, target, BYTES(1, t)))
#endif
RMA(Win_fence, (int assert, MPI_Win win), (assert, win), NOTHING)
RMA(Win_lock, (int type, int target, int assert, MPI_Win win), (type, target, assert, win), NOTHING)
RMA(Win_unlock, (int target, MPI_Win win), (target, win), NOTHING)
RMA(Win_lock_all, (int assert, MPI_Win win), (assert, win), NOTHING)
RMA(Win_unlock_all, (MPI_Win win), (win), NOTHING)
RMA(Win_flush, (int target, MPI_Win win), (target, win), NOTHING)
RMA(Win_flush_all, (MPI_Win win), (win), NOTHING)
RMA(Win_flush_local, (int target, MPI_Win win), (target, win), NOTHING)
RMA(Win_flush_local_all, (MPI_Win win), (win), NOTHING)
RMA(Win_sync, (MPI_Win win), (win), NOTHING)
RMA(Win_post, (MPI_Group group, int assert, MPI_Win win), (group, assert, win), NOTHING)
RMA(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win), NOTHING)
RMA(Win_complete, (MPI_Win win), (win), NOTHING)
RMA(Win_wait, (MPI_Win win), (win), NOTHING)

/* MPI's Fortran routines, wrapped: those of mpif.h and the mpi module (mpi_send_) and those of
 * mpi_f08 (mpi_send_f08_).  Their C counterparts are called inside the MPI library, out of reach of
 * profile_c.c.  Every argument is an address; a handle's first integer is its Fortran handle in
 * both bindings.  A library whose Fortran routines call the public C ones (MPICH) is counted once,
 * as only the outermost call counts.  Waiting for a non-blocking collective is booked as
 * point-to-point here. */
#include "profile.h"

#define INT(a) (*(const MPI_Fint *)(a))
#define TYPE(a) PMPI_Type_f2c(INT(a))
#define COMM(a) PMPI_Comm_f2c(INT(a))
#define WIN(a) PMPI_Win_f2c(INT(a))
#define BYTES(count, type) bx_profile_bytes(INT(count), TYPE(type))
#define NOTHING (void)0

/* Where Fortran's MPI_IN_PLACE is, by the spelling of the compiler: Open MPI's names. */
extern int mpi_fortran_in_place __attribute__((weak));
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_in_place__ __attribute__((weak));
static bool in_place(const void *buffer)
{
    return buffer == MPI_IN_PLACE || (&mpi_fortran_in_place && buffer == &mpi_fortran_in_place) ||
           (&mpi_fortran_in_place_ && buffer == &mpi_fortran_in_place_) ||
           (&mpi_fortran_in_place__ && buffer == &mpi_fortran_in_place__);
}
/* Then the send arguments are ignored, and the receive ones hold. */
#define EITHER(a, sent, received) (in_place(a) ? (received) : (sent))

static int own(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

/* `other` is what MPICH calls the routine behind its mpi_f08. */
#define ONE(name, symbol, forward, other, class, comm, blocking, parameters, arguments, sends)     \
    extern void forward parameters __attribute__((weak));                                          \
    extern void other parameters __attribute__((weak));                                            \
    void symbol parameters;                                                                        \
    void symbol parameters                                                                         \
    {                                                                                              \
        static bx_routine self = {#name, {{0}}};                                                   \
        bx_call call = bx_profile_enter(&self, class, comm, blocking);                             \
        (forward ? forward : other) arguments;                                                     \
        bx_profile_leave(&call);                                                                   \
        if (call.row) sends;                                                                       \
    }
#define WRAP(name, class, comm, blocking, parameters, arguments, sends)                            \
    ONE(name, mpi_##name##_, pmpi_##name##_, pmpir_##name##_, class, comm, blocking, parameters,   \
        arguments, sends)                                                                          \
    ONE(name, mpi_##name##_f08_, pmpi_##name##_f08_, pmpir_##name##_f08_, class, comm, blocking,   \
        parameters, arguments, sends)
#define P2P(name, n, sends) WRAP(name, BX_P2P, MPI_COMM_NULL, false, P##n, A##n, sends)
#define COLL(name, n, comm, sends) WRAP(name, BX_COLLECTIVE, COMM(comm), true, P##n, A##n, sends)
#define ICOLL(name, n, sends) WRAP(name, BX_COLLECTIVE, MPI_COMM_NULL, false, P##n, A##n, sends)
#define BARRIER(name, n) WRAP(name, BX_BARRIER, MPI_COMM_NULL, false, P##n, A##n, NOTHING)
#define RMA(name, n, sends) WRAP(name, BX_ONE_SIDED, MPI_COMM_NULL, false, P##n, A##n, sends)

/* clang-format off */

/* n addresses: the routine's arguments and, last, its status */
#define P2 (void *a1, void *a2)
#define A2 (a1, a2)
#define P3 (void *a1, void *a2, void *a3)
#define A3 (a1, a2, a3)
#define P4 (void *a1, void *a2, void *a3, void *a4)
#define A4 (a1, a2, a3, a4)
#define P5 (void *a1, void *a2, void *a3, void *a4, void *a5)
#define A5 (a1, a2, a3, a4, a5)
#define P6 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6)
#define A6 (a1, a2, a3, a4, a5, a6)
#define P7 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7)
#define A7 (a1, a2, a3, a4, a5, a6, a7)
#define P8 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7, void *a8)
#define A8 (a1, a2, a3, a4, a5, a6, a7, a8)
#define P9 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7, void *a8, void *a9)
#define A9 (a1, a2, a3, a4, a5, a6, a7, a8, a9)
#define P10 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7, void *a8, void *a9, void *a10)
#define A10 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)
#define P11 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7, void *a8, void *a9, void *a10, void *a11)
#define A11 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11)
#define P12 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7, void *a8, void *a9, void *a10, void *a11, void *a12)
#define A12 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12)
#define P13 (void *a1, void *a2, void *a3, void *a4, void *a5, void *a6, void *a7, void *a8, void *a9, void *a10, void *a11, void *a12, void *a13)
#define A13 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13)

/* ---- point-to-point ---- */
#define SENDS_ONE bx_profile_to(&call, COMM(a6), INT(a4), BYTES(a2, a3))
P2P(send, 7, SENDS_ONE)
P2P(ssend, 7, SENDS_ONE)
P2P(rsend, 7, SENDS_ONE)
P2P(bsend, 7, SENDS_ONE)
P2P(isend, 8, SENDS_ONE)
P2P(issend, 8, SENDS_ONE)
P2P(irsend, 8, SENDS_ONE)
P2P(recv, 8, NOTHING)
P2P(irecv, 8, NOTHING)
P2P(sendrecv, 13, bx_profile_to(&call, COMM(a11), INT(a4), BYTES(a2, a3)))
P2P(sendrecv_replace, 10, bx_profile_to(&call, COMM(a8), INT(a4), BYTES(a2, a3)))
P2P(wait, 3, NOTHING)
P2P(waitall, 4, NOTHING)
P2P(waitany, 5, NOTHING)
P2P(waitsome, 6, NOTHING)
P2P(test, 4, NOTHING)
P2P(testall, 5, NOTHING)
P2P(testany, 6, NOTHING)
P2P(testsome, 6, NOTHING)
P2P(probe, 5, NOTHING)
P2P(iprobe, 6, NOTHING)

/* ---- barrier ---- */
BARRIER(barrier, 2)
BARRIER(ibarrier, 3)

/* ---- collective ---- */
COLL(bcast, 6, a5, bx_profile_from_root(&call, COMM(a5), INT(a4), BYTES(a2, a3)))
ICOLL(ibcast, 7, bx_profile_from_root(&call, COMM(a5), INT(a4), BYTES(a2, a3)))
COLL(reduce, 8, a7, bx_profile_to(&call, COMM(a7), INT(a6), BYTES(a3, a4)))
ICOLL(ireduce, 9, bx_profile_to(&call, COMM(a7), INT(a6), BYTES(a3, a4)))
COLL(allreduce, 7, a6, bx_profile_ring(&call, COMM(a6), BYTES(a3, a4)))
ICOLL(iallreduce, 8, bx_profile_ring(&call, COMM(a6), BYTES(a3, a4)))
COLL(scan, 7, a6, bx_profile_ring(&call, COMM(a6), BYTES(a3, a4)))
ICOLL(iscan, 8, bx_profile_ring(&call, COMM(a6), BYTES(a3, a4)))
COLL(exscan, 7, a6, bx_profile_ring(&call, COMM(a6), BYTES(a3, a4)))
ICOLL(iexscan, 8, bx_profile_ring(&call, COMM(a6), BYTES(a3, a4)))
COLL(gather, 9, a8, bx_profile_to(&call, COMM(a8), INT(a7), BYTES(a2, a3)))
ICOLL(igather, 10, bx_profile_to(&call, COMM(a8), INT(a7), BYTES(a2, a3)))
COLL(gatherv, 10, a9, bx_profile_to(&call, COMM(a9), INT(a8), BYTES(a2, a3)))
ICOLL(igatherv, 11, bx_profile_to(&call, COMM(a9), INT(a8), BYTES(a2, a3)))
COLL(scatter, 9, a8, bx_profile_from_root(&call, COMM(a8), INT(a7), BYTES(a2, a3)))
ICOLL(iscatter, 10, bx_profile_from_root(&call, COMM(a8), INT(a7), BYTES(a2, a3)))
COLL(scatterv, 10, a9, bx_profile_scatterv(&call, COMM(a9), INT(a8), a2, TYPE(a4)))
ICOLL(iscatterv, 11, bx_profile_scatterv(&call, COMM(a9), INT(a8), a2, TYPE(a4)))
COLL(allgather, 8, a7, bx_profile_to_all(&call, COMM(a7), BYTES(EITHER(a1, a2, a5), EITHER(a1, a3, a6))))
ICOLL(iallgather, 9, bx_profile_to_all(&call, COMM(a7), BYTES(EITHER(a1, a2, a5), EITHER(a1, a3, a6))))
COLL(allgatherv, 9, a8, bx_profile_to_all(&call, COMM(a8), BYTES(EITHER(a1, a2, (MPI_Fint *)a5 + own(COMM(a8))), EITHER(a1, a3, a7))))
ICOLL(iallgatherv, 10, bx_profile_to_all(&call, COMM(a8), BYTES(EITHER(a1, a2, (MPI_Fint *)a5 + own(COMM(a8))), EITHER(a1, a3, a7))))
COLL(alltoall, 8, a7, bx_profile_to_all(&call, COMM(a7), BYTES(EITHER(a1, a2, a5), EITHER(a1, a3, a6))))
ICOLL(ialltoall, 9, bx_profile_to_all(&call, COMM(a7), BYTES(EITHER(a1, a2, a5), EITHER(a1, a3, a6))))
COLL(alltoallv, 10, a9, bx_profile_alltoallv(&call, COMM(a9), EITHER(a1, a2, a6), TYPE(EITHER(a1, a4, a8))))
ICOLL(ialltoallv, 11, bx_profile_alltoallv(&call, COMM(a9), EITHER(a1, a2, a6), TYPE(EITHER(a1, a4, a8))))
COLL(reduce_scatter_block, 7, a6, bx_profile_to_all(&call, COMM(a6), BYTES(a3, a4)))
ICOLL(ireduce_scatter_block, 8, bx_profile_to_all(&call, COMM(a6), BYTES(a3, a4)))
COLL(reduce_scatter, 7, a6, bx_profile_alltoallv(&call, COMM(a6), a3, TYPE(a4)))
ICOLL(ireduce_scatter, 8, bx_profile_alltoallv(&call, COMM(a6), a3, TYPE(a4)))

/* ---- one-sided ---- */
#define TO_TARGET(win) bx_profile_to_window(&call, WIN(win), INT(a4), BYTES(a2, a3))
RMA(put, 9, TO_TARGET(a8))
RMA(get, 9, TO_TARGET(a8))
RMA(accumulate, 10, TO_TARGET(a9))
RMA(win_fence, 3, NOTHING)
RMA(win_lock, 5, NOTHING)
RMA(win_unlock, 3, NOTHING)
RMA(win_lock_all, 3, NOTHING)
RMA(win_unlock_all, 2, NOTHING)
RMA(win_flush, 3, NOTHING)
RMA(win_flush_all, 2, NOTHING)
RMA(fetch_and_op, 8, bx_profile_to_window(&call, WIN(a7), INT(a4), bx_profile_bytes(1, TYPE(a3))))

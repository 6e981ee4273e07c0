/* MPI's Fortran routines, wrapped: those of mpif.h and the mpi module (mpi_send_) and those of
 * mpi_f08 (mpi_send_f08_).  Their C counterparts are called inside the MPI library, out of reach of
 * profile_c.c.  Every argument is an address; a handle's first integer is its Fortran handle in
 * both bindings.  A library whose Fortran routines call the public C ones (MPICH) is counted once,
 * as only the outermost call counts.  Waiting for a non-blocking collective is booked as
 * point-to-point here. */
#include "calls.h"

/* Types of parameters, and how they are read. */
#define CBUF void *
#define BUF void *
#define INT void *
#define INTS void *
#define OUT void *
#define TYPE void *
#define OP void *
#define COMM void *
#define REQUEST void *
#define STATUS void *
#define GROUP void *
#define AINT void *
#define WIN void *
#define INT_OF(a) (*(const MPI_Fint *)(a))
#define TYPE_OF(a) PMPI_Type_f2c(INT_OF(a))
#define COMM_OF(a) PMPI_Comm_f2c(INT_OF(a))
#define WIN_OF(a) PMPI_Win_f2c(INT_OF(a))
#define AT(list, i) (void *)((MPI_Fint *)(list) + (i))
#define BYTES(count, type) bx_count_bytes(INT_OF(count), TYPE_OF(type))
#define NOTHING (void)0

/* Where Fortran's MPI_IN_PLACE is: Open MPI's names, by the spelling of the compiler; MPICH's. */
extern int mpi_fortran_in_place __attribute__((weak));
extern int mpi_fortran_in_place_ __attribute__((weak));
extern int mpi_fortran_in_place__ __attribute__((weak));
extern void *MPIR_F_MPI_IN_PLACE __attribute__((weak));
static bool in_place(const void *buffer)
{
    if (&MPIR_F_MPI_IN_PLACE && buffer == MPIR_F_MPI_IN_PLACE) return true;
    return buffer == MPI_IN_PLACE || (&mpi_fortran_in_place && buffer == &mpi_fortran_in_place) ||
           (&mpi_fortran_in_place_ && buffer == &mpi_fortran_in_place_) ||
           (&mpi_fortran_in_place__ && buffer == &mpi_fortran_in_place__);
}
#define EITHER(buffer, sent, received) (in_place(buffer) ? (received) : (sent))

static int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

#define BARE(...) __VA_ARGS__
/* `other` is what MPICH calls the routine behind its mpi_f08. */
#define ONE(text, symbol, forward, other, class, comm, blocking, parameters, arguments, sends)     \
    extern void forward(BARE parameters, void *error) __attribute__((weak));                       \
    extern void other(BARE parameters, void *error) __attribute__((weak));                         \
    void symbol(BARE parameters, void *error)                                                      \
    {                                                                                              \
        static bx_routine self = {#text, {{0}}};                                                   \
        bx_traffic *row = bx_calls_enter(&self, class);                                            \
        if (row) sends;                                                                            \
        double start = bx_calls_start(row, comm, blocking);                                        \
        (forward ? forward : other)(BARE arguments, error);                                        \
        bx_calls_leave(row, start);                                                                \
    }
#define WRAP(text, name, class, comm, blocking, parameters, arguments, sends)                      \
    ONE(text, mpi_##name##_, pmpi_##name##_, pmpir_##name##_, class, comm, blocking, parameters,   \
        arguments, sends)                                                                          \
    ONE(text, mpi_##name##_f08_, pmpi_##name##_f08_, pmpir_##name##_f08_, class, comm, blocking,   \
        parameters, arguments, sends)
/* Macros of profile.def take parameters and arguments from one macro, as SEND. */
#define P2P(text, name, ...) P2P_(text, name, __VA_ARGS__)
#define P2P_(text, name, parameters, arguments, sends)                                             \
    WRAP(text, name, BX_P2P, MPI_COMM_NULL, false, parameters, arguments, sends)
#define WAITING(text, name, count, parameters, arguments)                                          \
    WRAP(text, name, BX_P2P, MPI_COMM_NULL, false, parameters, arguments, NOTHING)
#define BARRIER(text, name, parameters, arguments)                                                 \
    WRAP(text, name, BX_BARRIER, MPI_COMM_NULL, false, parameters, arguments, NOTHING)
#define COLLECTIVE(text, name, ...) COLLECTIVE_(text, name, __VA_ARGS__)
#define COLLECTIVE_(text, name, parameters, arguments, sends)                                      \
    WRAP(text, name, BX_COLLECTIVE, COMM_OF(comm), true, parameters, arguments, sends)             \
    WRAP(I##name, i##name, BX_COLLECTIVE, MPI_COMM_NULL, false, (BARE parameters, void *q),        \
         (BARE arguments, q), sends)
#define RMA(text, name, parameters, arguments, sends)                                              \
    WRAP(text, name, BX_ONE_SIDED, MPI_COMM_NULL, false, parameters, arguments, sends)

#include "profile.def"

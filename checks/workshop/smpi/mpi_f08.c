/* What mpi_f08.f90 calls: C's routines, with Fortran's handles, flags and special addresses. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef BX_SIMULATED /* SMPI's name */
#define MPI_2DOUBLE_PRECISION MPI_2DOUBLE
#endif

typedef struct {
    MPI_Fint value;
} handle;
typedef union {
    MPI_Request value; /* as long as a pointer in Open MPI and SMPI, half of that in MPICH */
    void *place;
} request;
typedef const handle *constant;
typedef const int *number;
typedef const void *ignored;

extern MPI_Fint bx_f08_in_place;
extern handle bx_f08_world; /* known by its address: C's value exists only after MPI_Init */

static MPI_Datatype type_of(constant type)
{
    const MPI_Datatype types[] = {
        MPI_DOUBLE,           MPI_INT, MPI_INT64_T, MPI_CHAR, MPI_INT, /* logical */
        MPI_2DOUBLE_PRECISION};
    return types[type->value];
}

static MPI_Op op_of(constant op)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_MAXLOC, MPI_MINLOC};
    return ops[op->value];
}

static MPI_Comm comm_of(constant comm)
{
    enum { SELF = -2 }; /* as in mpi_f08.f90 */
    if (comm == &bx_f08_world) return MPI_COMM_WORLD;
    return comm->value == SELF ? MPI_COMM_SELF : MPI_Comm_f2c(comm->value);
}

static const void *sent(const void *buffer)
{
    return buffer == &bx_f08_in_place ? MPI_IN_PLACE : buffer;
}

static void split(constant comm, int color, int key, handle *new_comm)
{
    MPI_Comm part;
    MPI_Comm_split(comm_of(comm), color, key, &part);
    new_comm->value = MPI_Comm_c2f(part);
}

static void free_comm(handle *comm)
{
    MPI_Comm value = comm_of(comm);
    MPI_Comm_free(&value);
}

static void wait_all(int count, request *requests)
{
    MPI_Request *dense = &requests->value;
    for (int i = 0; i < count; i++)
        dense[i] = requests[i].value;
    MPI_Waitall(count, dense, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++)
        requests[i].value = MPI_REQUEST_NULL;
}

/* A routine: its parameters, all of them addresses, and its call.  Errors end the launch. */
#define ROUTINE(name, parameters, call)                                                            \
    void bx_f08_##name parameters { call; }

/* clang-format off */
ROUTINE(allgather, (const void *s, number n, constant t, void *r, number rn, constant rt, constant c), MPI_Allgather(sent(s), *n, type_of(t), r, *rn, type_of(rt), comm_of(c)))
ROUTINE(allgatherv, (const void *s, number n, constant t, void *r, number rn, number at, constant rt, constant c), MPI_Allgatherv(sent(s), *n, type_of(t), r, rn, at, type_of(rt), comm_of(c)))
ROUTINE(allreduce, (const void *s, void *r, number n, constant t, constant o, constant c), MPI_Allreduce(sent(s), r, *n, type_of(t), op_of(o), comm_of(c)))
ROUTINE(alltoall, (const void *s, number n, constant t, void *r, number rn, constant rt, constant c), MPI_Alltoall(sent(s), *n, type_of(t), r, *rn, type_of(rt), comm_of(c)))
ROUTINE(alltoallv, (const void *s, number n, number at, constant t, void *r, number rn, number rat, constant rt, constant c), MPI_Alltoallv(sent(s), n, at, type_of(t), r, rn, rat, type_of(rt), comm_of(c)))
ROUTINE(barrier, (constant c), MPI_Barrier(comm_of(c)))
ROUTINE(bcast, (void *b, number n, constant t, number root, constant c), MPI_Bcast(b, *n, type_of(t), *root, comm_of(c)))
ROUTINE(comm_free, (handle *c), free_comm(c))
ROUTINE(comm_rank, (constant c, int *rank), MPI_Comm_rank(comm_of(c), rank))
ROUTINE(comm_size, (constant c, int *size), MPI_Comm_size(comm_of(c), size))
ROUTINE(comm_split, (constant c, number color, number key, handle *part), split(c, *color, *key, part))
ROUTINE(finalize, (void), MPI_Finalize())
ROUTINE(gather, (const void *s, number n, constant t, void *r, number rn, constant rt, number root, constant c), MPI_Gather(sent(s), *n, type_of(t), r, *rn, type_of(rt), *root, comm_of(c)))
ROUTINE(gatherv, (const void *s, number n, constant t, void *r, number rn, number at, constant rt, number root, constant c), MPI_Gatherv(sent(s), *n, type_of(t), r, rn, at, type_of(rt), *root, comm_of(c)))
ROUTINE(init, (void), MPI_Init(NULL, NULL))
ROUTINE(irecv, (void *b, number n, constant t, number peer, number tag, constant c, request *q), MPI_Irecv(b, *n, type_of(t), *peer, *tag, comm_of(c), &q->value))
ROUTINE(isend, (const void *b, number n, constant t, number peer, number tag, constant c, request *q), MPI_Isend(b, *n, type_of(t), *peer, *tag, comm_of(c), &q->value))
ROUTINE(recv, (void *b, number n, constant t, number peer, number tag, constant c, ignored s), MPI_Recv(b, *n, type_of(t), *peer, *tag, comm_of(c), MPI_STATUS_IGNORE))
ROUTINE(reduce_scatter, (const void *s, void *r, number n, constant t, constant o, constant c), MPI_Reduce_scatter(sent(s), r, n, type_of(t), op_of(o), comm_of(c)))
ROUTINE(sendrecv, (const void *s, number n, constant t, number to, number tag, void *r, number rn, constant rt, number from, number rtag, constant c, ignored s2), MPI_Sendrecv(sent(s), *n, type_of(t), *to, *tag, r, *rn, type_of(rt), *from, *rtag, comm_of(c), MPI_STATUS_IGNORE))
ROUTINE(ssend, (const void *b, number n, constant t, number peer, number tag, constant c), MPI_Ssend(b, *n, type_of(t), *peer, *tag, comm_of(c)))
ROUTINE(waitall, (number n, request *q, ignored s), wait_all(*n, q))
/* clang-format on */

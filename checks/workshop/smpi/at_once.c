#include "at_once.h"

#include "platform.h"

#include <simgrid/barrier.h>
#include <stdlib.h>
#include <string.h>

/* The same for all ranks of a communicator. */
typedef struct {
    sg_bar_t gate;
    char *result; /* of a reduction */
    bx_part parts[];
} board;

/* Of SimGrid: at the begin and end of a call, as the library's work is not the rank's. */
void smpi_bench_end(void), smpi_bench_begin(void);
/* Not the kernel's memory: see heap.c. */
void *__real_malloc(size_t), __real_free(void *);

static int key = MPI_KEYVAL_INVALID;

bool bx_at_once(void) { return bx_platform_text("at_once"); }

static board *board_of(MPI_Comm comm, int *ranks, int *me)
{
    board *b;
    int known;
    PMPI_Comm_size(comm, ranks);
    PMPI_Comm_rank(comm, me);
    if (key == MPI_KEYVAL_INVALID)
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    PMPI_Comm_get_attr(comm, key, &b, &known);
    if (known) return b;
    if (*me == 0) {
        b = __real_malloc(sizeof *b + (size_t)*ranks * sizeof *b->parts);
        b->gate = sg_barrier_init((unsigned)*ranks);
    }
    int __real_PMPI_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
    __real_PMPI_Bcast(&b, sizeof b, MPI_BYTE, 0, comm);
    PMPI_Comm_set_attr(comm, key, b);
    return b;
}

static void wait(board *b) { sg_barrier_wait(b->gate); }

static void begin(board *b, int me, bx_part mine)
{
    smpi_bench_end();
    b->parts[me] = mine;
    wait(b);
}

static void end(board *b)
{
    wait(b);
    smpi_bench_begin();
}

/* ---- blocks ---- */

typedef struct {
    char *at;
    int count, bytes;
    MPI_Datatype type;
    bool dense; /* elements lie one behind the other */
} block;

static block block_of(const bx_part *p, int rank)
{
    MPI_Aint low, extent;
    block b = {p->buffer, p->counts ? p->counts[rank] : p->count, 0,
               p->types ? p->types[rank] : p->type, false};
    PMPI_Type_get_extent(b.type, &low, &extent);
    PMPI_Type_size(b.type, &b.bytes);
    b.dense = low == 0 && extent == b.bytes;
    b.bytes *= b.count;
    MPI_Aint place = p->places ? p->places[rank] : (MPI_Aint)rank * p->count;
    b.at += place * (p->types ? 1 : extent);
    return b;
}

static void copy(block from, block to)
{
    if (from.bytes == 0 || from.at == to.at) return;
    if (from.dense && to.dense) {
        memcpy(to.at, from.at, (size_t)from.bytes);
        return;
    }
    char *packed = __real_malloc((size_t)from.bytes);
    int place = 0;
    PMPI_Pack(from.at, from.count, from.type, packed, from.bytes, &place, MPI_COMM_SELF);
    place = 0;
    PMPI_Unpack(packed, from.bytes, &place, to.at, to.count, to.type, MPI_COMM_SELF);
    __real_free(packed);
}

static bx_part whole(const void *buffer, int count, MPI_Datatype type)
{
    return (bx_part){.buffer = (char *)buffer, .count = count, .type = type};
}

/* ---- collectives ---- */

/* SimGrid's waits for other ranks, and takes their time for this one's. */
int __real_MPI_Comm_dup(MPI_Comm, MPI_Comm *);
int __wrap_MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    smpi_bench_end();
    int error = __real_MPI_Comm_dup(comm, copy);
    smpi_bench_begin();
    return error;
}

int bx_at_once_exchange(bx_part sent, bx_part received, MPI_Comm comm)
{
    int ranks, me;
    board *b = board_of(comm, &ranks, &me);
    begin(b, me, sent);
    for (int i = 0; i < ranks; i++)
        if (received.counts ? received.counts[i] : received.count)
            copy(block_of(&b->parts[i], me), block_of(&received, i));
    end(b);
    return MPI_SUCCESS;
}

/* Ranks that receive take the parts of all. */
static int collect(bx_part sent, bx_part received, bool receives, MPI_Comm comm)
{
    int ranks, me;
    board *b = board_of(comm, &ranks, &me);
    begin(b, me, sent);
    for (int i = 0; receives && i < ranks; i++)
        if (b->parts[i].buffer != MPI_IN_PLACE)
            copy(block_of(&b->parts[i], 0), block_of(&received, i));
    end(b);
    return MPI_SUCCESS;
}

/* Each takes its block of the root's, or all the first. */
static int deal(bx_part sent, bx_part received, int root, bool all, MPI_Comm comm)
{
    int ranks, me;
    board *b = board_of(comm, &ranks, &me);
    begin(b, me, sent);
    if (received.buffer != MPI_IN_PLACE)
        copy(block_of(&b->parts[root], all ? 0 : me), block_of(&received, 0));
    end(b);
    return MPI_SUCCESS;
}

/* `root` -1: all receive. */
static int reduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm)
{
    int ranks, me, at = root < 0 ? 0 : root;
    board *b = board_of(comm, &ranks, &me);
    bx_part result = whole(NULL, count, type);
    begin(b, me, whole(send == MPI_IN_PLACE ? receive : send, count, type));
    if (me == at) {
        block first = block_of(&b->parts[0], 0);
        b->result = result.buffer = __real_malloc((size_t)first.bytes + 1);
        copy(first, block_of(&result, 0));
        smpi_bench_begin(); /* which the call ends */
        for (int i = 1; i < ranks; i++)
            PMPI_Reduce_local(b->parts[i].buffer, result.buffer, count, type, op);
        smpi_bench_end();
    }
    wait(b);
    result.buffer = b->result;
    bx_part mine = whole(receive, count, type);
    if (root < 0 || me == root) copy(block_of(&result, 0), block_of(&mine, 0));
    wait(b);
    if (me == at) __real_free(result.buffer);
    smpi_bench_begin();
    return MPI_SUCCESS;
}

/* clang-format off */
#define CALL(name, parameters, arguments, at_once)                                                 \
    int __real_PMPI_##name parameters;                                                             \
    int __wrap_PMPI_##name parameters                                                              \
    {                                                                                              \
        return bx_at_once() ? at_once : __real_PMPI_##name arguments;                              \
    }
#define SEND const void *s, int n, MPI_Datatype t
#define RECEIVE void *r, int rn, MPI_Datatype rt
void bx_at_once_meet(MPI_Comm comm)
{
    int ranks, me;
    board *b = board_of(comm, &ranks, &me);
    smpi_bench_end();
    end(b);
}
static int pass(MPI_Comm comm)
{
    bx_at_once_meet(comm);
    return MPI_SUCCESS;
}
/* SimGrid copies what is reduced in place. */
static const void *sent_by(const void *send)
{
    return send == MPI_IN_PLACE && bx_platform_messages_are_hollow() ? "" : send;
}
static int rank_in(MPI_Comm comm)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}
CALL(Barrier, (MPI_Comm c), (c), pass(c))
CALL(Bcast, (void *r, int n, MPI_Datatype t, int root, MPI_Comm c), (r, n, t, root, c),
     deal(whole(r, n, t), whole(r, n, t), root, true, c))
CALL(Reduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c),
     (s, r, n, t, op, root, c), reduce(s, r, n, t, op, root, c))
CALL(Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
     (sent_by(s), r, n, t, op, c), reduce(s, r, n, t, op, -1, c))
CALL(Gather, (SEND, RECEIVE, int root, MPI_Comm c), (s, n, t, r, rn, rt, root, c),
     collect(whole(s, n, t), whole(r, rn, rt), rank_in(c) == root, c))
CALL(Gatherv, (SEND, void *r, const int *rn, const int *at, MPI_Datatype rt, int root, MPI_Comm c),
     (s, n, t, r, rn, at, rt, root, c),
     collect(whole(s, n, t), (bx_part){r, 0, rt, rn, at, NULL}, rank_in(c) == root, c))
CALL(Allgather, (SEND, RECEIVE, MPI_Comm c), (s, n, t, r, rn, rt, c),
     collect(whole(s, n, t), whole(r, rn, rt), true, c))
CALL(Allgatherv, (SEND, void *r, const int *rn, const int *at, MPI_Datatype rt, MPI_Comm c),
     (s, n, t, r, rn, at, rt, c),
     collect(whole(s, n, t), (bx_part){r, 0, rt, rn, at, NULL}, true, c))
CALL(Scatter, (SEND, RECEIVE, int root, MPI_Comm c), (s, n, t, r, rn, rt, root, c),
     deal(whole(s, n, t), whole(r, rn, rt), root, false, c))
CALL(Scatterv, (const void *s, const int *n, const int *at, MPI_Datatype t, RECEIVE, int root, MPI_Comm c),
     (s, n, at, t, r, rn, rt, root, c),
     deal((bx_part){(char *)s, 0, t, n, at, NULL}, whole(r, rn, rt), root, false, c))

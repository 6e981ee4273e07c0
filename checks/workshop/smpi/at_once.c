#include "at_once.h"

#include "platform.h"

#include <simgrid/barrier.h>
#include <stdlib.h>
#include <string.h>

/* The same for all ranks of a communicator: what each sends and receives. */
typedef struct {
    sg_bar_t gate;
    int ranks, arrived;
    struct {
        bx_part sent, received;
    } of[];
} board;

/* Of SimGrid: at the begin and end of a call, as the library's work is not the rank's. */
void smpi_bench_end(void), smpi_bench_begin(void);
/* Not the kernel's memory: see heap.c. */
void *__real_malloc(size_t), __real_free(void *);

static int key = MPI_KEYVAL_INVALID;

bool bx_at_once(void)
{
    static int known = -1;
    if (known < 0) known = bx_platform_text("at_once") != NULL;
    return known;
}

static board *board_of(MPI_Comm comm, int *me)
{
    board *b;
    int known, ranks;
    PMPI_Comm_rank(comm, me);
    if (key == MPI_KEYVAL_INVALID)
        PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    PMPI_Comm_get_attr(comm, key, &b, &known);
    if (known) return b;
    if (*me == 0) {
        PMPI_Comm_size(comm, &ranks);
        b = __real_malloc(sizeof *b + (size_t)ranks * sizeof *b->of);
        *b = (board){sg_barrier_init((unsigned)ranks), ranks, 0};
    }
    int __real_PMPI_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
    __real_PMPI_Bcast(&b, sizeof b, MPI_BYTE, 0, comm);
    PMPI_Comm_set_attr(comm, key, b);
    return b;
}

/* Whether all others have arrived: the last rank does the work of all, so that they wait once. */
static bool last(board *b, int me, bx_part sent, bx_part received)
{
    smpi_bench_end();
    b->of[me].sent = sent;
    b->of[me].received = received;
    b->arrived = (b->arrived + 1) % b->ranks;
    return b->arrived == 0;
}

static int end(board *b)
{
    sg_barrier_wait(b->gate);
    smpi_bench_begin();
    return MPI_SUCCESS;
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

/* Each has a block of one dense type for every other: by tiles, as far as caches reach. */
static bool exchange_equal(board *b)
{
    enum { TILE = 64 };
    block first = block_of(&b->of[0].sent, 0);
    for (int i = 0; i < b->ranks; i++)
        if (b->of[i].sent.counts || b->of[i].received.counts ||
            !block_of(&b->of[i].sent, 0).dense || !block_of(&b->of[i].received, 0).dense)
            return false;
    size_t bytes = (size_t)first.bytes;
    for (int row = 0; row < b->ranks; row += TILE)
        for (int column = 0; column < b->ranks; column += TILE)
            for (int to = row; to < row + TILE && to < b->ranks; to++)
                for (int i = column; i < column + TILE && i < b->ranks; i++)
                    memcpy(b->of[to].received.buffer + (size_t)i * bytes,
                           b->of[i].sent.buffer + (size_t)to * bytes, bytes);
    return true;
}

int bx_at_once_exchange(bx_part sent, bx_part received, MPI_Comm comm)
{
    int me;
    board *b = board_of(comm, &me);
    if (last(b, me, sent, received) && !exchange_equal(b))
        for (int to = 0; to < b->ranks; to++) {
            const bx_part *coming = &b->of[to].received;
            for (int i = 0; i < b->ranks; i++)
                if (coming->counts ? coming->counts[i] : coming->count)
                    copy(block_of(&b->of[i].sent, to), block_of(coming, i));
        }
    return end(b);
}

/* A part in place stands where its rank receives it. */
static void gather(board *b, int to)
{
    for (int i = 0; i < b->ranks; i++) {
        bool in_place = b->of[i].sent.buffer == MPI_IN_PLACE;
        block from = in_place ? block_of(&b->of[i].received, i) : block_of(&b->of[i].sent, 0);
        copy(from, block_of(&b->of[to].received, i));
    }
}

static block all_received(board *b, int rank)
{
    bx_part part = b->of[rank].received;
    part.count *= b->ranks;
    return block_of(&part, 0);
}

/* `root` receives the parts of all; -1: all ranks, of which others take those of rank 0. */
static int collect(bx_part sent, bx_part received, int root, MPI_Comm comm)
{
    int me;
    board *b = board_of(comm, &me);
    if (last(b, me, sent, received)) {
        gather(b, root < 0 ? 0 : root);
        for (int to = 1; root < 0 && to < b->ranks; to++)
            if (received.counts)
                gather(b, to);
            else
                copy(all_received(b, 0), all_received(b, to));
    }
    return end(b);
}

/* Each takes its block of the root's, or all the first. */
static int deal(bx_part sent, bx_part received, int root, bool all, MPI_Comm comm)
{
    int me;
    board *b = board_of(comm, &me);
    if (last(b, me, sent, received))
        for (int i = 0; i < b->ranks; i++)
            if (b->of[i].received.buffer != MPI_IN_PLACE)
                copy(block_of(&b->of[root].sent, all ? 0 : i), block_of(&b->of[i].received, 0));
    return end(b);
}

/* `root` -1: all receive. */
static int reduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm)
{
    int me;
    board *b = board_of(comm, &me);
    bool in_place = send == MPI_IN_PLACE;
    if (last(b, me, whole(in_place ? receive : send, count, type), whole(receive, count, type))) {
        block first = block_of(&b->of[0].sent, 0), result = first;
        result.at = __real_malloc((size_t)first.bytes + 1);
        copy(first, result);
        smpi_bench_begin(); /* which the call ends */
        for (int i = 1; i < b->ranks; i++)
            PMPI_Reduce_local(b->of[i].sent.buffer, result.at, count, type, op);
        smpi_bench_end();
        for (int i = 0; i < b->ranks; i++)
            if (root < 0 || i == root) copy(result, block_of(&b->of[i].received, 0));
        __real_free(result.at);
    }
    return end(b);
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
    int me;
    board *b = board_of(comm, &me);
    last(b, me, (bx_part){0}, (bx_part){0});
    end(b);
}
static int pass(MPI_Comm comm)
{
    bx_at_once_meet(comm);
    return MPI_SUCCESS;
}
bool bx_at_once_are_hollow;

/* SimGrid copies what is reduced in place. */
static const void *sent_by(const void *send)
{
    return send == MPI_IN_PLACE && bx_at_once_are_hollow ? "" : send;
}
CALL(Barrier, (MPI_Comm c), (c), pass(c))
CALL(Bcast, (void *r, int n, MPI_Datatype t, int root, MPI_Comm c), (r, n, t, root, c),
     deal(whole(r, n, t), whole(r, n, t), root, true, c))
CALL(Reduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c),
     (s, r, n, t, op, root, c), reduce(s, r, n, t, op, root, c))
CALL(Allreduce, (const void *s, void *r, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c),
     (sent_by(s), r, n, t, op, c), reduce(s, r, n, t, op, -1, c))
CALL(Gather, (SEND, RECEIVE, int root, MPI_Comm c), (s, n, t, r, rn, rt, root, c),
     collect(whole(s, n, t), whole(r, rn, rt), root, c))
CALL(Gatherv, (SEND, void *r, const int *rn, const int *at, MPI_Datatype rt, int root, MPI_Comm c),
     (s, n, t, r, rn, at, rt, root, c),
     collect(whole(s, n, t), (bx_part){r, 0, rt, rn, at, NULL}, root, c))
CALL(Allgather, (SEND, RECEIVE, MPI_Comm c), (s, n, t, r, rn, rt, c),
     collect(whole(s, n, t), whole(r, rn, rt), -1, c))
CALL(Allgatherv, (SEND, void *r, const int *rn, const int *at, MPI_Datatype rt, MPI_Comm c),
     (s, n, t, r, rn, at, rt, c),
     collect(whole(s, n, t), (bx_part){r, 0, rt, rn, at, NULL}, -1, c))
CALL(Scatter, (SEND, RECEIVE, int root, MPI_Comm c), (s, n, t, r, rn, rt, root, c),
     deal(whole(s, n, t), whole(r, rn, rt), root, false, c))
CALL(Scatterv, (const void *s, const int *n, const int *at, MPI_Datatype t, RECEIVE, int root, MPI_Comm c),
     (s, n, at, t, r, rn, rt, root, c),
     deal((bx_part){(char *)s, 0, t, n, at, NULL}, whole(r, rn, rt), root, false, c))

/* ---- communicators ---- */

/* SimGrid's rank 0 looks at all requests for each that ends.  The color is in what a rank sends, the
 * key in what it receives; the last rank leaves the group there. */
typedef struct {
    int color, key, rank;
} member;

static int by_color(const void *a, const void *b)
{
    const member *x = a, *y = b;
    if (x->color != y->color) return x->color < y->color ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

static void group(board *b, MPI_Comm comm)
{
    MPI_Group all, part;
    size_t ranks = (size_t)b->ranks;
    member *members = __real_malloc(ranks * sizeof *members);
    int *chosen = __real_malloc(ranks * sizeof *chosen);
    for (int i = 0; i < b->ranks; i++)
        members[i] = (member){b->of[i].sent.count, b->of[i].received.count, i};
    qsort(members, ranks, sizeof *members, by_color);
    PMPI_Comm_group(comm, &all);
    for (int first = 0, end; first < b->ranks; first = end) {
        for (end = first; end < b->ranks && members[end].color == members[first].color; end++)
            chosen[end - first] = members[end].rank;
        PMPI_Group_incl(all, end - first, chosen, &part);
        for (int i = first; i < end; i++) b->of[members[i].rank].sent.buffer = (char *)part;
    }
    PMPI_Group_free(&all);
    __real_free(members);
    __real_free(chosen);
}

static int split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
    int me;
    board *b = board_of(comm, &me);
    if (last(b, me, (bx_part){.count = color}, (bx_part){.count = key})) group(b, comm);
    sg_barrier_wait(b->gate);
    if (color == MPI_UNDEFINED)
        *part = MPI_COMM_NULL;
    else
        PMPI_Comm_create(comm, (MPI_Group)b->of[me].sent.buffer, part);
    smpi_bench_begin();
    return MPI_SUCCESS;
}

static int node(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank / (int)bx_platform_number("per_node");
}

CALL(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *part), (c, color, key, part),
     split(c, color, key, part))
CALL(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info i, MPI_Comm *part), (c, type, key, i, part),
     split(c, type == MPI_COMM_TYPE_SHARED ? node() : MPI_UNDEFINED, key, part))
int __wrap_MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
    return __wrap_PMPI_Comm_split(comm, color, key, part);
}

/* ---- locks ---- */

/* SimGrid asks every rank of a window for its lock, also where none needs to be checked. */
static int unchecked = MPI_KEYVAL_INVALID; /* of windows that are locked so */

static int lock_all(int assert, MPI_Win win)
{
    int __real_PMPI_Win_lock_all(int, MPI_Win);
    if (assert != MPI_MODE_NOCHECK) return __real_PMPI_Win_lock_all(assert, win);
    if (unchecked == MPI_KEYVAL_INVALID)
        PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &unchecked, NULL);
    return PMPI_Win_set_attr(win, unchecked, &unchecked);
}

static int unlock_all(MPI_Win win)
{
    int __real_PMPI_Win_unlock_all(MPI_Win), known = 0;
    void *value;
    if (unchecked != MPI_KEYVAL_INVALID) PMPI_Win_get_attr(win, unchecked, &value, &known);
    return known ? PMPI_Win_delete_attr(win, unchecked) : __real_PMPI_Win_unlock_all(win);
}

CALL(Win_lock_all, (int assert, MPI_Win w), (assert, w), lock_all(assert, w))
CALL(Win_unlock_all, (MPI_Win w), (w), unlock_all(w))

/* What calls of MPI are counted as sent, beside sums of our own: on communicators and windows of
 * all kinds, which are freed and made anew, and with counts that change from call to call.
 *
 * Usage: unit_profile [cost]: prints, on rank 0, what a counted call costs above a bare one.
 */
#include "calls.h"
#include "peers.h"
#include "ticks.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static int rank, size, *node_of;

/* What this rank must have sent since bx_expect_nothing: messages, those between nodes, bytes,
 * those between nodes. */
static double before[4], due[4];

static void expect_nothing(void)
{
    bx_profile_read_sum(before);
    memset(due, 0, sizeof due);
}

/* A message to a rank of the world. */
static void expect(int world, double bytes)
{
    bool far = node_of[world] != node_of[rank];
    if (world == rank) return;
    due[0] += 1;
    due[1] += far;
    due[2] += bytes;
    due[3] += far ? bytes : 0;
}

static void check(int line)
{
    double after[4];
    bx_profile_read_sum(after);
    for (int i = 0; i < 4; i++)
        if (after[i] - before[i] != due[i]) {
            fprintf(stderr, "%s:%d: rank %d of %d, number %d: %g, not %g\n", __FILE__, line, rank,
                    size, i, after[i] - before[i], due[i]);
            unit_failures++;
        }
    expect_nothing();
}
#define CHECK_SENT() check(__LINE__)

/* World ranks of a communicator, by MPI_Allgather, and its size and own rank. */
typedef struct {
    MPI_Comm comm;
    int size, rank, *world;
} party;

static party describe(MPI_Comm comm)
{
    party p = {.comm = comm};
    PMPI_Comm_size(comm, &p.size);
    PMPI_Comm_rank(comm, &p.rank);
    p.world = bx_memory_alloc((size_t)p.size, sizeof *p.world);
    PMPI_Allgather(&rank, 1, MPI_INT, p.world, 1, MPI_INT, comm);
    return p;
}

static void test_messages(const party *p)
{
    char sent[64] = "", received[64];
    int to = (p->rank + 1) % p->size, from = (p->rank + p->size - 1) % p->size;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    expect_nothing();
    for (int words = 0; words < 4; words++) {
        MPI_Irecv(received, words, MPI_DOUBLE, from, 0, p->comm, &requests[0]);
        MPI_Isend(sent, words, MPI_DOUBLE, to, 0, p->comm, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        expect(p->world[to], 8.0 * words);
    }
    MPI_Send(sent, 5, MPI_CHAR, MPI_PROC_NULL, 0, p->comm);
    MPI_Sendrecv(sent, 3, MPI_SHORT, to, 0, received, 3, MPI_SHORT, from, 0, p->comm,
                 MPI_STATUS_IGNORE);
    expect(p->world[to], 6);
    CHECK_SENT();

    MPI_Send_init(sent, 7, MPI_CHAR, to, 0, p->comm, &requests[0]);
    MPI_Recv_init(received, 7, MPI_CHAR, from, 0, p->comm, &requests[1]);
    CHECK_SENT();
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
        expect(p->world[to], 7);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK_SENT();
#ifdef BX_MPI_4
    MPI_Psend_init(sent, 3, 2, MPI_SHORT, to, 0, p->comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(received, 3, 2, MPI_SHORT, from, 0, p->comm, MPI_INFO_NULL, &requests[1]);
    CHECK_SENT();
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        for (int part = 2; part >= 0; part--) MPI_Pready(part, requests[0]);
        MPI_Waitall(2, requests, statuses);
        expect(p->world[to], 12);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK_SENT();
#endif
}

static void test_collectives(const party *p)
{
    size_t most = (size_t)p->size;
    int *counts = bx_memory_alloc(2 * most, sizeof *counts), *theirs = counts + most,
        *at = bx_memory_alloc(most, sizeof *at);
    MPI_Datatype *types = bx_memory_alloc(most, sizeof(MPI_Datatype)), triple;
    double *sent = bx_memory_alloc(32 * most, sizeof *sent),
           *received = bx_memory_alloc(32 * most, sizeof *received);
    MPI_Type_contiguous(3, MPI_DOUBLE, &triple);
    MPI_Type_commit(&triple);
    MPI_Request request;
    expect_nothing();
    for (int turn = 0; turn < 3; turn++) { /* the same array with other counts */
        for (int i = 0; i < p->size; i++) {
            counts[i] = (p->rank + i + turn) % 3;
            theirs[i] = (i + p->rank + turn) % 3;
            at[i] = 3 * i;
            types[i] = (p->rank + i) % 2 ? triple : MPI_DOUBLE;
        }
        MPI_Alltoallv(sent, counts, at, triple, received, theirs, at, triple, p->comm);
        for (int i = 0; i < p->size; i++) expect(p->world[i], 24.0 * counts[i]);
        CHECK_SENT();
        MPI_Ialltoallv(sent, counts, at, MPI_DOUBLE, received, theirs, at, MPI_DOUBLE, p->comm,
                       &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < p->size; i++) expect(p->world[i], 8.0 * counts[i]);
        CHECK_SENT();
        for (int i = 0; i < p->size; i++) at[i] *= 8; /* B */
        MPI_Alltoallw(sent, counts, at, types, received, theirs, at, types, p->comm);
        for (int i = 0; i < p->size; i++)
            expect(p->world[i], counts[i] * ((p->rank + i) % 2 ? 24.0 : 8.0));
        CHECK_SENT();
    }
    MPI_Alltoall(sent, 2, MPI_DOUBLE, received, 2, MPI_DOUBLE, p->comm);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, received, 1, triple, p->comm);
    for (int i = 0; i < p->size; i++) expect(p->world[i], 16), expect(p->world[i], 24);
    CHECK_SENT();
    MPI_Bcast(sent, 3, MPI_DOUBLE, p->size - 1, p->comm);
    MPI_Scatterv(sent, counts, at, MPI_CHAR, received, (p->rank + 2) % 3, MPI_CHAR, 0, p->comm);
    for (int i = 0; i < p->size; i++) {
        if (p->rank == p->size - 1) expect(p->world[i], 24);
        if (p->rank == 0) expect(p->world[i], counts[i]);
    }
    CHECK_SENT();
    /* what means nothing on a rank is not looked at there */
    MPI_Datatype nonsense, type;
    memset(&nonsense, 0x5a, sizeof nonsense);
    bool is_root = p->rank == 0;
    int count = is_root ? 7 : 2;
    type = is_root ? nonsense : MPI_DOUBLE;
    MPI_Gather(is_root ? MPI_IN_PLACE : sent, count, type, received, 2, MPI_DOUBLE, 0, p->comm);
    for (int i = 0; i < p->size; i++) counts[i] = 2, at[i] = 2 * i;
    MPI_Gatherv(is_root ? MPI_IN_PLACE : sent, count, type, received, counts, at, MPI_DOUBLE, 0,
                p->comm);
    if (!is_root) expect(p->world[0], 16), expect(p->world[0], 16);
    CHECK_SENT();
    type = is_root ? MPI_DOUBLE : nonsense;
    MPI_Scatter(sent, is_root ? 2 : 7, type, received, 2, MPI_DOUBLE, 0, p->comm);
    MPI_Scatterv(sent, is_root ? counts : NULL, at, type, received, 2, MPI_DOUBLE, 0, p->comm);
    for (int i = 0; is_root && i < p->size; i++) expect(p->world[i], 16), expect(p->world[i], 16);
    CHECK_SENT();
    MPI_Allreduce(sent, received, 2, MPI_DOUBLE, MPI_SUM, p->comm);
    expect(p->world[(p->rank + 1) % p->size], 16);
    MPI_Reduce(sent, received, 2, MPI_DOUBLE, MPI_SUM, 0, p->comm);
    expect(p->world[0], 16);
#ifdef BX_MPI_4
    MPI_Request requests[2];
    MPI_Allreduce_init(sent, received, 3, MPI_DOUBLE, MPI_SUM, p->comm, MPI_INFO_NULL, requests);
    MPI_Alltoallv_init(sent, counts, at, MPI_DOUBLE, received + 3, counts, at, MPI_DOUBLE, p->comm,
                       MPI_INFO_NULL, &requests[1]);
    CHECK_SENT();
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 2; i++) MPI_Start(&requests[i]);
        for (int i = 0; i < 2; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        expect(p->world[(p->rank + 1) % p->size], 24);
        for (int i = 0; i < p->size; i++) expect(p->world[i], 16);
        CHECK_SENT();
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
#endif
    for (int i = 0; i < p->size; i++) counts[i] = 1 + i % 2;
    MPI_Reduce_scatter(sent, received, counts, MPI_DOUBLE, MPI_SUM, p->comm);
    for (int i = 0; i < p->size; i++) expect(p->world[i], 8.0 * counts[i]);
    MPI_Barrier(p->comm);
    CHECK_SENT();
    MPI_Type_free(&triple);
    free(counts);
    free(at);
    free(types);
    free(sent);
    free(received);
}

static void test_window(const party *p)
{
    double *memory, value = 1, got;
    MPI_Win window;
    int to = (p->rank + 1) % p->size;
    for (int part = 0; part < 2; part++) { /* one after the other, as common/window.c */
        if (p->world[0] % 2 == part)
            MPI_Win_allocate(64, 8, MPI_INFO_NULL, p->comm, &memory, &window);
        PMPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_lock_all(0, window);
    expect_nothing();
    MPI_Put(&value, 1, MPI_DOUBLE, to, 0, 1, MPI_DOUBLE, window);
    MPI_Win_flush(to, window);
    MPI_Get(&got, 1, MPI_DOUBLE, to, 1, 1, MPI_DOUBLE, window);
    MPI_Fetch_and_op(&value, &got, MPI_DOUBLE, to, 2, MPI_SUM, window);
    MPI_Win_flush_all(window);
    for (int i = 0; i < 3; i++) expect(p->world[to], 8);
    CHECK_SENT();
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* Each rank sends to its left and to itself. */
static void test_graph(const party *p)
{
    int left = (p->rank + p->size - 1) % p->size, right = (p->rank + 1) % p->size;
    int to[] = {left, p->rank}, from[] = {right, p->rank}, counts[] = {2, 1}, at[] = {0, 2},
        weights[] = {1, 1};
    double sent[3] = {0}, received[3];
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(p->comm, 2, from, weights, 2, to, weights, MPI_INFO_NULL, 0,
                                   &graph);
    expect_nothing();
    MPI_Neighbor_alltoallv(sent, counts, at, MPI_DOUBLE, received, counts, at, MPI_DOUBLE, graph);
    expect(p->world[left], 16);
    CHECK_SENT();
    MPI_Comm_free(&graph);
}

static void test_all(MPI_Comm comm)
{
    party p = describe(comm);
    test_messages(&p);
    test_collectives(&p);
    test_window(&p);
    test_graph(&p);
    free(p.world);
}

/* A wait for a collective is the collective's; other waits are not.  Only one that blocks has a
 * barrier before it. */
static void test_classes(void)
{
    bx_traffic first[BX_CLASS_COUNT], then[BX_CLASS_COUNT];
    int mine = 1, sum;
    MPI_Request request;
    bx_profile_read(first);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    bx_profile_read(then);
    CHECK(then[BX_COLLECTIVE].calls - first[BX_COLLECTIVE].calls == 2);
    CHECK(then[BX_P2P].calls - first[BX_P2P].calls == 1);
    CHECK(then[BX_COLLECTIVE].waiting == first[BX_COLLECTIVE].waiting);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    bx_profile_read(then);
    /* A rank alone waits for nobody: its barrier may be shorter than a tick of the clock. */
    CHECK(size == 1 || then[BX_COLLECTIVE].waiting > first[BX_COLLECTIVE].waiting);
#ifdef BX_MPI_4
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    bx_profile_read(first);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    bx_profile_read(then);
    CHECK(then[BX_COLLECTIVE].calls - first[BX_COLLECTIVE].calls == 6);
    CHECK(then[BX_P2P].calls == first[BX_P2P].calls);
#endif
}

/* Requests that are under way are counted, and laps all along which one is; calls by routine. */
static void test_shown(void)
{
    enum { FIRST, SECOND };
    int mine = 1, got[2], sum, done = 0, index, count, indices[2], self = rank;
    bx_recording *recording = bx_recording_create(), *all = bx_recording_create();
    bx_shown shown = {recording, 2};
    MPI_Request requests[3];
    bx_profile_into(recording);
    bx_profile_lap(FIRST); /* none */
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&got[i], 1, MPI_INT, self, i, MPI_COMM_WORLD, &requests[i]);
    bx_profile_lap(FIRST); /* not at its beginning */
    bx_profile_lap(SECOND);
    for (int i = 0; i < 2; i++) MPI_Send(&mine, 1, MPI_INT, self, i, MPI_COMM_WORLD);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    bx_profile_lap(SECOND); /* others still are */
    while (!done) MPI_Testany(1, &requests[1], &index, &done, MPI_STATUS_IGNORE);
    bx_profile_lap(SECOND);
    MPI_Waitsome(3, requests, &count, indices, MPI_STATUSES_IGNORE);
    bx_profile_lap(SECOND); /* not to its end */
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    bx_profile_lap(SECOND);
    MPI_Recv_init(got, 1, MPI_INT, self, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(&mine, 1, MPI_INT, self, 0, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&requests[i]);
    bx_profile_enter_region("library");
    MPI_Barrier(MPI_COMM_WORLD);
    bx_profile_leave_region();
    bx_profile_into(NULL);
    CHECK(bx_shown_requests(&shown) == 3);
    CHECK(bx_shown_laps(&shown, FIRST) == 0 && bx_shown_laps(&shown, SECOND) == 1.5);
    CHECK(bx_shown_calls(&shown, "Irecv", NULL) == 1 &&
          bx_shown_calls(&shown, "Startall", NULL) == 1);
    CHECK(bx_shown_calls(&shown, "Barrier", NULL) == 0);
    CHECK(bx_shown_calls(&shown, NULL, "library") == 0.5);
    CHECK(bx_shown_calls(&shown, NULL, "no such region") == 0);
    char other[BX_ROUTINE_NAME] = "";
    const char *most = "Send Send_init Startall Wait Waitall Waitsome Testany Iallreduce";
    CHECK(bx_shown_other_calls(MPI_COMM_WORLD, &shown, most, other) == size);
    CHECK(strcmp(other, "MPI_Irecv") == 0);
    bx_recording_move(recording, all);
    CHECK(bx_shown_calls(&shown, NULL, NULL) == 0 && bx_shown_requests(&shown) == 0);
    shown.recording = all;
    CHECK(bx_shown_calls(&shown, "Startall", NULL) == 1);
}

/* However many are under way; and looking for one among many takes no time of a step. */
static void test_many_requests(void)
{
    enum { MANY = 200, PRETENDED = 20000 };
    bx_traffic first[BX_CLASS_COUNT], then[BX_CLASS_COUNT];
    MPI_Request requests[MANY], none = MPI_REQUEST_NULL;
    int mine = 1, sums[MANY], done;
    bx_profile_read(first);
    for (int i = 0; i < MANY; i++)
        MPI_Iallreduce(&mine, &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < MANY; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    bx_profile_read(then);
    CHECK(then[BX_COLLECTIVE].calls - first[BX_COLLECTIVE].calls == 2 * MANY);
    CHECK(then[BX_P2P].calls == first[BX_P2P].calls);
    CHECK(bx_calls.requests == 0);

    double least = INFINITY;
    MPI_Iallreduce(&mine, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; i < PRETENDED; i++) bx_calls_remember(requests[0]);
    requests[1] = MPI_REQUEST_NULL;
    for (int i = 0; i < 20; i++) {
        double wall = PMPI_Wtime(), clock = bx_profile_clock();
        for (int k = 0; k < 10; k++) MPI_Test(&none, &done, MPI_STATUS_IGNORE);
        clock = bx_profile_clock() - clock;
        least = fmin(least, clock / (PMPI_Wtime() - wall));
    }
    CHECK(least < 0.5);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    bx_calls.requests = 0;
}

/* Seconds in MPI are those of the clock that steps are measured by.  A rank may lose its core
 * between two readings, but not always; and in MPI, which may take nearly all of the time. */
static void test_seconds(void)
{
    double off = INFINITY, began = bx_ticks_now(), first = bx_profile_seconds(),
           start = PMPI_Wtime();
    for (int i = 0; i < 20 && off > 1e-3; i++) {
        double seconds = PMPI_Wtime(), ticks = bx_ticks_now();
        while (PMPI_Wtime() < seconds + 5e-3) {
        }
        seconds = PMPI_Wtime() - seconds;
        ticks = (bx_ticks_now() - ticks) * bx_ticks_second;
        off = fmin(off, fabs(ticks / seconds - 1));
    }
    CHECK(off <= 1e-3);
    do MPI_Barrier(MPI_COMM_SELF);
    while (PMPI_Wtime() < start + 0.02);
    double seconds = bx_profile_seconds() - first;
    double wall = (bx_ticks_now() - began) * bx_ticks_second;
    CHECK(seconds > 0 && seconds < wall);

    double reading = bx_ticks_reading, clock = bx_profile_clock();
    bx_ticks_reading = 1 / bx_ticks_second; /* 1 s: the counter was far slower at the start */
    first = bx_profile_seconds();
    MPI_Barrier(MPI_COMM_SELF);
    CHECK(bx_profile_seconds() == first && bx_profile_clock() >= clock);
    bx_ticks_reading = reading;
}

/* ---- what a counted call costs ---- */

/* So many peers are pretended: the routines that look at each then do nothing else. */
static bx_peers crowd;
static MPI_Comm crowded = MPI_COMM_NULL;
const bx_peers *__real_bx_peers_find_comm(MPI_Comm comm);
const bx_peers *__wrap_bx_peers_find_comm(MPI_Comm comm);
const bx_peers *__wrap_bx_peers_find_comm(MPI_Comm comm)
{
    return comm == crowded ? &crowd : __real_bx_peers_find_comm(comm);
}
#define IDLE_WITH_MANY(name, parameters, arguments)                                                \
    int __real_PMPI_##name parameters;                                                             \
    int __wrap_PMPI_##name parameters;                                                             \
    int __wrap_PMPI_##name parameters                                                              \
    {                                                                                              \
        return c == crowded ? MPI_SUCCESS : __real_PMPI_##name arguments;                          \
    }
IDLE_WITH_MANY(Alltoall,
               (const void *s, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt, MPI_Comm c),
               (s, n, t, r, rn, rt, c))
IDLE_WITH_MANY(Alltoallv,
               (const void *s, const int *n, const int *d, MPI_Datatype t, void *r, const int *rn,
                const int *rd, MPI_Datatype rt, MPI_Comm c),
               (s, n, d, t, r, rn, rd, rt, c))
IDLE_WITH_MANY(Alltoallw,
               (const void *s, const int *n, const int *d, const MPI_Datatype *t, void *r,
                const int *rn, const int *rd, const MPI_Datatype *rt, MPI_Comm c),
               (s, n, d, t, r, rn, rd, rt, c))

IDLE_WITH_MANY(Ialltoall,
               (const void *s, int n, MPI_Datatype t, void *r, int rn, MPI_Datatype rt, MPI_Comm c,
                MPI_Request *q),
               (s, n, t, r, rn, rt, c, q))

enum { MOST = 100000 };
static int counts[MOST], node[MOST]; /* of the crowd */
static MPI_Datatype types[MOST];

static void gather_crowd(int peers)
{
    int near = peers < 128 ? peers : 128;
    for (int p = 0; p < peers; p++) types[p] = MPI_INT, node[p] = p / 128;
    crowd = (bx_peers){.size = peers, .node = node, .near = node, .off_node = peers - near};
}

/* The steps' clock stands still while many peers are counted. */
static void test_clock(void)
{
    double least = INFINITY;
    MPI_Comm_dup(MPI_COMM_SELF, &crowded);
    gather_crowd(MOST);
    for (int i = 0; i < 20; i++) {
        double wall = PMPI_Wtime(), clock = bx_profile_clock();
        for (int k = 0; k < 10; k++)
            MPI_Alltoallv(NULL, counts, counts, MPI_INT, NULL, counts, counts, MPI_INT, crowded);
        clock = bx_profile_clock() - clock;
        least = fmin(least, clock / (PMPI_Wtime() - wall));
    }
    CHECK(least < 0.5);
    MPI_Barrier(crowded);
    CHECK(bx_calls.resumed_at == 0); /* a call begins at the end of its own pause alone */
    MPI_Comm_free(&crowded);
}

/* A request that the library has completed at once is under way until the next wait. */
static void test_done_at_once(void)
{
    int mine = 1, got, self = rank;
    bx_recording *recording = bx_recording_create();
    bx_shown shown = {recording, 1};
    MPI_Request requests[2] = {MPI_REQUEST_NULL};
    MPI_Comm_dup(MPI_COMM_SELF, &crowded);
    gather_crowd(1);
    bx_profile_into(recording);
    bx_profile_lap(0);
    MPI_Ialltoall(&mine, 1, MPI_INT, &got, 1, MPI_INT, crowded, &requests[0]);
    bx_profile_lap(0);
    bx_profile_lap(0); /* one is, all along this lap */
    MPI_Irecv(&got, 1, MPI_INT, self, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Send(&mine, 1, MPI_INT, self, 0, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    bx_profile_lap(0);
    bx_profile_lap(0); /* none is */
    bx_profile_into(NULL);
    CHECK(requests[0] == MPI_REQUEST_NULL && bx_calls.requests == 0);
    CHECK(bx_shown_requests(&shown) == 2 && bx_shown_laps(&shown, 0) == 1);
    MPI_Comm_free(&crowded);
}

enum { BATCHES = 400, BATCH = 250 };
/* The least seconds of a call, by the clock of the steps; batches of both kinds take turns. */
#define LEAST_OF(least, call)                                                                      \
    do {                                                                                           \
        double start = bx_profile_clock();                                                         \
        for (int i = 0; i < BATCH; i++) call;                                                      \
        least = fmin(least, (bx_profile_clock() - start) / BATCH);                                 \
    } while (0)
#define PRINT_COST(call, ...) PRINT_COST_OF(1, P##call, call, __VA_ARGS__)
#define IRECV_ISEND_WAITALL(p)                                                                     \
    (p##MPI_Irecv(&got, 1, type, 0, 0, comm, &both[0]),                                            \
     p##MPI_Isend(&one, 1, type, 0, 0, comm, &both[1]),                                            \
     p##MPI_Waitall(2, both, MPI_STATUSES_IGNORE))
#define PRINT_COST_OF(calls, bare_call, call, ...)                                                 \
    do {                                                                                           \
        double bare = INFINITY, counted = INFINITY;                                                \
        for (int batch = 0; batch < BATCHES; batch++) {                                            \
            LEAST_OF(bare, bare_call);                                                             \
            LEAST_OF(counted, call);                                                               \
        }                                                                                          \
        char text[48];                                                                             \
        snprintf(text, sizeof text, __VA_ARGS__);                                                  \
        printf("%-36s %5.1f %5.1f %5.1f\n", text, 1e9 * bare / calls, 1e9 * counted / calls,       \
               1e9 * (counted - bare) / calls);                                                    \
    } while (0)

/* Each class of call of one rank with itself. */
static void print_costs(void)
{
    const MPI_Comm comm = MPI_COMM_SELF;
    const MPI_Datatype type = MPI_INT;
    int zero = 0, one = 1, got, done;
    MPI_Request request = MPI_REQUEST_NULL;
    printf("%-36s %5s %5s %5s ns\n", "", "bare", "now", "more");
    PRINT_COST(MPI_Iprobe(0, 0, comm, &done, MPI_STATUS_IGNORE), "Iprobe");
    PRINT_COST(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "Test");
    PRINT_COST(MPI_Send(&one, 1, type, MPI_PROC_NULL, 0, comm), "Send, to nobody");
    PRINT_COST(MPI_Sendrecv(&one, 1, type, 0, 0, &got, 1, type, 0, 0, comm, MPI_STATUS_IGNORE),
               "Sendrecv");
    MPI_Request both[2];
    PRINT_COST_OF(3, IRECV_ISEND_WAITALL(P), IRECV_ISEND_WAITALL(), "Irecv, Isend, Waitall");
    PRINT_COST(MPI_Barrier(comm), "Barrier");
    PRINT_COST(MPI_Bcast(&zero, 1, type, 0, comm), "Bcast");
    PRINT_COST(MPI_Reduce(&one, &got, 1, type, MPI_SUM, 0, comm), "Reduce");
    PRINT_COST(MPI_Allreduce(&one, &got, 1, type, MPI_SUM, comm), "Allreduce");
    PRINT_COST(MPI_Allgather(&one, 1, type, &got, 1, type, comm), "Allgather");
    PRINT_COST(MPI_Alltoall(&one, 1, type, &got, 1, type, comm), "Alltoall");
    PRINT_COST(MPI_Alltoallv(&one, &one, &zero, type, &got, &one, &zero, type, comm), "Alltoallv");

    MPI_Win window;
    int *memory;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, comm, &memory, &window);
    MPI_Win_lock_all(0, window);
    PRINT_COST(MPI_Put(&one, 1, type, 0, 0, 1, type, window), "Put");
    PRINT_COST(MPI_Fetch_and_op(&one, &got, type, 0, 0, MPI_SUM, window), "Fetch_and_op");
    PRINT_COST(MPI_Win_flush_all(window), "Win_flush_all");
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);

    MPI_Comm_dup(comm, &crowded);
    for (int peers = 1; peers <= MOST; peers *= 10) {
        gather_crowd(peers);
        PRINT_COST(MPI_Alltoall(&one, 1, type, &got, 1, type, crowded), "Alltoall, %d peers",
                   peers);
        PRINT_COST(MPI_Alltoallv(&one, counts, counts, type, &got, counts, counts, type, crowded),
                   "Alltoallv, %d peers", peers);
        PRINT_COST(MPI_Alltoallw(&one, counts, counts, types, &got, counts, counts, types, crowded),
                   "Alltoallw, %d peers", peers);
        fflush(stdout);
    }
    for (int p = 0; p < MOST; p++) counts[p] = 1;
    PRINT_COST(MPI_Alltoallv(&one, counts, counts, type, &got, counts, counts, type, crowded),
               "Alltoallv, data for each peer");
    PRINT_COST(MPI_Alltoallw(&one, counts, counts, types, &got, counts, counts, types, crowded),
               "Alltoallw, data for each peer");
    MPI_Comm_free(&crowded);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    node_of = bx_memory_alloc((size_t)size, sizeof *node_of);
    for (int r = 0; r < size; r++) node_of[r] = r / 2 % 2; /* a node's ranks are not in a row */
    bool costs = argc > 1 && strcmp(argv[1], "cost") == 0;
    bx_profile_start(MPI_COMM_WORLD, node_of, !costs);
    if (costs) {
        if (rank == 0) print_costs();
        bx_profile_stop();
        free(node_of);
        return MPI_Finalize();
    }
    test_all(MPI_COMM_WORLD);
    for (int turn = 0; turn < 4; turn++) { /* handles come again, as another's */
        MPI_Comm copy, part;
        MPI_Comm_split(MPI_COMM_WORLD, turn < 2 ? rank % (turn + 1) : 0, -rank, &part);
        MPI_Comm_dup(turn % 2 ? part : MPI_COMM_WORLD, &copy);
        test_all(part);
        test_all(copy);
        MPI_Comm_free(&part);
        MPI_Comm_free(&copy);
    }
    test_classes();
    test_shown();
    test_done_at_once();
    test_many_requests();
    test_seconds();
    test_clock();
    bx_ticks_counted = false; /* where no counter is trusted */
    bx_ticks_second = 1;
    bx_ticks_reading = 0;
    test_seconds();
    bx_profile_stop();
    free(node_of);
    MPI_Finalize();
    return unit_failures > 0;
}

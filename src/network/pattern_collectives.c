/* Patterns of one collective call, over all ranks. */
#include "pattern.h"

#include <stdlib.h>
#include <time.h>

/* One exchange by one call. */
#define EXCHANGE(name, call)                                                                       \
    static void exchange_##name(const bx_patterns *s, int number) { call; }
#define SENT bx_pattern_sent(s, number)
#define RECEIVED bx_pattern_received(s, number)
#define BLOCK s->words, MPI_UINT64_T
#define BLOCKS s->counts, s->offsets, MPI_UINT64_T /* of equal length, which could differ */

EXCHANGE(alltoall, MPI_Alltoall(SENT, BLOCK, RECEIVED, BLOCK, s->comm))
EXCHANGE(alltoallv, MPI_Alltoallv(SENT, BLOCKS, RECEIVED, BLOCKS, s->comm))
EXCHANGE(allgather, MPI_Allgather(SENT, BLOCK, RECEIVED, BLOCK, s->comm))
EXCHANGE(allgatherv, MPI_Allgatherv(SENT, BLOCK, RECEIVED, BLOCKS, s->comm))
EXCHANGE(allreduce, MPI_Allreduce(SENT, RECEIVED, BLOCK, MPI_SUM, s->comm))
EXCHANGE(reduce_scatter, MPI_Reduce_scatter_block(SENT, RECEIVED, BLOCK, MPI_SUM, s->comm))
EXCHANGE(bcast, MPI_Bcast(s->rank == 0 ? SENT : RECEIVED, BLOCK, 0, s->comm))

/* A message from each rank to each other one. */
static double messages_to_each(const bx_patterns *s) { return s->size * (s->size - 1.0); }

/* Each unit gets the blocks of the others: all ranks less those of the emptiest unit. */
static double volume_others(const bx_patterns *s)
{
    int fewest = s->size;
    for (int unit = 0; unit < s->units; unit++)
        if (bx_pattern_ranks(s, unit) < fewest) fewest = bx_pattern_ranks(s, unit);
    return s->size - fewest;
}

/* ---- a block to each rank and one from each ---- */

static void route_to_each(bx_patterns *s)
{
    for (int rank = 0; rank < s->size; rank++) {
        bx_pattern_send_to(s, rank);
        bx_pattern_receive_from(s, rank);
    }
}

static double volume_alltoall(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units; unit++) {
        double ranks = bx_pattern_ranks(s, unit);
        most = fmax(most, ranks * (s->size - ranks));
    }
    return most;
}

#define TO_EACH(name, routine)                                                                     \
    .calls = routine, .route = route_to_each, .exchange = exchange_##name,                         \
    .messages = messages_to_each, .volume = volume_alltoall

/* Beside MPI_Alltoallv it shows what a transpose pays for blocks that may differ, and so what
 * padding them to one size can win (Bethune 2010, section 4.2 and figure 2). */
const bx_pattern bx_pattern_alltoall = {
    .summary = "MPI_Alltoall: all blocks of one size",
    .wins =
        "MPI may forward short blocks in log2(ranks) steps; wins for small blocks on many ranks",
    TO_EACH(alltoall, "Alltoall"),
};

const bx_pattern bx_pattern_alltoallv = {
    .summary = "MPI_Alltoallv with equal counts: blocks that could differ",
    .wins = "one message per pair; level with alltoall once the blocks are large",
    TO_EACH(alltoallv, "Alltoallv"),
};

/* ---- one block to all ranks alike, and one from each ---- */

static void route_gather(bx_patterns *s)
{
    s->to[s->sent_blocks++] = BX_EVERYONE;
    for (int rank = 0; rank < s->size; rank++) bx_pattern_receive_from(s, rank);
}

#define TO_ALL(name, routine)                                                                      \
    .calls = routine, .to_everyone = true, .route = route_gather, .exchange = exchange_##name,     \
    .messages = messages_to_each, .volume = volume_others

const bx_pattern bx_pattern_allgather = {
    .summary = "MPI_Allgather: a block of each rank to all",
    .wins = "short blocks join in log2(ranks) steps, long ones go round a ring",
    TO_ALL(allgather, "Allgather"),
};

const bx_pattern bx_pattern_allgatherv = {
    .summary = "MPI_Allgatherv with equal counts: blocks that could differ",
    .wins = "level with allgather once the blocks are large",
    TO_ALL(allgatherv, "Allgatherv"),
};

/* ---- sums of integers: every bit of every contribution counts, in whatever order ---- */

static void route_allreduce(bx_patterns *s)
{
    s->to[s->sent_blocks++] = BX_EVERYONE;
    s->from[s->received_blocks++] = BX_EVERYONE;
}

static double messages_allreduce(const bx_patterns *s) { return s->size > 1 ? s->size : 0; }

/* A unit sends its part of the sum away and the finished part to the others. */
static double volume_allreduce(const bx_patterns *s) { return 2 * (s->units - 1.0) / s->units; }

#define SUM_TO_ALL                                                                                 \
    .to_everyone = true, .reduced = true, .route = route_allreduce,                                \
    .messages = messages_allreduce, .volume = volume_allreduce

const bx_pattern bx_pattern_allreduce = {
    .summary = "MPI_Allreduce: a sum over all ranks, to all",
    .wins = "8 B show the latency of log2(ranks) steps, or of a network that adds",
    .calls = "Allreduce",
    .exchange = exchange_allreduce,
    SUM_TO_ALL,
};

#ifdef BX_MPI_4
static void open_allreduce(bx_patterns *s)
{
    s->persistent = bx_memory_alloc((size_t)s->sets * (size_t)s->count, sizeof *s->persistent);
    for (s->set = 0; s->set < s->sets; s->set++)
        for (int number = 0; number < s->count; number++)
            MPI_Allreduce_init(SENT, RECEIVED, BLOCK, MPI_SUM, s->comm, MPI_INFO_NULL,
                               &s->persistent[bx_pattern_number(s, number)]);
}
#else
static void open_allreduce(bx_patterns *s) {}
#endif

static void close_allreduce(bx_patterns *s)
{
    for (int i = 0; i < s->sets * s->count; i++) MPI_Request_free(&s->persistent[i]);
    free(s->persistent);
}

static void exchange_allreduce_init(const bx_patterns *s, int number)
{
    MPI_Request *request = &s->persistent[bx_pattern_number(s, number)];
    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static bool has_persistent(const bx_patterns *s, char *why, size_t why_size)
{
    return bx_mpi_4_applies(why, why_size);
}

const bx_pattern bx_pattern_allreduce_init = {
    .summary = "as allreduce, by requests that are made once (MPI_Allreduce_init)",
    .wins = "where the library prepares a sum once",
    .calls = "Start Wait",
    .open = open_allreduce,
    .close = close_allreduce,
    .applicable = has_persistent,
    .exchange = exchange_allreduce_init,
    SUM_TO_ALL,
};

static void route_scatter(bx_patterns *s)
{
    for (int rank = 0; rank < s->size; rank++) bx_pattern_send_to(s, rank);
    s->from[s->received_blocks++] = BX_EVERYONE;
}

const bx_pattern bx_pattern_reduce_scatter = {
    .summary = "MPI_Reduce_scatter_block: a sum over all ranks, a block of it to each",
    .wins = "half of an allreduce",
    .calls = "Reduce_scatter_block",
    .reduced = true,
    .route = route_scatter,
    .exchange = exchange_reduce_scatter,
    .messages = messages_to_each,
    .volume = volume_others,
};

/* ---- from rank 0, one in a step: the root of a second one would run ahead of the first ---- */

static void route_bcast(bx_patterns *s)
{
    if (s->rank == 0)
        s->to[s->sent_blocks++] = BX_EVERYONE;
    else
        s->from[s->received_blocks++] = 0;
}

static double messages_bcast(const bx_patterns *s) { return s->size - 1; }

static double volume_bcast(const bx_patterns *s) { return s->units > 1; }

const bx_pattern bx_pattern_bcast = {
    .summary = "MPI_Bcast: from rank 0 to all",
    .wins = "the slowest rank's time; the branch of a tree that is slow shows",
    .calls = "Bcast",
    .to_everyone = true,
    .single = true,
    .route = route_bcast,
    .exchange = exchange_bcast,
    .messages = messages_bcast,
    .volume = volume_bcast,
};

/* ---- barrier ---- */

static void route_barrier(bx_patterns *s) {}

static void exchange_barrier(const bx_patterns *s, int number) { MPI_Barrier(s->comm); }

/* One rank in turn comes late, and the others write to it as soon as they have left: none may have
 * left before the late one has entered.  Returns how many have. */
static double left_early(bx_patterns *s)
{
    const struct timespec late = {0, 5000000}; /* s, ns */
    int latecomer = (int)(s->block_number % (uint64_t)s->size), early = 0;
    if (s->rank != latecomer) {
        s->pattern->exchange(s, 0);
        MPI_Send(NULL, 0, MPI_UINT64_T, latecomer, BX_WINDOW, s->comm);
        return 0;
    }
    nanosleep(&late, NULL);
    for (int look = 0; look < 2 && !early; look++) /* Open MPI makes progress after the first */
        MPI_Iprobe(MPI_ANY_SOURCE, BX_WINDOW, s->comm, &early, MPI_STATUS_IGNORE);
    s->pattern->exchange(s, 0);
    for (int i = 1; i < s->size; i++)
        MPI_Recv(NULL, 0, MPI_UINT64_T, MPI_ANY_SOURCE, BX_WINDOW, s->comm, MPI_STATUS_IGNORE);
    return early;
}

const bx_pattern bx_pattern_barrier = {
    .summary = "MPI_Barrier",
    .wins = "the latency of log2(ranks) steps, or of a network that synchronises",
    .calls = "Barrier",
    .route = route_barrier,
    .exchange = exchange_barrier,
    .inspect = left_early,
};

/* Patterns of messages between pairs of ranks, and of one-sided accesses. */
#include "grid.h"
#include "pattern.h"

#include <stdlib.h>

/* ---- units, and who is opposite ---- */

static int unit_of(const bx_patterns *s, int rank)
{
    int low = 0, high = s->units; /* unit_first[low] <= place < unit_first[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (s->unit_first[middle] <= s->place[rank])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The rank that has the place in unit `other` which this rank has in its own; MPI_PROC_NULL: none
 * has, or `other` is -1. */
static int counterpart(const bx_patterns *s, int other)
{
    if (other < 0) return MPI_PROC_NULL;
    int seat = s->place[s->rank] - s->unit_first[unit_of(s, s->rank)];
    return seat < bx_pattern_ranks(s, other) ? s->order[s->unit_first[other] + seat]
                                             : MPI_PROC_NULL;
}

/* The unit opposite to a unit: first half to second half; -1: the middle one of an odd number. */
static int opposite(const bx_patterns *s, int unit)
{
    int half = s->units / 2, distance = s->units - half;
    if (unit < half) return unit + distance;
    return unit >= distance ? unit - distance : -1;
}

/* Pairs of ranks between two units: the ranks of the smaller one; 0 where `other` is -1. */
static int pairs(const bx_patterns *s, int unit, int other)
{
    if (other < 0) return 0;
    int here = bx_pattern_ranks(s, unit), there = bx_pattern_ranks(s, other);
    return here < there ? here : there;
}

static int fullest(const bx_patterns *s)
{
    int most = 0;
    for (int unit = 0; unit < s->units; unit++)
        if (bx_pattern_ranks(s, unit) > most) most = bx_pattern_ranks(s, unit);
    return most;
}

/* A block to a rank and one from it; none if it is MPI_PROC_NULL. */
static void route_both_ways(bx_patterns *s, int partner)
{
    bx_pattern_send_to(s, partner);
    bx_pattern_receive_from(s, partner);
}

/* Sends and receives the blocks of the route, all at once. */
static void exchange(const bx_patterns *s, int number)
{
    uint64_t *sent = bx_pattern_sent(s, number), *received = bx_pattern_received(s, number);
    int requests = 0;
    for (int b = 0; b < s->received_blocks; b++)
        MPI_Irecv(&received[(size_t)b * (size_t)s->words], s->words, MPI_UINT64_T, s->from[b], b,
                  s->comm, &s->requests[requests++]);
    for (int b = 0; b < s->sent_blocks; b++)
        MPI_Isend(&sent[(size_t)b * (size_t)s->words], s->words, MPI_UINT64_T, s->to[b], b, s->comm,
                  &s->requests[requests++]);
    MPI_Waitall(requests, s->requests, MPI_STATUSES_IGNORE);
}

#define ALL_AT_ONCE .calls = "Irecv Isend Waitall", .exchange = exchange, .at_once = true

static bool needs_two_ranks(const bx_patterns *s, char *why, size_t why_size)
{
    snprintf(why, why_size, "needs two ranks");
    return s->size >= 2;
}

static bool needs_two_nodes(const bx_patterns *s, char *why, size_t why_size)
{
    snprintf(why, why_size, "needs two nodes");
    return bx_run_node_count(s->run) >= 2;
}

/* ---- one message there and back between the first rank and one of the second half ---- */

static int partner_of_pingpong(const bx_patterns *s)
{
    int first = s->order[0], second = s->order[s->unit_first[opposite(s, 0)]];
    return s->rank == first ? second : s->rank == second ? first : MPI_PROC_NULL;
}

static void route_pingpong(bx_patterns *s) { route_both_ways(s, partner_of_pingpong(s)); }

/* No copy is hidden behind the other rank's: each way is a copy, a message and a copy. */
static void exchange_pingpong(const bx_patterns *s, int number)
{
    if (!s->sent_blocks) return;
    for (int way = 0; way < 2; way++)
        if ((s->rank == s->order[0]) == (way == 0)) {
            bx_pattern_stage_out(s, number);
            MPI_Send(bx_pattern_sent(s, number), s->words, MPI_UINT64_T, s->to[0], 0, s->comm);
        } else {
            MPI_Recv(bx_pattern_received(s, number), s->words, MPI_UINT64_T, s->from[0], 0, s->comm,
                     MPI_STATUS_IGNORE);
            bx_pattern_stage_in(s, number);
        }
}

static double messages_pingpong(const bx_patterns *s) { return 2; }

static double volume_pingpong(const bx_patterns *s) { return 1; }

const bx_pattern bx_pattern_pingpong = {
    .summary = "half of the way there and back between two ranks, of two nodes if there are two",
    .wins = "latency and bandwidth of one message",
    .calls = "Send Recv",
    .slots = true,
    .items = 2,
    .applicable = needs_two_ranks,
    .route = route_pingpong,
    .exchange = exchange_pingpong,
    .stages = true,
    .messages = messages_pingpong,
    .volume = volume_pingpong,
};

/* ---- all ranks of the first node with those of the node opposite ---- */

static void route_node_to_node(bx_patterns *s)
{
    int unit = unit_of(s, s->rank), other = opposite(s, unit);
    bool chosen = unit == 0 || other == 0;
    route_both_ways(s, chosen ? counterpart(s, other) : MPI_PROC_NULL);
}

static double volume_node_to_node(const bx_patterns *s) { return pairs(s, 0, opposite(s, 0)); }

static double messages_node_to_node(const bx_patterns *s) { return 2 * volume_node_to_node(s); }

const bx_pattern bx_pattern_node_to_node = {
    .summary = "all ranks of one node with those of another, both ways at once",
    .wins = "what a node's adapters carry",
    .slots = true,
    .applicable = needs_two_nodes,
    .route = route_node_to_node,
    ALL_AT_ONCE,
    .messages = messages_node_to_node,
    .volume = volume_node_to_node,
};

/* Many short messages in flight from each rank of the first node to the node opposite. */
static void route_message_rate(bx_patterns *s)
{
    int unit = unit_of(s, s->rank), other = opposite(s, unit);
    bool sends = unit == 0, receives = other == 0;
    int partner = sends || receives ? counterpart(s, other) : MPI_PROC_NULL;
    for (int i = 0; i < BX_WINDOW; i++) {
        bx_pattern_send_to(s, sends ? partner : MPI_PROC_NULL);
        bx_pattern_receive_from(s, receives ? partner : MPI_PROC_NULL);
    }
}

static double messages_message_rate(const bx_patterns *s)
{
    return BX_WINDOW * pairs(s, 0, opposite(s, 0));
}

const bx_pattern bx_pattern_message_rate = {
    .summary =
        "64 messages in flight from each rank of a node to the node opposite; time per message",
    .wins = "the gap between short messages of a rank while all ranks of its node send",
    .slots = true,
    .items = BX_WINDOW,
    .applicable = needs_two_ranks,
    .route = route_message_rate,
    .messages = messages_message_rate,
    ALL_AT_ONCE,
};

/* ---- each node of one half with one of the other half: what the bisection carries ---- */

static void route_bisecting(bx_patterns *s)
{
    route_both_ways(s, counterpart(s, opposite(s, unit_of(s, s->rank))));
}

/* Messages one way, and those of the two units that have most. */
static double messages_across(const bx_patterns *s)
{
    double sum = 0;
    for (int unit = 0; unit < s->units / 2; unit++) sum += pairs(s, unit, opposite(s, unit));
    return sum;
}

static double volume_across(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units / 2; unit++)
        most = fmax(most, pairs(s, unit, opposite(s, unit)));
    return most;
}

static double messages_bisecting(const bx_patterns *s) { return 2 * messages_across(s); }

const bx_pattern bx_pattern_bisecting = {
    .summary = "every node of one half with one of the other half, both ways at once",
    .wins = "what the bisection of the network carries, where routes do not collide",
    .slots = true,
    .applicable = needs_two_ranks,
    .route = route_bisecting,
    ALL_AT_ONCE,
    .messages = messages_bisecting,
    .volume = volume_across,
};

/* One-sided, and one way: from the first half to the second. */
static void route_across(bx_patterns *s)
{
    int unit = unit_of(s, s->rank), across = opposite(s, unit), partner = counterpart(s, across);
    if (unit < across)
        bx_pattern_send_to(s, partner);
    else
        bx_pattern_receive_from(s, partner);
}

static void exchange_put(const bx_patterns *s, int number)
{
    if (s->sent_blocks == 0) return;
    MPI_Aint offset = (MPI_Aint)bx_pattern_number(s, number) * s->words;
    MPI_Put(bx_pattern_sent(s, number), s->words, MPI_UINT64_T, s->to[0], offset, s->words,
            MPI_UINT64_T, s->windows[1]);
    MPI_Win_flush(s->to[0], s->windows[1]);
}

static void exchange_get(const bx_patterns *s, int number)
{
    if (s->received_blocks == 0) return;
    MPI_Aint offset = (MPI_Aint)bx_pattern_number(s, number) * s->words;
    MPI_Get(bx_pattern_received(s, number), s->words, MPI_UINT64_T, s->from[0], offset, s->words,
            MPI_UINT64_T, s->windows[0]);
    MPI_Win_flush(s->from[0], s->windows[0]);
}

#define ONE_SIDED                                                                                  \
    .slots = true, .one_sided = true, .applicable = needs_two_ranks, .route = route_across,        \
    .messages = messages_across, .volume = volume_across

const bx_pattern bx_pattern_put = {
    .summary = "MPI_Put from one half of the nodes into the other, with a flush",
    .wins = "one-sided codes; the target takes no part where the network has RDMA",
    ONE_SIDED,
    .calls = "Put Win_flush",
    .exchange = exchange_put,
};

const bx_pattern bx_pattern_get = {
    .summary = "MPI_Get by one half of the nodes from the other, with a flush",
    .wins = "one-sided codes; a way and back for each",
    ONE_SIDED,
    .calls = "Get Win_flush",
    .exchange = exchange_get,
};

#define DEALT(name) BETWEEN_RANKS(name), .is_dealt = is_dealt_##name

#define BETWEEN_RANKS(name)                                                                        \
    .slots = true, .applicable = needs_two_ranks, .route = route_##name, ALL_AT_ONCE,              \
    .messages = messages_##name, .volume = volume_##name

/* ---- dealt anew for each block of samples ---- */

/* A random order of 0 .. count-1, the same on every rank, new in each deal; the caller frees it. */
static int *shuffled(const bx_patterns *s, int count)
{
    return bx_random_order(count, bx_random_hash(bx_run_seed(s->run), s->block_number));
}

/* Nodes in random pairs: the effective bisection bandwidth (T. Hoefler, T. Schneider,
 * A. Lumsdaine, Cluster 2008). */
static void route_random_matching(bx_patterns *s)
{
    int unit = unit_of(s, s->rank), other = -1, *dealt = shuffled(s, s->units);
    for (int i = 0; i + 1 < s->units; i += 2) {
        if (dealt[i] == unit) other = dealt[i + 1];
        if (dealt[i + 1] == unit) other = dealt[i];
    }
    free(dealt);
    route_both_ways(s, counterpart(s, other));
}

/* Units 0 and 1 of the order are a pair, 2 and 3, and so on. */
static bool is_dealt_random_matching(const bx_patterns *s, uint64_t seed)
{
    int *order = bx_random_order(s->units, seed), at = 0, unit = unit_of(s, s->rank);
    while (order[at] != unit) at++;
    int partner = (at ^ 1) < s->units ? counterpart(s, order[at ^ 1]) : MPI_PROC_NULL;
    free(order);
    return s->sent_blocks == 0 ? partner == MPI_PROC_NULL : s->to[0] == partner;
}

static double messages_random_matching(const bx_patterns *s)
{
    double messages = 0;
    int *dealt = shuffled(s, s->units);
    for (int pair = 0; pair < s->units / 2; pair++)
        messages += 2 * pairs(s, dealt[2 * pair], dealt[2 * pair + 1]);
    free(dealt);
    return messages;
}

/* The most ranks that two units of one pair both have, however units are matched in pairs, as more
 * than half of the units have them. */
static double volume_random_matching(const bx_patterns *s)
{
    int ranks = fullest(s), as_full = 0;
    for (; as_full <= s->units - s->units / 2 && ranks > 0; ranks--) {
        as_full = 0;
        for (int unit = 0; unit < s->units; unit++) as_full += bx_pattern_ranks(s, unit) >= ranks;
    }
    return ranks + 1;
}

const bx_pattern bx_pattern_random_matching = {
    .summary = "random pairs of nodes, both ways at once",
    .wins = "the effective bisection: what remains where routes collide",
    DEALT(random_matching),
};

/* All ranks with both neighbours at once (HPC Challenge, random ring). */
static void route_random_ring(bx_patterns *s)
{
    int *ring = shuffled(s, s->size), seat = 0;
    while (ring[seat] != s->rank) seat++;
    int next = ring[(seat + 1) % s->size], last = ring[(seat + s->size - 1) % s->size];
    bx_pattern_send_to(s, next);
    bx_pattern_send_to(s, last);
    bx_pattern_receive_from(s, last);
    bx_pattern_receive_from(s, next);
    free(ring);
}

/* A rank sends to those before and after it in the order, whichever comes first. */
static bool is_dealt_random_ring(const bx_patterns *s, uint64_t seed)
{
    int *order = bx_random_order(s->size, seed), before = order[s->size - 1], after = order[0];
    for (int at = 0; at < s->size; at++) {
        if (order[at] == s->rank && at > 0) before = order[at - 1];
        if (order[at] == s->rank && at + 1 < s->size) after = order[at + 1];
    }
    free(order);
    return (s->to[0] == before && s->to[1] == after) || (s->to[0] == after && s->to[1] == before);
}

static double messages_random_ring(const bx_patterns *s) { return 2.0 * s->size; }

/* Of a rank's two neighbours, so many are in other units on average. */
static double volume_random_ring(const bx_patterns *s)
{
    double ranks = fullest(s);
    return 2 * ranks * (s->size - ranks) / (s->size - 1);
}

const bx_pattern bx_pattern_random_ring = {
    .summary = "all ranks with both neighbours in a random ring",
    .wins = "a code whose neighbours are anywhere",
    DEALT(random_ring),
};

/* ---- neighbours in a periodic grid of ranks, as domain decomposition has them ---- */

static void route_halo(bx_patterns *s)
{
    for (int side = 0; side < BX_GRID_SIDES; side++) {
        bx_pattern_send_to(s, bx_grid_neighbour(s->rank, s->size, side));
        bx_pattern_receive_from(s, bx_grid_neighbour(s->rank, s->size, side ^ 1));
    }
}

static double messages_halo(const bx_patterns *s)
{
    int extent[3] = {0, 0, 0};
    MPI_Dims_create(s->size, 3, extent);
    return 2.0 * s->size * ((extent[0] > 1) + (extent[1] > 1) + (extent[2] > 1));
}

static double volume_halo(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units; unit++) {
        double blocks = 0;
        for (int place = s->unit_first[unit]; place < s->unit_first[unit + 1]; place++)
            for (int side = 0; side < BX_GRID_SIDES; side++) {
                int other = bx_grid_neighbour(s->order[place], s->size, side);
                blocks += other != MPI_PROC_NULL && unit_of(s, other) != unit;
            }
        most = fmax(most, blocks);
    }
    return most;
}

const bx_pattern bx_pattern_halo = {
    .summary = "each rank with its neighbours in a 3D periodic grid of ranks, at most six",
    .wins = "codes that cut space into domains",
    BETWEEN_RANKS(halo),
};

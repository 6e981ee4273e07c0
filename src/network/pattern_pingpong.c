/* One message there and back between the first rank and its counterpart in the second half. */
#include "pattern.h"

static int partner(const bx_patterns *s)
{
    int first = s->order[0];
    int second = s->order[s->unit_first[bx_pattern_opposite(s, 0)]];
    return s->rank == first ? second : s->rank == second ? first : MPI_PROC_NULL;
}

static void route(bx_patterns *s)
{
    bx_pattern_send_to(s, partner(s));
    bx_pattern_receive_from(s, partner(s));
}

static void exchange(const bx_patterns *s, int number)
{
    if (s->sent_blocks == 0) return;
    uint64_t *sent = bx_pattern_sent(s, number), *received = bx_pattern_received(s, number);
    bool first = s->rank == s->order[0];
    if (first) MPI_Send(sent, s->words, MPI_UINT64_T, s->to[0], 0, s->comm);
    MPI_Recv(received, s->words, MPI_UINT64_T, s->from[0], 0, s->comm, MPI_STATUS_IGNORE);
    if (!first) MPI_Send(sent, s->words, MPI_UINT64_T, s->to[0], 0, s->comm);
}

static double messages(const bx_patterns *s) { return 2; }

static double volume(const bx_patterns *s) { return 1; }

const bx_pattern bx_pattern_pingpong = {
    .summary = "half of the way there and back between two ranks, of two nodes if there are two",
    .wins = "latency and bandwidth of one message",
    .slots = true,
    .items = 2,
    .applicable = bx_pattern_needs_two_ranks,
    .route = route,
    .exchange = exchange,
    .messages = messages,
    .volume = volume,
};

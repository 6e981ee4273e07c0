/* MPI_Allreduce of integers: every bit of every contribution counts in the sum, and the sum does
 * not depend on the order. */
#include "pattern.h"

static void route(bx_patterns *s)
{
    s->to[s->sent_blocks++] = BX_EVERYONE;
    s->from[s->received_blocks++] = BX_EVERYONE;
}

static void exchange(const bx_patterns *s, int number)
{
    MPI_Allreduce(bx_pattern_sent(s, number), bx_pattern_received(s, number), s->words,
                  MPI_UINT64_T, MPI_SUM, s->comm);
}

static double messages(const bx_patterns *s) { return s->size > 1 ? s->size : 0; }

/* A unit sends its part of the sum away and the finished part to the others. */
static double volume(const bx_patterns *s) { return 2 * (s->units - 1.0) / s->units; }

const bx_pattern bx_pattern_allreduce = {
    .summary = "MPI_Allreduce: a sum over all ranks, to all",
    .wins = "8 B show the latency of log2(ranks) steps, or of a network that adds",
    .to_everyone = true,
    .reduced = true,
    .route = route,
    .exchange = exchange,
    .messages = messages,
    .volume = volume,
};

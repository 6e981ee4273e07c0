/* MPI_Reduce_scatter_block: a sum of which each rank gets a block. */
#include "pattern.h"

static void route(bx_patterns *s)
{
    for (int rank = 0; rank < s->size; rank++) bx_pattern_send_to(s, rank);
    s->from[s->received_blocks++] = BX_EVERYONE;
}

static void exchange(const bx_patterns *s, int number)
{
    MPI_Reduce_scatter_block(bx_pattern_sent(s, number), bx_pattern_received(s, number), s->words,
                             MPI_UINT64_T, MPI_SUM, s->comm);
}

const bx_pattern bx_pattern_reduce_scatter = {
    .summary = "MPI_Reduce_scatter_block: a sum over all ranks, a block of it to each",
    .wins = "half of an allreduce",
    .reduced = true,
    .route = route,
    .exchange = exchange,
    .messages = bx_pattern_messages_to_each,
    .volume = bx_pattern_volume_others,
};

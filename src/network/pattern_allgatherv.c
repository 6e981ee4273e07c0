/* MPI_Allgatherv with equal counts. */
#include "pattern.h"

static void exchange(const bx_patterns *s, int number)
{
    MPI_Allgatherv(bx_pattern_sent(s, number), s->words, MPI_UINT64_T,
                   bx_pattern_received(s, number), s->counts, s->offsets, MPI_UINT64_T, s->comm);
}

const bx_pattern bx_pattern_allgatherv = {
    .summary = "MPI_Allgatherv with equal counts: blocks that could differ",
    .wins = "level with allgather once the blocks are large",
    .to_everyone = true,
    .route = bx_pattern_route_gather,
    .exchange = exchange,
    .messages = bx_pattern_messages_to_each,
    .volume = bx_pattern_volume_others,
};

/* MPI_Allgather. */
#include "pattern.h"

static void exchange(const bx_patterns *s, int number)
{
    MPI_Allgather(bx_pattern_sent(s, number), s->words, MPI_UINT64_T,
                  bx_pattern_received(s, number), s->words, MPI_UINT64_T, s->comm);
}

const bx_pattern bx_pattern_allgather = {
    .summary = "MPI_Allgather: a block of each rank to all",
    .wins = "short blocks join in log2(ranks) steps, long ones go round a ring",
    .to_everyone = true,
    .route = bx_pattern_route_gather,
    .exchange = exchange,
    .messages = bx_pattern_messages_to_each,
    .volume = bx_pattern_volume_others,
};

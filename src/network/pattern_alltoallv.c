/* MPI_Alltoallv with equal counts. */
#include "pattern.h"

static void exchange(const bx_patterns *s, int number)
{
    MPI_Alltoallv(bx_pattern_sent(s, number), s->counts, s->offsets, MPI_UINT64_T,
                  bx_pattern_received(s, number), s->counts, s->offsets, MPI_UINT64_T, s->comm);
}

const bx_pattern bx_pattern_alltoallv = {
    .summary = "MPI_Alltoallv with equal counts: blocks that could differ",
    .wins = "one message per pair; level with alltoall once the blocks are large",
    .route = bx_pattern_route_to_each,
    .exchange = exchange,
    .messages = bx_pattern_messages_to_each,
    .volume = bx_pattern_volume_alltoall,
};

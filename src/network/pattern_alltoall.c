/* MPI_Alltoall: beside MPI_Alltoallv it shows what a transpose pays for blocks that may differ, and
 * so what padding them to one size can win (Bethune 2010, section 4.2 and figure 2). */
#include "pattern.h"

static void exchange(const bx_patterns *s, int number)
{
    MPI_Alltoall(bx_pattern_sent(s, number), s->words, MPI_UINT64_T, bx_pattern_received(s, number),
                 s->words, MPI_UINT64_T, s->comm);
}

const bx_pattern bx_pattern_alltoall = {
    .summary = "MPI_Alltoall: all blocks of one size",
    .wins =
        "MPI may forward short blocks in log2(ranks) steps; wins for small blocks on many ranks",
    .route = bx_pattern_route_to_each,
    .exchange = exchange,
    .messages = bx_pattern_messages_to_each,
    .volume = bx_pattern_volume_alltoall,
};

/* MPI_Put and a flush, from each rank of one half to one of the other. */
#include "pattern.h"

static void exchange(const bx_patterns *s, int number)
{
    if (s->sent_blocks == 0) return;
    MPI_Aint offset = (MPI_Aint)number * s->words;
    MPI_Put(bx_pattern_sent(s, number), s->words, MPI_UINT64_T, s->to[0], offset, s->words,
            MPI_UINT64_T, s->windows[1]);
    MPI_Win_flush(s->to[0], s->windows[1]);
}

const bx_pattern bx_pattern_put = {
    .summary = "MPI_Put from one half of the nodes into the other, with a flush",
    .wins = "one-sided codes; the target takes no part where the network has RDMA",
    BX_PATTERN_ONE_SIDED,
    .exchange = exchange,
};

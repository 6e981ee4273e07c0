/* MPI_Get and a flush, by each rank of one half from one of the other. */
#include "pattern.h"

static void exchange(const bx_patterns *s, int number)
{
    if (s->received_blocks == 0) return;
    MPI_Aint offset = (MPI_Aint)number * s->words;
    MPI_Get(bx_pattern_received(s, number), s->words, MPI_UINT64_T, s->from[0], offset, s->words,
            MPI_UINT64_T, s->windows[0]);
    MPI_Win_flush(s->from[0], s->windows[0]);
}

const bx_pattern bx_pattern_get = {
    .summary = "MPI_Get by one half of the nodes from the other, with a flush",
    .wins = "one-sided codes; a way and back for each",
    BX_PATTERN_ONE_SIDED,
    .exchange = exchange,
};

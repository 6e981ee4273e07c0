/* MPI_Bcast from rank 0, one in a step: the root of a second one would run ahead of the first. */
#include "pattern.h"

static void route(bx_patterns *s)
{
    if (s->rank == 0)
        s->to[s->sent_blocks++] = BX_EVERYONE;
    else
        s->from[s->received_blocks++] = 0;
}

static void exchange(const bx_patterns *s, int number)
{
    uint64_t *block = s->rank == 0 ? bx_pattern_sent(s, number) : bx_pattern_received(s, number);
    MPI_Bcast(block, s->words, MPI_UINT64_T, 0, s->comm);
}

static double messages(const bx_patterns *s) { return s->size - 1; }

static double volume(const bx_patterns *s) { return s->units > 1; }

const bx_pattern bx_pattern_bcast = {
    .summary = "MPI_Bcast: from rank 0 to all",
    .wins = "the slowest rank's time; the branch of a tree that is slow shows",
    .to_everyone = true,
    .single = true,
    .route = route,
    .exchange = exchange,
    .messages = messages,
    .volume = volume,
};

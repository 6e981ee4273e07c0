/* MPI_Barrier. */
#include "pattern.h"

#include <time.h>

static void route(bx_patterns *s) {}

static void exchange(const bx_patterns *s, int number) { MPI_Barrier(s->comm); }

/* One rank in turn comes late, and the others write to it as soon as they have left: none may have
 * left before the late one has entered.  Returns how many have. */
static double left_early(bx_patterns *s)
{
    const struct timespec late = {0, 5000000}; /* s, ns */
    int latecomer = (int)(s->deal % (uint64_t)s->size), early = 0, waiting = 0;
    if (s->rank != latecomer) {
        s->pattern->exchange(s, 0);
        MPI_Send(NULL, 0, MPI_UINT64_T, latecomer, BX_WINDOW, s->comm);
        return 0;
    }
    nanosleep(&late, NULL);
    MPI_Iprobe(MPI_ANY_SOURCE, BX_WINDOW, s->comm, &waiting, MPI_STATUS_IGNORE);
    early = waiting;
    s->pattern->exchange(s, 0);
    for (int i = 1; i < s->size; i++)
        MPI_Recv(NULL, 0, MPI_UINT64_T, MPI_ANY_SOURCE, BX_WINDOW, s->comm, MPI_STATUS_IGNORE);
    return early;
}

const bx_pattern bx_pattern_barrier = {
    .summary = "MPI_Barrier",
    .wins = "the latency of log2(ranks) steps, or of a network that synchronises",
    .route = route,
    .exchange = exchange,
    .inspect = left_early,
};

/* All ranks in a random ring, with both neighbours at once; dealt anew for each block of samples
 * (HPC Challenge, random ring). */
#include "pattern.h"

#include <stdlib.h>

static void route(bx_patterns *s)
{
    int *ring = bx_memory_alloc((size_t)s->size, sizeof *ring), seat = 0;
    bx_pattern_shuffle(s, s->size, ring);
    while (ring[seat] != s->rank) seat++;
    int next = ring[(seat + 1) % s->size], last = ring[(seat + s->size - 1) % s->size];
    bx_pattern_send_to(s, next);
    bx_pattern_send_to(s, last);
    bx_pattern_receive_from(s, last);
    bx_pattern_receive_from(s, next);
    free(ring);
}

static double messages(const bx_patterns *s) { return 2.0 * s->size; }

/* Of a rank's two neighbours, so many are in other units on average. */
static double volume(const bx_patterns *s)
{
    double ranks = bx_pattern_fullest(s);
    return 2 * ranks * (s->size - ranks) / (s->size - 1);
}

const bx_pattern bx_pattern_random_ring = {
    .summary = "all ranks with both neighbours in a random ring",
    .wins = "a code whose neighbours are anywhere",
    .slots = true,
    .applicable = bx_pattern_needs_two_ranks,
    .route = route,
    .exchange = bx_pattern_exchange,
    .messages = messages,
    .volume = volume,
};

/* Nodes in random pairs, all at once, dealt anew for each block of samples: the effective bisection
 * bandwidth (T. Hoefler, T. Schneider, A. Lumsdaine, Cluster 2008).  */
#include "pattern.h"

#include <stdlib.h>

static void route(bx_patterns *s)
{
    int unit = bx_pattern_unit(s, s->rank), other = -1;
    int *dealt = bx_memory_alloc((size_t)s->units, sizeof *dealt);
    bx_pattern_shuffle(s, s->units, dealt);
    for (int i = 0; i + 1 < s->units; i += 2) {
        if (dealt[i] == unit) other = dealt[i + 1];
        if (dealt[i + 1] == unit) other = dealt[i];
    }
    free(dealt);
    int partner = bx_pattern_counterpart(s, other);
    bx_pattern_send_to(s, partner);
    bx_pattern_receive_from(s, partner);
}

/* Of this deal. */
static double messages(const bx_patterns *s)
{
    double messages = 0;
    int *dealt = bx_memory_alloc((size_t)s->units, sizeof *dealt);
    bx_pattern_shuffle(s, s->units, dealt);
    for (int pair = 0; pair < s->units / 2; pair++)
        messages += 2 * bx_pattern_pairs(s, dealt[2 * pair], dealt[2 * pair + 1]);
    free(dealt);
    return messages;
}

const bx_pattern bx_pattern_random_matching = {
    .summary = "random pairs of nodes, both ways at once",
    .wins = "the effective bisection: what remains where routes collide",
    .slots = true,
    .applicable = bx_pattern_needs_two_ranks,
    .route = route,
    .exchange = bx_pattern_exchange,
    .messages = messages,
    .volume = bx_pattern_volume_matched,
};

/* All ranks of the first node with those of the node opposite, both ways at once. */
#include "pattern.h"

static void route(bx_patterns *s)
{
    int unit = bx_pattern_unit(s, s->rank), other = bx_pattern_opposite(s, unit);
    bool chosen = unit == 0 || other == 0;
    int partner = chosen ? bx_pattern_counterpart(s, other) : MPI_PROC_NULL;
    bx_pattern_send_to(s, partner);
    bx_pattern_receive_from(s, partner);
}

static double volume(const bx_patterns *s)
{
    return bx_pattern_pairs(s, 0, bx_pattern_opposite(s, 0));
}

static double messages(const bx_patterns *s) { return 2 * volume(s); }

const bx_pattern bx_pattern_node_to_node = {
    .summary = "all ranks of one node with those of another, both ways at once",
    .wins = "what a node's adapters carry",
    .slots = true,
    .applicable = bx_pattern_needs_two_nodes,
    .route = route,
    .exchange = bx_pattern_exchange,
    .messages = messages,
    .volume = volume,
};

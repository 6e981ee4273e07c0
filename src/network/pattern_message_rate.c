/* Many short messages in flight from each rank of the first node to the node opposite. */
#include "pattern.h"

static void route(bx_patterns *s)
{
    int unit = bx_pattern_unit(s, s->rank), other = bx_pattern_opposite(s, unit);
    bool sends = unit == 0, receives = other == 0;
    int partner = sends || receives ? bx_pattern_counterpart(s, other) : MPI_PROC_NULL;
    for (int i = 0; i < BX_WINDOW; i++) {
        bx_pattern_send_to(s, sends ? partner : MPI_PROC_NULL);
        bx_pattern_receive_from(s, receives ? partner : MPI_PROC_NULL);
    }
}

static double messages(const bx_patterns *s)
{
    return BX_WINDOW * bx_pattern_pairs(s, 0, bx_pattern_opposite(s, 0));
}

const bx_pattern bx_pattern_message_rate = {
    .summary =
        "64 messages in flight from each rank of a node to the node opposite; time per message",
    .wins = "the gap between short messages of a rank while all ranks of its node send",
    .slots = true,
    .items = BX_WINDOW,
    .applicable = bx_pattern_needs_two_ranks,
    .route = route,
    .messages = messages,
    .exchange = bx_pattern_exchange,
};

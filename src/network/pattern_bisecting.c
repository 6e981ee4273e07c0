/* Each node of one half with one of the other half, all at once: what the bisection carries. */
#include "pattern.h"

static void route(bx_patterns *s)
{
    int other = bx_pattern_opposite(s, bx_pattern_unit(s, s->rank));
    int partner = bx_pattern_counterpart(s, other);
    bx_pattern_send_to(s, partner);
    bx_pattern_receive_from(s, partner);
}

/* Both ways. */
static double messages(const bx_patterns *s) { return 2 * bx_pattern_messages_across(s); }

const bx_pattern bx_pattern_bisecting = {
    .summary = "every node of one half with one of the other half, both ways at once",
    .wins = "what the bisection of the network carries, where routes do not collide",
    .slots = true,
    .applicable = bx_pattern_needs_two_ranks,
    .route = route,
    .exchange = bx_pattern_exchange,
    .messages = messages,
    .volume = bx_pattern_volume_across,
};

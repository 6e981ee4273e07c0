/* Who meets whom: a tournament by the circle method, its rounds cut into slots. */
#include "pairs.h"

enum { NODES_PER_PAIR = 128 }; /* in thin mode, where switches are unknown */

void bx_pairs_schedule_create(bx_pairs_schedule *schedule, int nodes, bx_pairs_mode mode,
                              const int *switch_of, int switches, uint64_t seed)
{
    int seats = nodes + nodes % 2;
    *schedule = (bx_pairs_schedule){.nodes = nodes,
                                    .seats = seats,
                                    .rounds = seats - 1,
                                    .node_at = bx_random_order(seats, bx_random_hash(seed, 0)),
                                    .order = bx_random_order(seats - 1, bx_random_hash(seed, 1)),
                                    .mode = mode,
                                    .switch_of = switch_of,
                                    .switches = switches};
    if (switch_of) schedule->seen = bx_memory_alloc((size_t)switches, sizeof *schedule->seen);
}

void bx_pairs_schedule_free(bx_pairs_schedule *schedule)
{
    BX_FREE(schedule->node_at, schedule->order, schedule->seen);
}

/* Turns by first fit: each takes, in order, the pairs whose switches it does not have yet. */
static void take_slots(const bx_pairs_schedule *schedule, bx_pairs_meeting *meetings, int count)
{
    for (int s = 0; s < schedule->switches; s++) schedule->seen[s] = -1;
    for (int slot = 0, taken = 0; taken < count; slot++)
        for (int i = taken; i < count; i++) {
            bx_pairs_meeting meeting = meetings[i];
            int *a = &schedule->seen[schedule->switch_of[meeting.a]],
                *b = &schedule->seen[schedule->switch_of[meeting.b]];
            if (*a == slot || *b == slot) continue;
            *a = *b = meeting.slot = slot;
            meetings[i] = meetings[taken];
            meetings[taken++] = meeting;
        }
}

int bx_pairs_schedule_round(const bx_pairs_schedule *schedule, int round,
                            bx_pairs_meeting *meetings)
{
    int circle = schedule->seats - 1, centre = schedule->order[round], count = 0;
    const int *node_at = schedule->node_at;
    for (int distance = 0; distance < schedule->seats / 2; distance++) {
        /* the last seat, outside of the circle, meets the centre */
        int left = distance == 0 ? circle : (centre + distance) % circle,
            right = distance == 0 ? centre : (centre - distance + circle) % circle;
        bx_pairs_meeting meeting = {node_at[left], node_at[right], 0};
        if (meeting.a < schedule->nodes && meeting.b < schedule->nodes) meetings[count++] = meeting;
    }
    int at_once = schedule->mode == BX_PAIRS_concurrent  ? count
                  : schedule->mode == BX_PAIRS_serial    ? 1
                  : schedule->nodes / NODES_PER_PAIR > 1 ? schedule->nodes / NODES_PER_PAIR
                                                         : 1;
    if (schedule->mode == BX_PAIRS_thin && schedule->switch_of)
        take_slots(schedule, meetings, count);
    else
        for (int i = 0; i < count; i++) meetings[i].slot = i / at_once;
    return count;
}

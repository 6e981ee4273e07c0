/* Bulk synchronous: every rank first waits for all positions, then for all forces. */
#include "method.h"

static void take(bx_messages *m, bool forces)
{
    for (int i = 0; i < m->receive_count; i++) {
        if (m->received.list[m->receives[i].first].forces != forces) continue;
        MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        while (!bx_messages_deliver(m, i)) {
            bx_messages_post(m, i);
            MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        }
    }
}

static void run(bx_messages *m)
{
    for (bx_objects *o = m->objects; o->step < o->until; o->step++) {
        bx_messages_post_all(m);
        bx_messages_release(m);
        take(m, false);
        while (bx_objects_run(o)) continue;
        bx_messages_release(m);
        take(m, true);
    }
}

const bx_method bx_method_static = {
    .about = {.name = "static",
              .summary = "all positions, then all pairs, then all forces",
              .wins = "nowhere, if polling is free and the network carries single messages"},
    .holds = true,
    .run = run,
};

/* One message after the other: all that it enables runs before the next. */
#include "method.h"

static void receive(bx_messages *m, bool wait)
{
    int index;
    if (!wait) return;
    MPI_Waitany(m->receive_count, m->requests, &index, MPI_STATUS_IGNORE);
    bx_messages_take(m, index);
}

static void run(bx_messages *m)
{
    bx_messages_post_all(m);
    bx_method_drive(m, receive);
}

const bx_method bx_method_waitany = {
    .about = {.name = "waitany",
              .summary = "MPI_Waitany when no pair can run",
              .wins = "where each look for messages is dear"},
    .run = run,
};

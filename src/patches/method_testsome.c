/* Messages are looked for between any two pairs. */
#include "method.h"

static void receive(bx_messages *m, bool wait)
{
    int count;
    if (wait)
        MPI_Waitsome(m->receive_count, m->requests, &count, m->indices, m->statuses);
    else
        MPI_Testsome(m->receive_count, m->requests, &count, m->indices, m->statuses);
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++) bx_messages_take(m, m->indices[i]);
}

void bx_method_run_some(bx_messages *m)
{
    bx_messages_post_all(m);
    bx_method_drive(m, receive);
}

const bx_method bx_method_testsome = {
    .about = {.name = "testsome",
              .summary = "MPI_Testsome between pairs, MPI_Waitsome when none can run",
              .wins = "where computing hides messages"},
    .run = bx_method_run_some,
};

/* Messages are looked for between any two pairs. */
#include "method.h"

static void run(bx_messages *m)
{
    bx_messages_post_all(m);
    bx_method_drive(m, bx_method_receive_some);
}

const bx_method bx_method_testsome = {
    .about = {.name = "testsome",
              .summary = "MPI_Testsome between pairs, MPI_Waitsome when none can run",
              .wins = "where computing hides messages"},
    .run = run,
};

/* One shared counter, on rank 0, which computes too. */
#include "tasks.h"

const bx_tasks_method bx_tasks_counter = {
    .summary = "a counter on rank 0, which takes tasks too, by MPI_Fetch_and_op",
    .wins = "balanced; where accesses to rank 0 need its help, they wait until its task has ended",
    .asks = true,
    .draw = bx_tasks_draw_shared,
};

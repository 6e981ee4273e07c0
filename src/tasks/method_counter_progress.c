/* One shared counter, on a rank that is spared for it. */
#include "tasks.h"

const bx_tasks_method bx_tasks_counter_progress = {
    .about = {.name = "counter_progress",
              .summary = "a counter on rank 0, which takes no tasks and stays in MPI",
              .wins = "no draw waits for a task; costs a rank"},
    .spare = true,
    .asks = true,
    .draw = bx_tasks_draw_shared,
};

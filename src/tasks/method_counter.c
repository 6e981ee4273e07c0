/* One shared counter, on rank 0, which computes too. */
#include "tasks.h"

int64_t bx_tasks_fetch_and_add(MPI_Win window, int rank, int64_t word, int64_t added)
{
    int64_t before;
    MPI_Fetch_and_op(&added, &before, MPI_INT64_T, rank, (MPI_Aint)word, MPI_SUM, window);
    MPI_Win_flush(rank, window);
    return before;
}

int64_t bx_tasks_draw_shared(bx_tasks *s) { return bx_tasks_fetch_and_add(s->window, 0, 0, 1); }

const bx_tasks_method bx_tasks_counter = {
    .about = {.name = "counter",
              .summary = "a counter on rank 0, which takes tasks too, by MPI_Fetch_and_op",
              .wins = "balanced; where accesses to rank 0 need its help, they wait until its task "
                      "has ended"},
    .asks = true,
    .draw = bx_tasks_draw_shared,
};

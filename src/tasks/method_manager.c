/* A rank that hands out numbers by messages. */
#include "tasks.h"

enum { ASK, ANSWER, LEAVE };

static int64_t draw(bx_tasks *s)
{
    int64_t number;
    MPI_Send(NULL, 0, MPI_INT64_T, 0, ASK, s->comm);
    MPI_Recv(&number, 1, MPI_INT64_T, 0, ANSWER, s->comm, MPI_STATUS_IGNORE);
    return number;
}

static void leave(bx_tasks *s) { MPI_Send(NULL, 0, MPI_INT64_T, 0, LEAVE, s->comm); }

static void serve(bx_tasks *s)
{
    for (int workers = s->ranks - 1; workers > 0;) {
        MPI_Status from;
        MPI_Recv(NULL, 0, MPI_INT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &from);
        if (from.MPI_TAG == ASK)
            MPI_Send(&s->next, 1, MPI_INT64_T, from.MPI_SOURCE, ANSWER, s->comm);
        s->next += from.MPI_TAG == ASK;
        workers -= from.MPI_TAG == LEAVE;
    }
}

const bx_tasks_method bx_tasks_manager = {
    .about = {.name = "manager",
              .summary = "rank 0 takes no tasks and answers messages that ask for numbers",
              .wins = "needs no one-sided counter; costs a rank, and a way and back for each task"},
    .spare = true,
    .asks = true,
    .draw = draw,
    .leave = leave,
    .serve = serve,
};

/* Puts, synchronised with the neighbours alone: post, start, complete, wait. */
#include "one_sided.h"

static void start(void *me, int copy)
{
    bx_one_sided *self = me;
    MPI_Win_post(self->from, 0, self->window);
    bx_messages_pack(self->messages, copy);
    MPI_Win_start(self->to, 0, self->window);
    bx_one_sided_put(self);
}

static void finish(void *me, int copy)
{
    bx_one_sided *self = me;
    MPI_Win_complete(self->window);
    MPI_Win_wait(self->window);
    bx_messages_unpack(self->messages, copy);
}

const bx_method bx_method_rma_pscw = {
    .about = {.name = "rma-pscw",
              .summary =
                  "MPI_Put, synchronised with the neighbours alone (post, start, complete, wait)",
              .wins = "as rma-fence, without holding all ranks together"},
    .create = bx_one_sided_create,
    .start = start,
    .finish = finish,
    .destroy = bx_one_sided_destroy,
};

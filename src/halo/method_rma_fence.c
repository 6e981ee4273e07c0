/* Puts between two fences, which hold all ranks together. */
#include "one_sided.h"

static void start(void *me, int copy)
{
    bx_one_sided *self = me;
    bx_messages_pack(self->messages, copy);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, self->window);
    bx_one_sided_put(self);
}

static void finish(void *me, int copy)
{
    bx_one_sided *self = me;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, self->window);
    bx_messages_unpack(self->messages, copy);
}

const bx_method bx_method_rma_fence = {
    .about = {.name = "rma-fence",
              .summary = "MPI_Put between two MPI_Win_fence",
              .wins = "no receiver has to match; but a fence holds all ranks together"},
    .create = bx_one_sided_create,
    .start = start,
    .finish = finish,
    .destroy = bx_one_sided_destroy,
};

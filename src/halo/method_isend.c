/* All messages at once, as most codes do today. */
#include "packed.h"

#include <stdlib.h>

typedef struct {
    const bx_halo_messages *messages;
    MPI_Request *requests; /* [receives + sends] */
} state;

void *bx_packed_create(const bx_halo_messages *messages)
{
    state *self = bx_memory_alloc(1, sizeof *self);
    self->messages = messages;
    BX_ALLOC((size_t)messages->count, self->requests);
    return self;
}

void bx_packed_start(void *me, int copy)
{
    state *self = me;
    bx_messages_pack(self->messages, copy);
    bx_messages_start(self->messages, self->requests);
}

void bx_packed_finish(void *me, int copy)
{
    state *self = me;
    MPI_Waitall(self->messages->count, self->requests, MPI_STATUSES_IGNORE);
    bx_messages_unpack(self->messages, copy);
}

void bx_packed_destroy(void *me)
{
    state *self = me;
    BX_FREE(self->requests, self);
}

const bx_method bx_method_isend = {
    .about = {.name = "isend",
              .summary = "MPI_Irecv and MPI_Isend of all neighbours' packed messages at once",
              .wins = "the usual form: nothing waits for anything but its own message"},
    BX_PACKED,
};

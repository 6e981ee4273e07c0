/* Requests that are made once and started in each step. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 4 };

typedef struct {
    const bx_halo_messages *messages;
    MPI_Request *requests; /* [receives + sends] */
} state;

static void *create(const bx_halo_messages *messages)
{
    state *self = bx_memory_alloc(1, sizeof *self);
    int made = 0;
    self->messages = messages;
    BX_ALLOC((size_t)messages->count, self->requests);
    for (int i = 0; i < messages->receive_count; i++) {
        const bx_halo_message *m = &messages->receives[i];
        MPI_Recv_init(&messages->received[m->at], (int)m->numbers, MPI_DOUBLE, m->rank, TAG,
                      messages->halo->comm, &self->requests[made++]);
    }
    for (int i = 0; i < messages->send_count; i++) {
        const bx_halo_message *m = &messages->sends[i];
        MPI_Send_init(&messages->sent[m->at], (int)m->numbers, MPI_DOUBLE, m->rank, TAG,
                      messages->halo->comm, &self->requests[made++]);
    }
    return self;
}

static void start(void *me, int copy)
{
    state *self = me;
    bx_messages_pack(self->messages, copy);
    MPI_Startall(self->messages->count, self->requests);
}

static void finish(void *me, int copy)
{
    state *self = me;
    MPI_Waitall(self->messages->count, self->requests, MPI_STATUSES_IGNORE);
    bx_messages_unpack(self->messages, copy);
}

static void destroy(void *me)
{
    state *self = me;
    for (int i = 0; i < self->messages->count; i++) MPI_Request_free(&self->requests[i]);
    BX_FREE(self->requests, self);
}

const bx_method bx_method_persistent = {
    .about = {.name = "persistent",
              .summary = "as isend, by requests that are made once (MPI_Send_init, MPI_Startall)",
              .wins = "where the library prepares a message once"},
    .create = create,
    .start = start,
    .finish = finish,
    .destroy = destroy,
};

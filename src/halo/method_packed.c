/* Non-blocking messages from and to packed buffers: all at once, as most codes do today.
 *
 * Costs a message per field and neighbour (aggregated: per neighbour), each byte once, packed and
 * unpacked. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 2 };

typedef struct {
    const bx_halo_messages *messages;
    MPI_Request *requests; /* [receives + sends] */
} packed_state;

/* Starts all messages, or makes their persistent requests. */
static void start_all(const packed_state *self, bool persistent)
{
    const bx_halo_messages *messages = self->messages;
    MPI_Request *next = self->requests;
    for (int i = 0; i < messages->receive_count; i++) {
        const bx_halo_message *m = &messages->receives[i];
        (persistent ? MPI_Recv_init : MPI_Irecv)(&messages->received[m->at], (int)m->numbers,
                                                 MPI_DOUBLE, m->rank, TAG, messages->halo->comm,
                                                 next++);
    }
    for (int i = 0; i < messages->send_count; i++) {
        const bx_halo_message *m = &messages->sends[i];
        (persistent ? MPI_Send_init : MPI_Isend)(&messages->sent[m->at], (int)m->numbers,
                                                 MPI_DOUBLE, m->rank, TAG, messages->halo->comm,
                                                 next++);
    }
}

void *bx_packed_create(const bx_halo_messages *messages)
{
    packed_state *self = bx_memory_alloc(1, sizeof *self);
    self->messages = messages;
    BX_ALLOC((size_t)messages->count, self->requests);
    return self;
}

void bx_packed_start(void *me, int copy)
{
    packed_state *self = me;
    bx_halo_messages_pack(self->messages, copy);
    start_all(self, false);
}

void bx_packed_finish(void *me, int copy)
{
    packed_state *self = me;
    MPI_Waitall(self->messages->count, self->requests, MPI_STATUSES_IGNORE);
    bx_halo_messages_unpack(self->messages, copy);
}

void bx_packed_destroy(void *me)
{
    packed_state *self = me;
    BX_FREE(self->requests, self);
}

#define PACKED                                                                                     \
    .at_once = true, .create = bx_packed_create, .start = bx_packed_start,                         \
    .finish = bx_packed_finish, .destroy = bx_packed_destroy

const bx_halo_method bx_halo_method_isend = {
    .about = {.name = "isend",
              .summary = "MPI_Irecv and MPI_Isend of all neighbours' packed messages at once",
              .wins = "the usual form: nothing waits for anything but its own message",
              .calls = "Isend Irecv Waitall"},
    PACKED,
};

const bx_halo_method bx_halo_method_aggregated = {
    .about = {.name = "aggregated",
              .summary = "as isend, with all fields of a neighbour in one message",
              .wins = "where messages are short: as many times fewer as there are fields",
              .calls = "Isend Irecv Waitall"},
    .aggregated = true,
    PACKED,
};

const bx_halo_method bx_halo_method_overlap = {
    .about = {.name = "overlap",
              .summary = "as isend; cells that read no halo are computed while it travels",
              .wins = "where the network moves messages while cores compute",
              .calls = "Isend Irecv Waitall"},
    .overlaps = true,
    PACKED,
};

/* ---- requests that are made once and started in each step ---- */

static void *create_persistent(const bx_halo_messages *messages)
{
    packed_state *self = bx_packed_create(messages);
    start_all(self, true);
    return self;
}

static void start_persistent(void *me, int copy)
{
    packed_state *self = me;
    bx_halo_messages_pack(self->messages, copy);
    MPI_Startall(self->messages->count, self->requests);
}

static void destroy_persistent(void *me)
{
    packed_state *self = me;
    for (int i = 0; i < self->messages->count; i++) MPI_Request_free(&self->requests[i]);
    bx_packed_destroy(me);
}

const bx_halo_method bx_halo_method_persistent = {
    .about = {.name = "persistent",
              .summary = "as isend, by requests that are made once (MPI_Send_init, MPI_Startall)",
              .wins = "where the library prepares a message once",
              .calls = "Startall Waitall"},
    .at_once = true,
    .create = create_persistent,
    .start = start_persistent,
    .finish = bx_packed_finish,
    .destroy = destroy_persistent,
};

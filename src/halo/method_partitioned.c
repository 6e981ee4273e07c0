/* Partitioned messages of MPI 4: a message per neighbour, of a part per field.  The threads of a
 * rank pack a part together; the first, which alone may call MPI, then marks it as ready.
 *
 * Costs a message per neighbour, each byte once, packed and unpacked; a call of MPI per field and
 * neighbour. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 6 };

typedef struct {
    const bx_halo_messages *messages;
    MPI_Request *requests; /* [receives + sends] */
} partitioned_state;

static bool applicable(const bx_halo *halo, char *why, size_t why_size)
{
    return bx_mpi_4_applies(why, why_size);
}

#ifdef BX_MPI_4
#define INIT(kind, buffer, m)                                                                      \
    MPI_P##kind##_init(&messages->buffer[m->at], m->fields, m->region->numbers, MPI_DOUBLE,        \
                       m->rank, TAG, messages->halo->comm, MPI_INFO_NULL, next++)
#define READY(part, request) MPI_Pready(part, request)
#else
#define INIT(kind, buffer, m) (void)m, next++
#define READY(part, request) (void)(request)
#endif

static void *create(const bx_halo_messages *messages)
{
    partitioned_state *self = bx_memory_alloc(1, sizeof *self);
    self->messages = messages;
    BX_ALLOC((size_t)messages->count, self->requests);
    MPI_Request *next = self->requests;
    for (int i = 0; i < messages->receive_count; i++) {
        const bx_halo_message *m = &messages->receives[i];
        INIT(recv, received, m);
    }
    for (int i = 0; i < messages->send_count; i++) {
        const bx_halo_message *m = &messages->sends[i];
        INIT(send, sent, m);
    }
    return self;
}

static void start(void *me, int copy)
{
    partitioned_state *self = me;
    const bx_halo_messages *messages = self->messages;
    MPI_Startall(messages->count, self->requests);
    for (int i = 0; i < messages->send_count; i++)
        for (int f = 0; f < messages->sends[i].fields; f++) {
            bx_halo_messages_pack_field(messages, copy, &messages->sends[i], f);
            READY(f, self->requests[messages->receive_count + i]);
        }
}

static void finish(void *me, int copy)
{
    partitioned_state *self = me;
    MPI_Waitall(self->messages->count, self->requests, MPI_STATUSES_IGNORE);
    bx_halo_messages_unpack(self->messages, copy);
}

static void destroy(void *me)
{
    partitioned_state *self = me;
    for (int i = 0; i < self->messages->count; i++) MPI_Request_free(&self->requests[i]);
    BX_FREE(self->requests, self);
}

const bx_halo_method bx_halo_method_partitioned = {
    .about = {.name = "partitioned",
              .summary = "as aggregated, by partitioned messages (MPI_Psend_init, MPI_Pready)",
              .wins = "where the library sends a part while the next is packed",
              .calls = "Startall Pready Waitall"},
    .aggregated = true,
    .at_once = true,
    .host_only = "the host's threads pack a part each",
    .applicable = applicable,
    .create = create,
    .start = start,
    .finish = finish,
    .destroy = destroy,
};

/* Nothing is packed by the code: MPI reads and writes the fields by derived datatypes.
 *
 * Costs a message per field and neighbour, each byte once; no copies but MPI's own. */
#include "charge.h"
#include "method.h"

#include <stdlib.h>

enum { TAG = 5 };

typedef struct {
    const bx_halo_messages *messages;
    MPI_Datatype *types;   /* [receives + sends] */
    MPI_Request *requests; /* as many */
} datatype_state;

static const bx_halo_message *nth(const bx_halo_messages *m, int i)
{
    return i < m->receive_count ? &m->receives[i] : &m->sends[i - m->receive_count];
}

static void *create(const bx_halo_messages *messages)
{
    datatype_state *self = bx_memory_alloc(1, sizeof *self);
    self->messages = messages;
    BX_ALLOC((size_t)messages->count, self->requests, self->types);
    for (int i = 0; i < messages->count; i++)
        self->types[i] = bx_region_type(nth(messages, i)->region);
    return self;
}

static void start(void *me, int copy)
{
    datatype_state *self = me;
    const bx_halo_messages *messages = self->messages;
    const bx_halo *halo = messages->halo;
    for (int i = 0; i < messages->count; i++) {
        const bx_halo_message *m = nth(messages, i);
        double *field = &halo->exchanged[copy][m->field * halo->mesh->stride];
        if (i < messages->receive_count)
            MPI_Irecv(field, 1, self->types[i], m->rank, TAG, halo->comm, &self->requests[i]);
        else
            MPI_Isend(field, 1, self->types[i], m->rank, TAG, halo->comm, &self->requests[i]);
        bx_charge(BX_COPY, (double)m->numbers * sizeof(double), false); /* MPI packs */
    }
}

static void finish(void *me, int copy)
{
    datatype_state *self = me;
    MPI_Waitall(self->messages->count, self->requests, MPI_STATUSES_IGNORE);
}

static void destroy(void *me)
{
    datatype_state *self = me;
    for (int i = 0; i < self->messages->count; i++) MPI_Type_free(&self->types[i]);
    BX_FREE(self->types, self->requests, self);
}

const bx_halo_method bx_halo_method_datatype = {
    .about = {.name = "datatype",
              .summary = "as isend, by derived datatypes in the place of packing",
              .wins = "where the library or the adapter gathers faster than a loop",
              .calls = "Isend Irecv Waitall"},
    .at_once = true,
    .not_staged = "staged: MPI reads and writes whole fields",
    .create = create,
    .start = start,
    .finish = finish,
    .destroy = destroy,
};

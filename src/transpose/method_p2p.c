/* Non-blocking point-to-point: a block is sent as soon as it is packed and unpacked as it arrives
 * (Bethune 2010, sections 4 and 5.1.1). */
#include "method.h"

#include <stdlib.h>

enum { TAG = 1 };

typedef struct {
    bx_plan *plan;
    bx_lengths lengths[2];
    bx_complex *send, *receive;
    MPI_Request *receiving, *sending; /* [ranks] */
} state;

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    state *self = malloc(sizeof *self);
    size_t ranks = (size_t)plan->geometry->ranks;
    self->plan = plan;
    for (int way = 0; way < 2; way++) self->lengths[way] = bx_lengths_create(plan, way);
    size_t a = self->lengths[0].send_total, b = self->lengths[0].receive_total;
    self->send = bx_buffer(a > b ? a : b);
    self->receive = bx_buffer(a > b ? a : b);
    self->receiving = malloc(ranks * sizeof *self->receiving);
    self->sending = malloc(ranks * sizeof *self->sending);
    return self;
}

/* Each rank begins with its right neighbour, so that not all send to the same one at once. */
static void post(state *self, bx_way way, int band, int slot)
{
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths[way];
    int ranks = plan->geometry->ranks;
    for (int i = 0; i < ranks; i++) {
        int p = (plan->rank + ranks - i) % ranks;
        self->receiving[p] = MPI_REQUEST_NULL;
        if (l->receive[p])
            MPI_Irecv(self->receive + l->receive_at[p], l->receive[p], MPI_C_DOUBLE_COMPLEX, p, TAG,
                      plan->team, &self->receiving[p]);
    }
    bx_lap(plan->run, BX_PHASE_EXCHANGE);
    for (int i = 0; i < ranks; i++) {
        int p = (plan->rank + i) % ranks;
        self->sending[p] = MPI_REQUEST_NULL;
        if (!l->send[p]) continue;
        bx_pack(plan, way, band, slot, p, self->send + l->send_at[p]);
        bx_lap(plan->run, BX_PHASE_PACK);
        MPI_Isend(self->send + l->send_at[p], l->send[p], MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team,
                  &self->sending[p]);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
    }
}

static void finish(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths[way];
    post(self, way, band, slot);
    bx_pull(plan, way, band, slot, plan->rank); /* while the others' blocks travel */
    bx_lap(plan->run, BX_PHASE_UNPACK);
    for (;;) {
        int p;
        MPI_Waitany(plan->geometry->ranks, self->receiving, &p, MPI_STATUS_IGNORE);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
        if (p == MPI_UNDEFINED) break;
        bx_unpack(plan, way, band, slot, p, self->receive + l->receive_at[p]);
        bx_lap(plan->run, BX_PHASE_UNPACK);
    }
    MPI_Waitall(plan->geometry->ranks, self->sending, MPI_STATUSES_IGNORE);
    bx_lap(plan->run, BX_PHASE_EXCHANGE);
}

static void destroy(void *me)
{
    state *self = me;
    for (int way = 0; way < 2; way++) bx_lengths_free(&self->lengths[way]);
    fftw_free(self->send);
    fftw_free(self->receive);
    free(self->receiving);
    free(self->sending);
    free(self);
}

static bx_counts count(const bx_geometry *g, bx_way way, const bx_method_options *options)
{
    (void)options;
    return bx_count_nonempty_pairs(g, way);
}

const bx_method bx_method_p2p = {
    .about = {.name = "p2p",
              .summary = "MPI_Isend and MPI_Irecv, each block unpacked as it arrives",
              .wins = "hides copying behind transfer: a little ahead of alltoallv on few ranks"},
    .create = create,
    .finish = finish,
    .destroy = destroy,
    .count = count,
};

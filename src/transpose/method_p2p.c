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

/* The n-th of `threads` equal shares of a part. */
static bx_part share(const bx_plan *plan, const bx_part *part, int n)
{
    int64_t count = part->last - part->first;
    bx_part mine = *part;
    mine.first = part->first + (int)(count * n / plan->threads);
    mine.last = part->first + (int)(count * (n + 1) / plan->threads);
    if (part->planes) mine.planes += (size_t)(mine.first - part->first) * plan->plane_size;
    return mine;
}

static void pack_threaded(const state *self, bx_way way, const bx_part *part, int peer)
{
    const bx_plan *plan = self->plan;
#pragma omp parallel for if (plan->threads > 1)
    for (int n = 0; n < plan->threads; n++) {
        bx_part mine = share(plan, part, n);
        bx_pack(plan, way, &mine, peer, self->send + self->lengths[way].send_at[peer]);
    }
}

static void unpack_threaded(const state *self, bx_way way, const bx_part *part, int peer)
{
    const bx_plan *plan = self->plan;
#pragma omp parallel for if (plan->threads > 1)
    for (int n = 0; n < plan->threads; n++) {
        bx_part mine = share(plan, part, n);
        bx_unpack(plan, way, &mine, peer, self->receive + self->lengths[way].receive_at[peer]);
    }
}

/* Receives first, then blocks packed and sent one by one; each rank begins with its right neighbour,
 * so that not all send to the same one at once. */
static void pack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths[way];
    int ranks = plan->geometry->ranks;
    (void)slot;
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
        pack_threaded(self, way, part, p);
        bx_lap(plan->run, BX_PHASE_PACK);
        MPI_Isend(self->send + l->send_at[p], l->send[p], MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team,
                  &self->sending[p]);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
    }
    if (way == BX_INVERSE) bx_move(plan, way, part, plan->rank); /* while the blocks travel */
}

static void start(void *me, bx_way way, int band, int slot)
{
    (void)me, (void)way, (void)band, (void)slot; /* under way since pack */
}

static void unpack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    (void)slot;
    if (way == BX_FORWARD) bx_move(plan, way, part, plan->rank);
    bx_lap(plan->run, BX_PHASE_UNPACK);
    for (;;) {
        int p;
        MPI_Waitany(plan->geometry->ranks, self->receiving, &p, MPI_STATUS_IGNORE);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
        if (p == MPI_UNDEFINED) break;
        unpack_threaded(self, way, part, p);
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
    .whole = true,
    .create = create,
    .pack = pack,
    .start = start,
    .unpack = unpack,
    .destroy = destroy,
    .count = count,
};

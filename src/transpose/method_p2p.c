/* Non-blocking point-to-point: a block is unpacked as it arrives and sent as soon as it is packed
 * (Bethune 2010, sections 4 and 5.1.1). */
#include "method.h"

#include <stdlib.h>

enum { TAG = 1 };

typedef struct {
    bx_plan *plan;
    bx_lengths lengths;
    bx_complex *blocks;               /* on the side of the planes */
    MPI_Request *receiving, *sending; /* [ranks] */
} state;

static void *create(bx_plan *plan, int leaders)
{
    (void)leaders;
    state *self = malloc(sizeof *self);
    size_t ranks = (size_t)plan->geometry->ranks;
    self->plan = plan;
    self->lengths = bx_lengths_create(plan);
    self->blocks = bx_buffer(self->lengths.plane_total);
    self->receiving = malloc(ranks * sizeof *self->receiving);
    self->sending = malloc(ranks * sizeof *self->sending);
    return self;
}

static void receive(state *self, int peer, bx_complex *block, int length)
{
    self->receiving[peer] = MPI_REQUEST_NULL;
    if (length > 0)
        MPI_Irecv(block, length, MPI_C_DOUBLE_COMPLEX, peer, TAG, self->plan->team,
                  &self->receiving[peer]);
}

static void send(state *self, int peer, const bx_complex *block, int length)
{
    self->sending[peer] = MPI_REQUEST_NULL;
    if (length > 0)
        MPI_Isend(block, length, MPI_C_DOUBLE_COMPLEX, peer, TAG, self->plan->team,
                  &self->sending[peer]);
}

/* The i-th partner: each rank begins with its neighbour, so that not all send to one at once. */
static int partner(const state *self, int i)
{
    return (self->plan->rank + i) % self->plan->geometry->ranks;
}

typedef void block_copy(const bx_plan *, const bx_part *, int, bx_complex *);

static void unpack_block(const bx_plan *plan, const bx_part *part, int peer, bx_complex *block)
{
    bx_unpack(plan, part, peer, block);
}

/* One block, its planes shared by the rank's threads. */
static void threaded(block_copy *copy, const bx_plan *plan, const bx_part *part, int peer,
                     bx_complex *block)
{
    int count = part->last - part->first;
#pragma omp parallel for if (plan->threads > 1)
    for (int n = 0; n < plan->threads; n++) {
        int first = (int)((int64_t)count * n / plan->threads);
        int last = (int)((int64_t)count * (n + 1) / plan->threads);
        const bx_part mine = {part->slot, part->first + first, part->first + last,
                              part->planes + (size_t)first * plan->plane_size};
        copy(plan, &mine, peer, block);
    }
}

/* Forward: everything is under way at once.  Inverse: it has been since pack. */
static void start(void *me, bx_way way, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths;
    if (way == BX_INVERSE) return;
    for (int i = 0; i < plan->geometry->ranks; i++) {
        int p = partner(self, i);
        receive(self, p, self->blocks + l->plane_at[p], l->plane_length[p]);
    }
    for (int i = 0; i < plan->geometry->ranks; i++) {
        int p = partner(self, i);
        send(self, p, bx_half_block(plan, way, slot, plan->rank, p), l->half_length[p]);
    }
}

static void unpack(void *me, const bx_part *part)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    bx_complex *own = bx_half_block(plan, BX_FORWARD, part->slot, plan->rank, plan->rank);
    threaded(unpack_block, plan, part, plan->rank, own);
    bx_lap(plan->run, BX_PHASE_UNPACK);
    for (;;) {
        int p;
        MPI_Waitany(plan->geometry->ranks, self->receiving, &p, MPI_STATUS_IGNORE);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
        if (p == MPI_UNDEFINED) break;
        threaded(unpack_block, plan, part, p, self->blocks + self->lengths.plane_at[p]);
        bx_lap(plan->run, BX_PHASE_UNPACK);
    }
    MPI_Waitall(plan->geometry->ranks, self->sending, MPI_STATUSES_IGNORE);
    bx_lap(plan->run, BX_PHASE_EXCHANGE);
}

static void pack(void *me, const bx_part *part)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths;
    for (int i = 0; i < plan->geometry->ranks; i++) {
        int p = partner(self, i);
        receive(self, p, bx_half_block(plan, BX_INVERSE, part->slot, plan->rank, p),
                l->half_length[p]);
    }
    bx_lap(plan->run, BX_PHASE_EXCHANGE);
    for (int i = 1; i <= plan->geometry->ranks;
         i++) { /* my own block last, while the others travel */
        int p = partner(self, i);
        bool own = p == plan->rank;
        bx_complex *block =
            own ? bx_half_block(plan, BX_INVERSE, part->slot, p, p) : self->blocks + l->plane_at[p];
        threaded(bx_pack, plan, part, p, block);
        bx_lap(plan->run, BX_PHASE_PACK);
        send(self, p, block, l->plane_length[p]);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
    }
}

static void finish(void *me, bx_way way, int slot)
{
    state *self = me;
    (void)slot;
    if (way == BX_FORWARD) return; /* unpack waits, block by block */
    MPI_Waitall(self->plan->geometry->ranks, self->receiving, MPI_STATUSES_IGNORE);
    MPI_Waitall(self->plan->geometry->ranks, self->sending, MPI_STATUSES_IGNORE);
}

static void destroy(void *me)
{
    state *self = me;
    bx_lengths_free(&self->lengths);
    fftw_free(self->blocks);
    free(self->receiving);
    free(self->sending);
    free(self);
}

const bx_method bx_method_p2p = {
    .about = {.name = "p2p",
              .summary = "MPI_Isend and MPI_Irecv, each block unpacked as it arrives",
              .wins = "hides copying behind transfer: ahead of alltoallv on few ranks"},
    .whole = true,
    .create = create,
    .start = start,
    .finish = finish,
    .unpack = unpack,
    .pack = pack,
    .destroy = destroy,
    .count = bx_count_nonempty_pairs,
};

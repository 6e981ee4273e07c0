/* Non-blocking point-to-point between the pairs of ranks that have data (Bethune 2010, section 4).
 * As published (section 5.1.1) copies hide behind transfer: a block is unpacked when it has come,
 * and sent when it is packed.  Without `published`, and with several threads, copies are made in
 * cache, plane by plane, as for every method. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 1 };

typedef struct {
    bx_plan *plan;
    bx_lengths lengths;
    bx_complex *blocks;    /* on the side of the planes */
    MPI_Request *requests; /* [2 * ranks] receives, then sends; each from the neighbour on */
    bool hides;            /* copies behind transfer */
    bool awaited;          /* what is to be unpacked is under way */
} state;

static void *create(bx_plan *plan, int leaders)
{
    (void)leaders;
    state *self = bx_memory_alloc(1, sizeof *self);
    size_t requests = 2 * (size_t)plan->geometry->ranks;
    self->plan = plan;
    self->lengths = bx_lengths_create(plan);
    self->blocks = bx_buffer_create(self->lengths.plane_total);
    self->requests = bx_memory_alloc(requests, sizeof *self->requests);
    for (size_t i = 0; i < requests; i++) self->requests[i] = MPI_REQUEST_NULL;
    self->hides = plan->published && plan->threads == 1 && plan->my_planes > 0;
    return self;
}

/* Each rank begins with its neighbour, so that not all send to one. */
static int peer_of(const state *self, int i)
{
    return (self->plan->rank + i) % self->plan->geometry->ranks;
}

static void post(state *self, int i, bool receive, bx_direction way, int slot)
{
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths;
    int p = peer_of(self, i);
    bool half_side = receive == (way == BX_INVERSE);
    bx_complex *block = half_side ? bx_plan_half_block(plan, way, slot, plan->rank, p)
                                  : self->blocks + l->plane_at[p];
    int length = half_side ? l->half_length[p] : l->plane_length[p];
    MPI_Request *request = &self->requests[receive ? i : plan->geometry->ranks + i];
    if (length > 0 && receive)
        MPI_Irecv(block, length, MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team, request);
    else if (length > 0)
        MPI_Isend(block, length, MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team, request);
}

static void start(void *me, bx_direction way, int slot)
{
    state *self = me;
    bool sent = self->hides && way == BX_INVERSE; /* by pack */
    int ranks = self->plan->geometry->ranks;
    for (int i = 0; i < ranks; i++) post(self, i, true, way, slot);
    for (int i = 0; i < ranks && !sent; i++) post(self, i, false, way, slot);
}

static void finish(void *me, bx_direction way, int slot)
{
    state *self = me;
    (void)slot;
    self->awaited = self->hides && way == BX_FORWARD;
    if (self->awaited) return;
    MPI_Waitall(2 * self->plan->geometry->ranks, self->requests, MPI_STATUSES_IGNORE);
}

static void unpack(void *me, const bx_part *part)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    int ranks = plan->geometry->ranks, i;
    if (!self->awaited) {
        bx_plan_unpack_all(plan, part, &self->lengths, self->blocks);
        return;
    }
    self->awaited = false;
    bx_plan_unpack(plan, part, plan->rank,
                   bx_plan_half_block(plan, BX_FORWARD, part->slot, plan->rank, plan->rank));
    for (;;) {
        MPI_Waitany(ranks, self->requests, &i, MPI_STATUS_IGNORE);
        if (i == MPI_UNDEFINED) break;
        int p = peer_of(self, i);
        bx_plan_unpack(plan, part, p, self->blocks + self->lengths.plane_at[p]);
    }
    MPI_Waitall(ranks, self->requests + ranks, MPI_STATUSES_IGNORE);
}

static void pack(void *me, const bx_part *part)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    if (!self->hides || part->last < plan->my_planes) {
        bx_plan_pack_all(plan, part, &self->lengths, self->blocks);
        return;
    }
    bx_plan_pack(plan, part, plan->rank,
                 bx_plan_half_block(plan, BX_INVERSE, part->slot, plan->rank, plan->rank));
    for (int i = 1; i < plan->geometry->ranks; i++) {
        int p = peer_of(self, i);
        bx_plan_pack(plan, part, p, self->blocks + self->lengths.plane_at[p]);
        post(self, i, false, BX_INVERSE, part->slot);
    }
}

static void destroy(void *me)
{
    state *self = me;
    bx_lengths_free(&self->lengths);
    fftw_free(self->blocks);
    free(self->requests);
    free(self);
}

const bx_method bx_method_p2p = {
    .about = {.name = "p2p",
              .summary = "MPI_Isend and MPI_Irecv between the pairs of ranks that have data",
              .wins = "no message without data: ahead of alltoallv on few ranks, or few columns"},
    .create = create,
    .start = start,
    .finish = finish,
    .unpack = unpack,
    .pack = pack,
    .destroy = destroy,
    .count = bx_count_nonempty_pairs,
};
